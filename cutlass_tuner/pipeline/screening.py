"""One built kernel on every problem: probe a few launches, then all of them where it is near the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cutlass_tuner.events import Measured
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Build, Failure, LaunchConfig, Measurement, Problem
from cutlass_tuner.refine import launches as inner
from cutlass_tuner.space import Space
from cutlass_tuner.study import Study, log_ratio

NEAR, MORE_LAUNCHES = 0.12, 10
"""Kernels within 12 % of a problem's best get ten more launches tried on it, those around the best so far."""
EXPANSIONS, GAIN = 3, 0.01
"""That is repeated up to three times, as long as a step gains 1 %: many knobs interact."""
EARLY_STOP = 1.35
"""A launch this many times slower than the problem's best (in its first round) is not timed further."""


@dataclass
class Screening:
    """Screens kernels on all of a study's problems and records every measurement and failure at once.

    `best` is the least log(time / reference) on each problem so far; `measured` counts this run's.
    """

    bench: Bench
    space: Space
    study: Study
    best: dict[str, float] = field(default_factory=dict)
    measured: int = 0

    def __post_init__(self) -> None:
        for problem in self.study.problems:
            for one in self.study.measurements(problem.key):
                self._offer(one)

    @property
    def speedups(self) -> dict[str, float]:
        """reference / time of the best verified kernel, by problem key."""
        return {problem: math.exp(-value) for problem, value in self.best.items()}

    def screen(self, build: Build, problems: Sequence[Problem]) -> dict[str, float] | Failure:
        """log(time / reference) of this kernel's best launch by problem key; a Failure where it has none."""
        ratios: dict[str, float] = {}
        last = Failure(stage="check", reason="no problem has a legal launch of this kernel")
        # Large problems first, back to back: the card is then nearer to its power limit when they are
        # timed, as it is in the finals. Timed alone on a cool card, other kernels win.
        for problem in sorted(problems, key=self.bench.op.flops, reverse=True):
            if build.kernel.key in self.study.ledger.condemned:
                return Failure(stage="worker", reason="condemned: it lost the measuring process twice")
            outcome = self._problem(build, problem)
            if isinstance(outcome, Failure):
                last = outcome
            elif outcome is not None:
                ratios[problem.key] = outcome
        return ratios or last

    def _problem(self, build: Build, problem: Problem) -> float | Failure | None:
        """The best log ratio on this problem; a Failure where nothing worked, None where nothing is legal."""
        device = self.study.header.device
        if self.space.check(build.kernel, None, problem, device).illegal:
            return None
        legal = self.space.launches(build.kernel, problem, device)
        values = self._known(build, problem)
        failure = self._try(build, problem, inner.probe(legal), values)
        for _ in range(EXPANSIONS):
            before = min(values.values(), default=math.inf)
            more = inner.expand(legal, values, self.best.get(problem.key), NEAR, MORE_LAUNCHES)
            failure = self._try(build, problem, more, values) or failure
            lost = failure is not None and failure.stage == "worker"
            if not more or lost or min(values.values()) > before - GAIN:
                break
        return min(values.values()) if values else failure

    def _known(self, build: Build, problem: Problem) -> dict[str, float]:
        """What an interrupted run measured of this kernel, by launch key."""
        mine = (m for m in self.study.measurements(problem.key) if m.kernel == build.kernel)
        return {m.launch.key: value for m in mine if (value := log_ratio(m)) is not None}

    def _try(
        self, build: Build, problem: Problem, launches: Sequence[LaunchConfig], values: dict[str, float]
    ) -> Failure | None:
        """Time these launches, adding to `values` by launch key; the last failure seen, if any."""
        ledger = self.study.ledger
        fresh = [launch for launch in launches if not ledger.tried(build.kernel, launch, problem.key)]
        if not fresh:
            return None
        incumbent = self.best.get(problem.key)
        stop = EARLY_STOP * math.exp(incumbent) if incumbent is not None else 0.0
        last: Failure | None = None
        # A second problem on which it loses the child condemns a kernel, whichever launch it was.
        suspect = any(e.kernel == build.kernel and e.failure.stage == "worker" for e in ledger.run_failures)
        outcomes = self.bench.screen(build, problem, fresh, stop, alone=not suspect)
        for launch, outcome in zip(fresh, outcomes, strict=True):
            self.measured += 1
            if isinstance(outcome, Failure):
                last = outcome
                self.study.run_failed(build.kernel, launch, problem, outcome)
                continue
            self.study.append(Measured(measurement=outcome, at_s=self.study.now_s()))
            value = self._offer(outcome)
            if value is None:
                last = Failure(stage="verify", reason="; ".join(outcome.verdict.reasons))
            else:
                values[launch.key] = value
        return last

    def _offer(self, measurement: Measurement) -> float | None:
        value = log_ratio(measurement)
        if value is not None:
            self.best[measurement.problem] = min(value, self.best.get(measurement.problem, math.inf))
        return value
