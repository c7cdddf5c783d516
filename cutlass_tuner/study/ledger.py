"""What a study's events amount to: the views every reader derives from them, kept up as events come."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from cutlass_tuner.events import (
    Answered,
    Asked,
    BaselineMeasured,
    BaselineResult,
    Event,
    FinalRow,
    Finished,
    KernelBuilt,
    KernelFailed,
    KernelTold,
    Measured,
    RunFailed,
)
from cutlass_tuner.records import (
    Build,
    KernelConfig,
    LaunchConfig,
    Measurement,
    Proposal,
    Record,
)
from cutlass_tuner.statistics import MANY_ROUNDS, disturbed

CONDEMNED_AFTER = 2
"""A kernel that loses the measuring child on this many problems is condemned for the study."""


def log_ratio(measurement: Measurement) -> float | None:
    """log(time / reference) as the median over paired samples; None where it may not rank: a wrong answer, or
    a few rounds of which one was disturbed (the median of many bears with that)."""
    if not measurement.verdict.passed or not measurement.samples_us:
        return None
    if len(measurement.samples_us) < MANY_ROUNDS and disturbed(measurement.reference_us):
        return None
    pairs = zip(measurement.samples_us, measurement.reference_us, strict=True)
    return statistics.median(math.log(ours / theirs) for ours, theirs in pairs)


class Best(Record):
    """The best verified measurement of a problem. `speedup` is reference time / its time."""

    measurement: Measurement
    speedup: float


class StudySummary(Record):
    """Counts of a study, for one line of text. `speedup` is by problem key, best verified kernel."""

    built: int
    build_failed: int
    measured: int
    wrong: int
    run_failed: int
    condemned: int
    elapsed_s: float
    speedup: dict[str, float]
    unsolved: tuple[str, ...]
    geomean: float | None


@dataclass
class Ledger:
    """Events by what they are about; keys are kernels', launches' and problems' `key`.

    A kernel that the machine failed to build (`Failure.lasting` False) is as good as never proposed.
    Of several events on one thing the last one stands, except that measurements are all kept.
    `attempted` holds (kernel, launch, problem), launch "" for a kernel that failed whatever the launch.
    """

    builds: dict[str, Build] = field(default_factory=dict)
    proposals: dict[str, Proposal] = field(default_factory=dict)
    failed: dict[str, KernelFailed] = field(default_factory=dict)
    told: dict[str, KernelTold] = field(default_factory=dict)
    measured: dict[str, list[Measurement]] = field(default_factory=dict)
    run_failures: list[RunFailed] = field(default_factory=list)
    baselines: dict[tuple[str, str], BaselineResult] = field(default_factory=dict)
    finals: dict[str, FinalRow] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    attempted: set[tuple[str, str, str]] = field(default_factory=set)
    elapsed_s: float = 0.0
    _failed: set[tuple[str, str, str]] = field(default_factory=set)
    _lost: dict[str, set[str]] = field(default_factory=dict)

    def absorb(self, event: Event) -> None:
        """Take one more event into account."""
        self.elapsed_s = max(self.elapsed_s, event.at_s)
        if isinstance(event, KernelBuilt):
            key = event.proposal.kernel.key
            self.builds[key], self.proposals[key] = event.build, event.proposal
            self.failed.pop(key, None)
        elif isinstance(event, KernelFailed):
            if event.failure.lasting:
                key = event.proposal.kernel.key
                self.failed[key], self.proposals[key] = event, event.proposal
        elif isinstance(event, Measured):
            one = event.measurement
            self.measured.setdefault(one.problem, []).append(one)
            self.attempted.add((one.kernel.key, one.launch.key, one.problem))
        elif isinstance(event, RunFailed):
            self._absorb_failure(event)
        elif isinstance(event, BaselineMeasured):
            self.baselines[event.result.problem, event.result.name] = event.result
        elif isinstance(event, KernelTold):
            earlier = self.told.get(event.kernel.key)
            if earlier is not None:  # told again, on shapes added since
                union = {**earlier.log_ratio, **event.log_ratio}
                event = earlier.model_copy(update={"log_ratio": union})
            self.told[event.kernel.key] = event
        elif isinstance(event, Finished):
            self.finals[event.row.problem] = event.row
        elif isinstance(event, Asked):
            self.asked.append(event)
        elif isinstance(event, Answered):
            self.answered.append(event)

    def _absorb_failure(self, event: RunFailed) -> None:
        self.run_failures.append(event)
        launch = event.launch.key if event.launch else ""
        self.attempted.add((event.kernel.key, launch, event.problem))
        self._failed.add((event.kernel.key, launch, event.problem))
        if event.failure.stage == "worker":
            self._lost.setdefault(event.kernel.key, set()).add(event.problem)

    @property
    def condemned(self) -> frozenset[str]:
        """Keys of kernels that hung or killed the measuring child on `CONDEMNED_AFTER` problems."""
        return frozenset(k for k, problems in self._lost.items() if len(problems) >= CONDEMNED_AFTER)

    def refused(self, kernel: KernelConfig, launch: LaunchConfig, problem: str) -> bool:
        """Is there no point in running this: condemned, or failed before on this problem?"""
        if kernel.key in self.condemned:
            return True
        return bool(self._failed & {(kernel.key, launch.key, problem), (kernel.key, "", problem)})

    def tried(self, kernel: KernelConfig, launch: LaunchConfig, problem: str) -> bool:
        """Was this measured, or did it fail? Then it is not run again."""
        return bool(self.attempted & {(kernel.key, launch.key, problem), (kernel.key, "", problem)})

    def unfinished(self) -> list[Build]:
        """Kernels built whose screening was cut short: no `KernelTold` yet."""
        return [build for key, build in self.builds.items() if key not in self.told]

    def untried(self, problem: str) -> list[Build]:
        """Kernels built that were neither measured nor failed on a problem, say one added since.

        Those that cannot serve it are among them: only the space knows.
        """
        tried = {kernel for kernel, _, where in self.attempted if where == problem}
        return [build for key, build in self.builds.items() if key not in tried]

    def ranking(self, problem: str) -> list[Best]:
        """Verified configs on a problem, fastest first, one entry a config.

        Speed is relative to the reference of the same rounds. A config with any wrong answer on
        the problem is out. Of several measurements of one the longest counts, then the latest.
        """
        chosen: dict[str, Measurement] = {}
        wrong = set[str]()
        for one in self.measured.get(problem, []):
            key = f"{one.kernel.key}|{one.launch.key}"
            if not one.verdict.passed:
                wrong.add(key)
            elif key not in chosen or len(one.samples_us) >= len(chosen[key].samples_us):
                chosen[key] = one
        rated = [
            (ratio, m) for k, m in chosen.items() if k not in wrong and (ratio := log_ratio(m)) is not None
        ]
        rated.sort(key=lambda pair: pair[0])
        return [Best(measurement=m, speedup=math.exp(-ratio)) for ratio, m in rated]

    def best(self, problem: str) -> Best | None:
        """The first of `ranking`, None where no verified kernel has a time."""
        return next(iter(self.ranking(problem)), None)

    def summary(self, problems: Iterable[str]) -> StudySummary:
        """Counts of the whole study, and how the given problems stand."""
        keys = list(problems)
        found = {key: best.speedup for key in keys if (best := self.best(key)) is not None}
        logs = [math.log(speedup) for speedup in found.values()]
        measurements = [one for several in self.measured.values() for one in several]
        return StudySummary(
            built=len(self.builds),
            build_failed=len(self.failed),
            measured=len(measurements),
            wrong=sum(not one.verdict.passed for one in measurements),
            run_failed=len(self.run_failures),
            condemned=len(self.condemned),
            elapsed_s=self.elapsed_s,
            speedup=found,
            unsolved=tuple(key for key in keys if key not in found),
            geomean=math.exp(sum(logs) / len(logs)) if logs else None,
        )
