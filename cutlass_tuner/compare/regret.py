"""How fast a search gets near the best that is known: regret curves, what they cost, who is ahead. Pure.

Times are logarithms of time / reference, less is faster. The regret of a problem is (best found so far) /
(best known) - 1, that of several the geometric mean of (1 + regret) less 1, weighted by the problems' counts.

A problem counts as at most `CAP` times its best known time, and as that much while nothing is found on it.
So a curve never rises, is never negative, and no single problem that waits for its first kernel outweighs
all others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cutlass_tuner.records import Record

FloatArray = NDArray[np.float64]

CAP = 2.0
"""A problem counts as at most this many times its best known time."""

MISS = -1
"""In place of a kernel's number: a kernel that is not recorded, and so brings nothing."""

SIGNIFICANT = 0.05
"""A difference between two arms is called one where its sign test gives less than this."""


class Run(Record):
    """One run of one arm. `regret`, `compile_s` and `device_s` are the values before the first build and
    after each (one more than there are builds), seconds from the start; fractions, not per cent.

    `rows[i]` is the recorded kernel built i-th, or `MISS`; `sources[i]` who
    proposed it.
    """

    arm: str
    seed: int
    rows: tuple[int, ...]
    sources: tuple[str, ...]
    regret: tuple[float, ...]
    compile_s: tuple[float, ...]
    device_s: tuple[float, ...]

    @property
    def misses(self) -> int:
        return self.rows.count(MISS)


def losses(best: FloatArray, known: FloatArray) -> FloatArray:
    """log(1 + regret) of each problem, capped: `best` (..., problems; inf where nothing is found) over
    `known` (problems). Never negative."""
    found: FloatArray = np.clip(best - known, 0.0, math.log(CAP))
    return found


def regret(best: FloatArray, known: FloatArray, counts: FloatArray) -> FloatArray:
    """Regret over the problems (last axis), weighted by `counts`."""
    mean: FloatArray = np.expm1(losses(best, known) @ counts / counts.sum())
    return mean


def best_so_far(log_ratio: FloatArray, rows: Sequence[int]) -> FloatArray:
    """(1 + builds) x problems: the least log ratio among the first kernels of `rows`, inf for none yet.

    `log_ratio` is kernels x problems, NaN where a kernel has no time; `MISS` among `rows` adds nothing.
    """
    problems = log_ratio.shape[1]
    nothing = np.full((1, problems), np.inf)
    times = np.vstack([np.where(np.isnan(log_ratio), np.inf, log_ratio), nothing])
    best: FloatArray = np.minimum.accumulate(np.vstack([nothing, times[list(rows)]]), axis=0)
    return best


def by_builds(runs: Sequence[Run], builds: int) -> FloatArray:
    """runs x (1 + builds): regret after so many builds; a run that ended earlier stays where it ended."""
    return np.array([[run.regret[min(n, len(run.rows))] for n in range(builds + 1)] for run in runs])


def by_cost(runs: Sequence[Run], cost: Literal["compile_s", "device_s"], at: FloatArray) -> FloatArray:
    """runs x len(at): regret once so many seconds are spent, a kernel counting when it is done."""
    rows = []
    for run in runs:
        done = np.searchsorted(np.array(getattr(run, cost)), at, side="right") - 1
        rows.append(np.array(run.regret)[done])
    return np.array(rows)


def by_problem(
    runs: Sequence[Run],
    log_ratio: FloatArray,
    known: FloatArray,
    builds: int,
    sources: Collection[str] | None = None,
) -> FloatArray:
    """Regret of each problem after so many builds, the geometric mean over the runs; with `sources`, of the
    kernels alone that these proposed."""
    logs = []
    for run in runs:
        pairs = zip(run.rows[:builds], run.sources[:builds], strict=True)
        rows = [row for row, source in pairs if sources is None or source in sources]
        logs.append(losses(best_so_far(log_ratio, rows)[-1], known))
    behind: FloatArray = np.expm1(np.mean(logs, axis=0))
    return behind


def first_within(run: Run, target: float) -> int | None:
    """Builds until the regret is at most `target`, None where it never is."""
    return first_below(run.regret, target)


def first_below(curve: Sequence[float] | FloatArray, target: float) -> int | None:
    """The first place of a curve that is at most `target`, None where none is."""
    places = np.flatnonzero(np.asarray(curve) <= target)
    return int(places[0]) if len(places) else None


