"""A recorded device: answers contests from what a GPU once measured, without one.

All entrants of a replayed contest need one reference: torch's samples are the median of all that is recorded
of torch on the problem, and sample i of an entrant is that median times its recorded ratio i. Nothing is
drawn, smoothed or repeated: who has fewer samples than rounds are asked for gets no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cutlass_tuner.measure.figures import Figures, Ratios
from cutlass_tuner.records import Config, Evidence, Failure, KernelConfig, LaunchConfig, Problem
from cutlass_tuner.results import LT_TUNED, TORCH
from cutlass_tuner.wire import (
    Broken,
    Contest,
    ContestResult,
    Describe,
    Described,
    Entry,
    KernelEntry,
    Refused,
    Reply,
    Request,
    Timed,
    TuneBaseline,
    TunedBaseline,
)


class RecordedDevice:
    """Has the interface of `worker.Worker`, and figures behind it instead of a process.

    `unrecorded` is the reason given for what is not recorded: it is refused, and never gets a time.
    """

    def __init__(self, described: Described, figures: Figures, unrecorded: str) -> None:
        self._described = described
        self._figures = figures
        self._unrecorded = unrecorded

    @property
    def pid(self) -> int | None:
        """This process's own: there is no child to start."""
        return os.getpid()

    def ask(self, request: Request, timeout_s: float) -> Reply | Failure:
        """The recorded answer, at once. A Failure to a contest on a problem that is not recorded."""
        if isinstance(request, Describe):
            return self._described
        if isinstance(request, TuneBaseline):
            return self._tuned(request.problem)
        return self._contest(request)

    def close(self) -> None:
        """Nothing is open."""

    def offered(
        self, kernel: KernelConfig, problem: Problem, launches: Iterable[LaunchConfig]
    ) -> list[LaunchConfig]:
        """Those of `launches` that are recorded, in their order; where none is, the first alone, so that
        the kernel is asked for on this problem, and missed, once."""
        every = list(launches)
        keys = [Config(kernel=kernel, launch=launch).key for launch in every]
        known = [one for one, key in zip(every, keys, strict=True) if self._figures.knows(problem.key, key)]
        return known or every[:1]

    # --- a contest

    def _contest(self, request: Contest) -> ContestResult | Failure:
        if request.problem.key not in self._figures.reference_us:
            return Failure(stage="time", reason=f"{request.problem.label} is {self._unrecorded}")
        like = self._in_finals(request)
        entries = [self._entry(request, entry, like) for entry in request.entries]
        reference = entries[0]
        if isinstance(reference, Refused):
            return reference.failure
        if request.stop_above > 0:
            worst = request.stop_above * reference.samples_us[0]
            dropped = (_cut(one, 1) if _first_us(one) > worst else one for one in entries[1:])
            entries = [reference, *dropped]  # torch stays: an incumbent may be that much faster
        elif request.check_after:
            # Finalists meet in every round: who has fewer samples than others would count as dropped.
            rounds = min(len(one.samples_us) for one in entries if isinstance(one, Timed))
            entries = [_cut(one, rounds) for one in entries]
        return ContestResult(entries=tuple(entries))

    def _in_finals(self, request: Contest) -> bool:
        """Are the kernels of this contest to have their finals' figures? Only all of them or none: the two
        kinds do not compare."""
        kernels = [entry.name for entry in request.entries if isinstance(entry, KernelEntry)]
        played = self._figures.finals
        return request.check_after and all((request.problem.key, name) in played for name in kernels)

    def _entry(self, request: Contest, entry: Entry, in_finals: bool) -> Timed | Refused:
        problem = request.problem.key
        if isinstance(entry, KernelEntry):
            outcome = self._kernel(problem, entry.name, in_finals)
        elif entry.name == TORCH:
            outcome = self._torch(problem, request.rounds)
        else:
            outcome = self._baseline(problem, entry.name)
        if isinstance(outcome, Failure):
            return Refused(name=entry.name, failure=outcome)
        return _cut(outcome, request.rounds)

    def _kernel(self, problem: str, config: str, in_finals: bool) -> Timed | Failure:
        failure = self._figures.failure(problem, config)
        played = self._figures.played(problem, config, final=in_finals)
        if failure is not None:
            return failure
        if played is None:
            return self._missing()
        one = played.measurement
        return Timed(
            name=config,
            samples_us=self._samples_us(problem, played.ratios),
            launches_per_sample=one.launches_per_sample,
            evidence=one.evidence,
            readback=one.readback,
            workspace_bytes=one.readback.workspace_bytes,
        )

    def _torch(self, problem: str, rounds: int) -> Timed:
        """The reference. Its answers are recorded with a final only: without one they are taken to be right,
        as every recorded ratio to it takes them."""
        result = self._figures.baselines.get((problem, TORCH))
        longest = self._figures.longest[problem]
        unseen = Evidence(
            elements=longest.evidence.elements,
            unwritten=0,
            nonfinite=0,
            guard_touched=0,
            error_over_bound=0.0,
            max_abs_error=0.0,
            exact_mismatches=0,
        )
        return Timed(
            name=TORCH,
            samples_us=self._samples_us(problem, (1.0,) * rounds),
            launches_per_sample=longest.launches_per_sample,
            evidence=result.evidence if result is not None and result.evidence is not None else unseen,
            workspace_bytes=result.workspace_bytes if result is not None else 0,
        )

    def _baseline(self, problem: str, name: str) -> Timed | Failure:
        """Any other baseline, in the recorded final of this problem."""
        result, ratios = (
            self._figures.baselines.get((problem, name)),
            self._figures.theirs.get((problem, name)),
        )
        if result is None:
            return self._missing()
        if ratios is None or result.evidence is None:
            return result.failure or self._missing()
        return Timed(
            name=name,
            samples_us=self._samples_us(problem, ratios),
            launches_per_sample=self._figures.longest[problem].launches_per_sample,
            evidence=result.evidence,
            workspace_bytes=result.workspace_bytes,
        )

    def _missing(self) -> Failure:
        return Failure(stage="time", reason=self._unrecorded)

    def _samples_us(self, problem: str, ratios: Ratios) -> Ratios:
        us = self._figures.reference_us[problem]
        return tuple(us * ratio for ratio in ratios)

    # --- cuBLASLt

    def _tuned(self, problem: Problem) -> TunedBaseline | Broken:
        found = self._figures.baselines.get((problem.key, LT_TUNED))
        if found is None or not found.algorithm:
            failure = found.failure if found is not None else None
            return Broken(failure=failure or self._missing(), fatal=False)
        return TunedBaseline(
            algorithm=found.algorithm,
            tried_us=found.tried_us,
            workspace_bytes=found.workspace_bytes,
            rejected=found.rejected,
        )


def _first_us(entry: Timed | Refused) -> float:
    return entry.samples_us[0] if isinstance(entry, Timed) else 0.0


def _cut(entry: Timed | Refused, rounds: int) -> Timed | Refused:
    if isinstance(entry, Refused):
        return entry
    return entry.model_copy(update={"samples_us": entry.samples_us[:rounds]})
