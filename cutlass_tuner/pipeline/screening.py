"""One built kernel on every problem: probe a few launches, then all of them where it is near the best; and,
before a proposer is told of it, the best once more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cutlass_tuner.events import Measured
from cutlass_tuner.ideas import Idea
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Build, Config, Failure, KernelConfig, LaunchConfig, Measurement, Problem
from cutlass_tuner.refine import launches as inner
from cutlass_tuner.space import Space
from cutlass_tuner.study import Best, Study, log_ratio
from cutlass_tuner.wire import Entry

NEAR, MORE_LAUNCHES = 0.12, 10
"""Kernels within 12 % of a problem's best get ten more launches tried on it, those around the best so far."""
EXPANSIONS, GAIN = 3, 0.01
"""That is repeated up to three times, as long as a step gains 1 %: many knobs interact."""
REMEASURE_ROUNDS, REMEASURED = 9, 3
"""What is told about a problem's best kernel rests on nine rounds. The best of those may be another one then:
up to three kernels a problem get that far."""
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
    _suggested: dict[str, list[tuple[frozenset[str], LaunchConfig]]] = field(default_factory=dict)
    _again: dict[tuple[str, str], bool] = field(default_factory=dict)
    """(problem, config) that were to be measured again, and whether they were."""

    def __post_init__(self) -> None:
        for answered in self.study.ledger.answered:
            self.suggest(answered.ideas)
        for problem in self.study.problems:
            for one in self.study.measurements(problem.key):
                self._offer(one)

    @property
    def speedups(self) -> dict[str, float]:
        """reference / time of the best verified kernel, by problem key."""
        return {problem: math.exp(-value) for problem, value in self.best.items()}

    def geomean(self) -> float | None:
        """Of `speedups`, None where there are none."""
        return math.exp(-sum(self.best.values()) / len(self.best)) if self.best else None

    def suggest(self, ideas: Sequence[Idea]) -> None:
        """Try the launches these ideas suggest, on their targets, besides those that are probed anyway."""
        for idea in ideas:
            for suggestion in idea.suggestions:
                mine = self._suggested.setdefault(suggestion.kernel.key, [])
                mine += [(frozenset(idea.targets), launch) for launch in suggestion.launches]

    # --- the best, measured again

    def contenders(self, problem: Problem) -> list[Best]:
        """A problem's verified configs, fastest first, less those that failed since."""
        ledger = self.study.ledger
        return [
            one
            for one in ledger.ranking(problem.key)
            if not ledger.refused(one.measurement.kernel, one.measurement.launch, problem.key)
        ]

    def remeasure(
        self, ready: Callable[[KernelConfig], Build | Failure], more: Callable[[], bool]
    ) -> dict[str, Best]:
        """Each problem's best config by the problem's key, measured again in more rounds: of many
        measurements the least is too low. `best` is theirs from then on.

        Where another one is then the best, that is measured again as well, and so on, but not for ever.
        `ready` gives a kernel that was built before; once `more` says no, nothing further is measured.
        """
        leaders = dict[str, Best]()
        for problem in self.study.problems:
            ranking = self.contenders(problem)
            for _ in range(REMEASURED):
                unsure = self._unsure(ranking)
                if unsure is None or not more():
                    break
                self._once_more(problem, unsure, ready(unsure.kernel))
                ranking = self.contenders(problem)
            sure = (one for one in ranking if self._sure(one.measurement))
            leader = next(sure, ranking[0] if ranking else None)
            if leader is None:
                self.best.pop(problem.key, None)
            else:
                leaders[problem.key] = leader
                self.best[problem.key] = -math.log(leader.speedup)
        return leaders

    def _sure(self, one: Measurement) -> bool:
        return len(one.samples_us) >= REMEASURE_ROUNDS or self._again.get(_name(one), False)

    def _unsure(self, ranking: Sequence[Best]) -> Measurement | None:
        """The config that seems to lead and was not measured again yet; None where the one that leads was."""
        for best in ranking:
            if self._sure(best.measurement):
                return None
            if _name(best.measurement) not in self._again:
                return best.measurement
        return None

    def _once_more(self, problem: Problem, before: Measurement, build: Build | Failure) -> None:
        """It was right and ran before: only what fails twice, beside a reference that runs, is its fault."""
        self._again[_name(before)] = False
        if isinstance(build, Failure):
            return
        outcome = self._longer(build, before.launch, problem)
        if isinstance(outcome, Failure):
            self.bench.require_reference(problem)
            outcome = self._longer(build, before.launch, problem)
        if isinstance(outcome, Failure):
            self.bench.require_reference(problem)
            if outcome.lasting:
                self.study.run_failed(build.kernel, before.launch, problem, outcome)
            return
        self._again[_name(before)] = True
        # A recording that has no more rounds gives the same ones again.
        if len(outcome.samples_us) > len(before.samples_us):
            self.measured += 1
            self.study.append(Measured(measurement=outcome, at_s=self.study.now_s()))

    def _longer(self, build: Build, launch: LaunchConfig, problem: Problem) -> Measurement | Failure:
        entries: list[Entry] = [self.bench.reference(problem), self.bench.kernel_entry(build, launch)]
        result = self.bench.contest(problem, entries, REMEASURE_ROUNDS)
        if isinstance(result, Failure):
            return result
        return self.bench.measurement(build.kernel, launch, problem, result, 1)

    # --- a new kernel

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
        legal = self.bench.offered(build.kernel, problem, self.space.launches(build.kernel, problem, device))
        values = self._known(build, problem)
        first = [*inner.probe(legal), *self._suggestions(build, problem)]
        failure = self._try(build, problem, list({launch.key: launch for launch in first}.values()), values)
        for _ in range(EXPANSIONS):
            before = min(values.values(), default=math.inf)
            more = inner.expand(legal, values, self.best.get(problem.key), NEAR, MORE_LAUNCHES)
            failure = self._try(build, problem, more, values) or failure
            lost = failure is not None and failure.stage == "worker"
            if not more or lost or min(values.values()) > before - GAIN:
                break
        return min(values.values()) if values else failure

    def _suggestions(self, build: Build, problem: Problem) -> list[LaunchConfig]:
        """The launches suggested for this kernel on this problem, in effective form. They are legal: no rule
        looks at a launch and a problem at once, and all others were checked when they were read."""
        device = self.study.header.device
        return [
            self.space.effective_launch(build.kernel, launch, problem, device)
            for targets, launch in self._suggested.get(build.kernel.key, ())
            if problem.key in targets
        ]

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
                wrong = "; ".join(outcome.verdict.reasons)
                disturbed = "torch's own times disagree"
                last = Failure(stage="verify", reason=wrong or disturbed, lasting=bool(wrong))
            else:
                values[launch.key] = value
        return last

    def _offer(self, measurement: Measurement) -> float | None:
        value = log_ratio(measurement)
        if value is not None:
            self.best[measurement.problem] = min(value, self.best.get(measurement.problem, math.inf))
        return value


def _name(one: Measurement) -> tuple[str, str]:
    return one.problem, Config(kernel=one.kernel, launch=one.launch).key
