"""Who is ahead in the lab, by how much, and whether that is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutlass_tuner.compare.regret import (
    Duel,
    Expectation,
    Run,
    Standing,
    by_builds,
    by_problem,
    duel,
    first_below,
    standing,
)
from cutlass_tuner.ops.columns import FloatArray
from cutlass_tuner.options import LabOptions
from cutlass_tuner.pipeline.lab_arms import ARMS, DEFAULT
from cutlass_tuner.pipeline.lab_data import Recorded
from cutlass_tuner.pipeline.lab_replies import ReplySet, expectations
from cutlass_tuner.pipeline.setup import Space
from cutlass_tuner.report.tables import counted
from cutlass_tuner.study import Study

MARKS = (16, 32, 64, 96)
TARGETS = (0.05, 0.02, 0.01)
AIM_BUILDS, AIM_REGRET, AIM_SHARE = 64, 0.02, 0.5
"""The aim: 2 % after 64 builds, and at most half the builds of the best arm without a language model."""


@dataclass(frozen=True)
class Outcome:
    """All that the report is made of. `runs` are arm by arm, seeds in order."""

    options: LabOptions
    study: Study
    space: Space
    recorded: Recorded
    sets: Sequence[ReplySet]
    runs: Sequence[Run]
    notes: Sequence[str]

    @cached_property
    def by_arm(self) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.arm, []).append(run)
        return found

    @property
    def marks(self) -> tuple[int, ...]:
        """Counts of builds that the table shows; the last build is among them."""
        builds = self.options.builds
        return (*(mark for mark in MARKS if mark < builds), builds)

    @property
    def mark(self) -> int:
        """The count of builds at which arms are compared."""
        return min(AIM_BUILDS, self.options.builds)

    @cached_property
    def standings(self) -> list[Standing]:
        """Best first, by the mean regret at `mark`."""
        marks = sorted({*self.marks, self.mark})
        found = [standing(runs, marks, TARGETS) for runs in self.by_arm.values()]
        return sorted(found, key=lambda one: one.regret[self.mark][0])

    @cached_property
    def expectations(self) -> list[Expectation]:
        return expectations(self.sets, self.recorded)

    def curves(self, arm: str) -> FloatArray:
        """seeds x (1 + builds)."""
        return by_builds(self.by_arm[arm], self.options.builds)

    def leader(self, *, llm: bool) -> str | None:
        """The best arm with a language model, or without."""
        return next((one.arm for one in self.standings if ARMS[one.arm].asks_llm == llm), None)


def verdict(outcome: Outcome) -> list[str]:
    """Who is ahead, by how much, and whether that is more than chance, in plain words."""
    ours, other = outcome.leader(llm=True), outcome.leader(llm=False)
    mark = outcome.mark
    if ours is None or other is None:
        best = outcome.standings[0]
        kind = "without a language model" if ours is None else "with a language model"
        return [
            f"after {counted(mark, 'build')} {best.arm} has the least regret, {_at(best, mark)}; only arms "
            f"{kind} ran"
        ]
    lines = [
        f"after {counted(mark, 'build')}: {ours}, the best arm with a language model, has a mean regret of "
        f"{_mean(outcome, ours)}; {other}, the best without, {_mean(outcome, other)}",
        _who_is_ahead(outcome, ours, other),
        _on_how_many_shapes(outcome, ours, other),
        *_builds_needed(outcome, ours, other),
    ]
    if DEFAULT in outcome.by_arm and other != DEFAULT:
        lines.append(f"against {DEFAULT}, today's default: {_who_is_ahead(outcome, ours, DEFAULT)}")
    met = float(outcome.curves(ours)[:, mark].mean()) <= AIM_REGRET
    lines.append(
        f"the aim of {AIM_REGRET:.0%} mean regret after {mark} builds is {'met' if met else 'missed'} by "
        f"{ours}"
    )
    return [*lines, _about_seeds(outcome)]


def _at(one: Standing, mark: int) -> str:
    mean, deviation = one.regret[mark]
    return f"{100 * mean:.2f} ± {100 * deviation:.2f} %"


def _mean(outcome: Outcome, arm: str) -> str:
    return f"{100 * float(outcome.curves(arm)[:, outcome.mark].mean()):.2f} %"


def _who_is_ahead(outcome: Outcome, a: str, b: str) -> str:
    mark = outcome.mark
    sets = max(1, len(outcome.sets))
    # Seeds that share a set of replies are no repetitions of what is compared: their means are.
    ends = [outcome.curves(arm)[:, mark] for arm in (a, b)]
    ours, other = ([end[place::sets].mean() for place in range(sets)] for end in ends)
    result = duel(np.array(ours), np.array(other))
    level = f", level on {result.ties}" if result.ties else ""
    return (
        f"{a} has less regret than {b} on {result.wins} of {counted(sets, 'set')} of replies{level} (means "
        f"over the seeds of each; sign test, p = {result.p:.2g}): {_meaning(result, a)}"
    )


def _on_how_many_shapes(outcome: Outcome, a: str, b: str) -> str:
    recorded, mark = outcome.recorded, outcome.mark
    ends = [by_problem(outcome.by_arm[arm], recorded.log_ratio, recorded.known, mark) for arm in (a, b)]
    result = duel(*ends)
    shapes = counted(result.wins + result.losses + result.ties, "shape")
    return (
        f"by shape, over all seeds: {a} is ahead on {result.wins} of {shapes}, level on {result.ties}; "
        "shapes share kernels, so this is no test"
    )


def _meaning(result: Duel, arm: str) -> str:
    if not result.proven:
        return "no difference is proven"
    return f"{arm} is {'better' if result.wins > result.losses else 'worse'}"


def _builds_needed(outcome: Outcome, ours: str, other: str) -> list[str]:
    """What each needs to reach the mean regret that the best arm without a language model ends up with."""
    mark = outcome.mark
    theirs = outcome.curves(other).mean(axis=0)
    goal = float(theirs[mark])
    mine = first_below(outcome.curves(ours).mean(axis=0), goal)
    own = first_below(theirs, goal)
    assert own is not None
    if mine is None:
        return [f"{ours} does not get to {other}'s {100 * goal:.2f} % within {outcome.options.builds} builds"]
    aim = "met" if mine <= AIM_SHARE * own else "missed"
    return [
        f"to {100 * goal:.2f} %, which {other} needs {own} builds for, {ours} needs {mine} "
        f"({100 * mine / own:.0f} % of them): the aim of at most half is {aim}"
    ]


def _about_seeds(outcome: Outcome) -> str:
    sets = len(outcome.sets)
    if sets == 1:
        return (
            "seeds vary the noise and the sampler alone: all runs with a language model use one set of "
            "replies, and another set may do better or worse"
        )
    return f"seeds vary the noise, the sampler and the set of replies, of which there are {sets}"