def median_or_never(values: Sequence[float | None]) -> float | None:
    """The median, with None as later than anything; None where it falls among those."""
    middle = float(np.median([math.inf if value is None else value for value in values]))
    return middle if math.isfinite(middle) else None


class Standing(Record):
    """A line of the table. `regret` maps builds to (mean, standard deviation over the seeds); `within` a
    regret to the median of builds until it is reached, None where most seeds never reach it; so do
    `compile_s` and `device_s` to the median of seconds. `misses` is the mean a run.
    """

    arm: str
    seeds: int
    regret: dict[int, tuple[float, float]]
    within: dict[float, float | None]
    compile_s: dict[float, float | None]
    device_s: dict[float, float | None]
    misses: float


def standing(runs: Sequence[Run], marks: Sequence[int], targets: Sequence[float]) -> Standing:
    """The figures of one arm from its runs, at these counts of builds and for these regrets."""
    curves = by_builds(runs, max(marks))
    firsts = {target: [first_within(run, target) for run in runs] for target in targets}

    def seconds(cost: Literal["compile_s", "device_s"]) -> dict[float, float | None]:
        return {
            target: median_or_never(
                [None if n is None else getattr(run, cost)[n] for run, n in zip(runs, reached, strict=True)]
            )
            for target, reached in firsts.items()
        }

    spread = curves.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros(curves.shape[1])
    return Standing(
        arm=runs[0].arm,
        seeds=len(runs),
        regret={mark: (float(curves[:, mark].mean()), float(spread[mark])) for mark in marks},
        within={target: median_or_never(reached) for target, reached in firsts.items()},
        compile_s=seconds("compile_s"),
        device_s=seconds("device_s"),
        misses=float(np.mean([run.misses for run in runs])),
    )


class Duel(Record):
    """Two arms pair by pair: in how many the first has less regret, in how many more, in how many as much;
    and the probability of a split at least that uneven were they equally good (two-sided sign test).
    """

    wins: int
    losses: int
    ties: int
    p: float

    @property
    def proven(self) -> bool:
        return self.p < SIGNIFICANT


def duel(a: Sequence[float] | FloatArray, b: Sequence[float] | FloatArray) -> Duel:
    """Is `a` less than `b`? Paired by position.

    A sign test (W. J. Conover, Practical Nonparametric Statistics): it needs no random numbers and asks of
    the pairs only that they are independent. It leaves ties out, and takes pairs that are the same but once:
    seeds that change nothing prove nothing.
    """
    pairs = list(zip(np.round(a, 9).tolist(), np.round(b, 9).tolist(), strict=True))
    wins, losses_ = _split(pairs)
    tail = _tail(*_split(list(dict.fromkeys(pairs))))
    return Duel(wins=wins, losses=losses_, ties=len(pairs) - wins - losses_, p=min(1.0, 2.0 * tail))


def _split(pairs: Sequence[tuple[float, float]]) -> tuple[int, int]:
    return sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)


def _tail(wins: int, losses_: int) -> float:
    """P(at most the smaller of the two) of a fair coin."""
    decided = wins + losses_
    return sum(math.comb(decided, k) for k in range(min(wins, losses_) + 1)) / 2.0**decided


class Expectation(Record):
    """An idea's expectation beside what its kernels reached on its targets (geometric means of reference /
    ours); `achieved` is None where a target has no time from any of them."""

    name: str
    bottleneck: str
    expected: float
    achieved: float | None


class Calibration(Record):
    """How well expectations met what was reached. `rank` is Spearman's correlation, None where it is not
    defined (fewer than three ideas, or all alike); `bias` the geometric mean of achieved / expected, and
    `reached` the share that got at least what they expected, both None without any idea to judge."""

    judged: int
    unjudged: int
    rank: float | None
    bias: float | None
    reached: float | None


def calibration(expectations: Sequence[Expectation]) -> Calibration:
    """Over all expectations whose achievement is known."""
    pairs = [(one.expected, one.achieved) for one in expectations if one.achieved is not None]
    expected, achieved = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    varied = len(pairs) >= 3 and len(set(expected)) > 1 and len(set(achieved)) > 1
    return Calibration(
        judged=len(pairs),
        unjudged=len(expectations) - len(pairs),
        rank=_spearman(expected, achieved) if varied else None,
        bias=float(np.exp(np.mean(np.log(achieved) - np.log(expected)))) if pairs else None,
        reached=float(np.mean(achieved >= expected)) if pairs else None,
    )


def _spearman(a: FloatArray, b: FloatArray) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)
