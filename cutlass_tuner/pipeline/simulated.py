"""A recorded study in the place of a GPU and its compilers: what is recorded, and what a label says of it.

The same search runs over it and stores a study of its own. A kernel or a config that is not recorded is a
miss: it is stored as failed, with a reason that says so, and never gets a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from cutlass_tuner.build.recorded import RecordedBuilder
from cutlass_tuner.errors import UserError
from cutlass_tuner.measure.figures import Figures
from cutlass_tuner.measure.recorded import RecordedDevice
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.options import TuneOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.pipeline.setup import Machine, Space
from cutlass_tuner.records import KernelConfig, Problem
from cutlass_tuner.report.tables import counted
from cutlass_tuner.results import Row, headline
from cutlass_tuner.space import Candidates
from cutlass_tuner.study import Study, log_ratio
from cutlass_tuner.wire import Described

SUFFIX = "-simulated"
"""Ends the name of a simulated study that was given none."""
NAMED = 5
"""Problems that a mistake names before it counts the rest."""


def unrecorded(recording: str) -> str:
    """Why a kernel or a config has no time in a simulated study."""
    return f"not recorded in {recording}"


@dataclass(frozen=True)
class Recording:
    """A study that stands in for a GPU. `given` is what its user called it."""

    study: Study
    given: str

    @property
    def name(self) -> str:
        return self.study.name

    def told(self, study: Study) -> str:
        """What to say at the end of a run: what was replayed into `study`, and what was missing."""
        header = self.study.header
        return (
            f"simulated: replayed from {self.name} ({header.environment.gpu}, {header.created[:10]}); "
            f"{Misses.of(study)}"
        )

    # --- may it stand in?

    def check(self, op: Op, options: TuneOptions, problems: Sequence[Problem]) -> None:
        """Raises UserError where it is a recording of something else than what is asked for."""
        header, option = self.study.header, f"--simulate {self.given}"
        shapes = counted(len(problems), "shape")
        if header.simulated:
            raise UserError(
                f"{option}: that study is itself simulated, from {header.simulated}; "
                "give one that a GPU measured"
            )
        if header.op != op.name:
            raise UserError(f"{option}: that study is of {header.op}, not of {op.name}; give another one")
        if header.l2 != options.l2:
            raise UserError(
                f"{option}: it was recorded with --l2 {header.l2}, not {options.l2}; give --l2 {header.l2}"
            )
        recorded = {p.key: p.contract for p in self.study.problems if self.study.measurements(p.key)}
        missing = [p.label for p in problems if recorded.get(p.key) != p.contract]
        if missing:
            more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            raise UserError(
                f"{option}: {len(missing)} of {shapes} in {options.shapes} not recorded there: "
                f"{', '.join(missing[:NAMED])}{more}; leave them out ({len(recorded)} are recorded, "
                f"`cutlass-tuner show {self.given}` lists them)"
            )

    def check_space(self, space: Space) -> None:
        """Raises UserError where the recorded kernels, or their launches, have other knobs than `space`'s."""
        strange: set[str] = set()
        for kernel in self.kernels:
            if kernel.family in space.families:
                strange |= kernel.knobs.keys() ^ space.families[kernel.family].kernel.keys()
        for several in self.study.ledger.measured.values():
            for one in several:
                if one.kernel.family in space.families:
                    strange |= one.launch.knobs.keys() ^ space.families[one.kernel.family].launch.keys()
        if strange:
            raise UserError(
                f"--simulate {self.given}: it was recorded with other knobs than the space has: "
                f"{', '.join(sorted(strange))}; give the space it was recorded with as --space FILE"
            )

    # --- in its place

    @contextmanager
    def machine(
        self, op: Op, options: TuneOptions, problems: Sequence[Problem], asked: Space
    ) -> Iterator[Machine]:
        """What answers as the recorded GPU and its compilers did; `asked` is the space on the op's first
        architecture. Raises UserError where this is a recording of something else than what is asked for."""
        self.check(op, options, problems)
        header = self.study.header
        device, environment = header.device, header.environment
        space = asked if asked.arch == device.arch else setup.space(op, device.arch, options.space)
        self.check_space(space)
        candidates = self.among(space.candidates(problems, device))
        described = Described(
            device=device, cublas=environment.cublas, torch=environment.torch, cuda_python=""
        )
        answers = RecordedDevice(described, self.figures, unrecorded(self.name))
        with Bench(op, options.l2, 0, Path(os.devnull), options.seed, replay=answers) as bench:
            yield Machine(bench, self.builder(), device, environment, space, candidates)

    def builder(self) -> RecordedBuilder:
        ledger = self.study.ledger
        builds = [build for key, build in ledger.builds.items() if key in self._run]
        failures = {key: event.failure for key, event in ledger.failed.items()}
        return RecordedBuilder(builds, failures, unrecorded(self.name))

    @cached_property
    def figures(self) -> Figures:
        ledger = self.study.ledger
        every = (one for several in ledger.measured.values() for one in several)
        # A right answer in a disturbed contest has no time that ranks, and a replay would give it one.
        return Figures.of(
            [one for one in every if not one.verdict.passed or log_ratio(one) is not None],
            failures=ledger.run_failures,
            finals=ledger.finals.values(),
            baselines=ledger.baselines.values(),
        )

    @cached_property
    def _run(self) -> frozenset[str]:
        """Keys of kernels that were run on some problem, whatever came of it. The others are built, but
        nothing else is known of them."""
        return frozenset(kernel for kernel, _, _ in self.study.ledger.attempted)

    @cached_property
    def kernels(self) -> tuple[KernelConfig, ...]:
        """Those recorded: built and run, or failed to build."""
        ledger = self.study.ledger
        known = [key for key in ledger.proposals if key in ledger.failed or key in self._run]
        return tuple(ledger.proposals[key].kernel for key in known)

    def among(self, candidates: Candidates) -> Candidates:
        """The recorded ones of `candidates`, in their order. Raises UserError where there are none."""
        rows = {row for kernel in self.kernels if (row := candidates.row(kernel)) is not None}
        if not rows:
            raise UserError(
                f"--simulate {self.given}: none of its {counted(len(self.kernels), 'kernel')} is in the "
                "space to search; give another --space, or hold fewer knobs with --fix"
            )
        return candidates.take(np.array(sorted(rows), dtype=np.int64))


@dataclass(frozen=True)
class Misses:
    """What a simulated study asked its recording for in vain: `kernels` of `asked`, and `configs` (kernel,
    launch and problem) of the others."""

    asked: int
    kernels: int
    configs: int

    @classmethod
    def of(cls, study: Study) -> Misses:
        ledger, reason = study.ledger, unrecorded(study.header.simulated)
        configs = {
            (event.kernel.key, event.launch.key if event.launch else "", event.problem)
            for event in ledger.run_failures
            if event.failure.reason == reason
        }
        kernels = sum(event.failure.reason == reason for event in ledger.failed.values())
        return cls(len(ledger.proposals), kernels, len(configs))

    def __str__(self) -> str:
        if not self.kernels + self.configs:
            return f"all {counted(self.asked, 'kernel')} asked for are recorded"
        return (
            f"{self.kernels:,} of the {counted(self.asked, 'kernel')} asked for are not recorded, "
            f"nor are {counted(self.configs, 'config')} of the others; they have no times"
        )


def label(study: Study, op: Op, rows: Sequence[Row]) -> list[str]:
    """The lines that the results of a simulated study begin with; none for a measured one."""
    if not study.header.simulated:
        return []
    pairs = [row.against(headline(op))[0] for row in rows]
    unproven = sum(pair is not None and not pair.low for pair in pairs)
    few = (
        f"too few samples are recorded of {counted(unproven, 'winner')} (95 % is -) to tell a difference: "
        'the verdict is "tie"'
    )
    return [
        f"SIMULATED, replayed from {study.header.simulated}: no GPU measured this",
        str(Misses.of(study)),
        *[few] * bool(unproven),
        "",
    ]
