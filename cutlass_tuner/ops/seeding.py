"""Puts an op's first kernels in order: known ones and an estimate's favourites, each once.

Proven kernels go first because an estimate is off by tens of per cent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cutlass_tuner.ops.columns import BoolArray, FloatArray, IntArray
from cutlass_tuner.records import KernelConfig, Problem, Proposal

if TYPE_CHECKING:
    from cutlass_tuner.space import Candidates

ORDER = ("default", "textbook", "analytic")
TRUST = 0.95
"""What a textbook kernel's estimate is multiplied with: at equal estimates, the proven one goes first."""


def proposals(
    table: Candidates,
    estimate_us: FloatArray,
    known: Sequence[tuple[KernelConfig, str]],
    unlike: Sequence[IntArray],
    problems: Sequence[Problem],
) -> list[Proposal]:
    """Legal effective kernels worth building first, each once; the first N cover the problems well.

    `table` holds the candidates for the problems and `estimate_us` their prior. `known` are kernels with
    their source ("default" or "textbook"); those that are no candidates are left out. Of the estimate's
    favourites for a problem no two are equal in one of the columns `unlike`. A kernel's place is decided
    greedily: the next one is that which lowers the estimated sum of count * log(time) most.
    """
    estimates = np.where(table.serves, estimate_us, np.inf)
    pool: dict[str, Proposal] = {}
    times: list[FloatArray] = []
    found = [(row, source) for kernel, source in known if (row := table.row(kernel)) is not None]
    found += [(row, "analytic") for row in _favourites(table, estimates, unlike)]
    for row, source in found:
        kernel = table.kernel(row)
        if kernel.key not in pool:
            pool[kernel.key] = Proposal(kernel=kernel, source=source)
            times.append(estimates[row] * (TRUST if source == "textbook" else 1.0))
    weights = np.array([problem.count for problem in problems], dtype=np.float64)
    return _ordered(list(pool.values()), np.stack(times), weights) if pool else []


def _favourites(table: Candidates, estimates: FloatArray, unlike: Sequence[IntArray]) -> list[int]:
    """Rows of each problem's best estimates, the next best being unlike those before it.

    The estimate cannot tell neighbours apart; kernels that differ in kind teach what limits a shape.
    """
    chosen: list[int] = []
    for position in range(estimates.shape[1]):
        usable: BoolArray = np.isfinite(estimates[:, position]) & ~table.unwise_on[:, position]
        if not usable.any():
            usable = np.isfinite(estimates[:, position])
        while usable.any():
            row = int(np.argmin(np.where(usable, estimates[:, position], np.inf)))
            chosen.append(row)
            for column in unlike:
                usable &= column != column[row]
    return chosen


def _ordered(pool: list[Proposal], times: FloatArray, weights: FloatArray) -> list[Proposal]:
    """By source, then greedily by what a kernel adds; of the favourites those that add nothing come last, by
    their own merit."""
    # A problem nobody serves yet costs four times its slowest estimate.
    slowest = np.max(np.where(np.isfinite(times), times, 0.0), axis=0)
    best = 4.0 * np.maximum(slowest, 1.0)
    left = list(range(len(pool)))
    ordered: list[Proposal] = []
    while left:
        gains = np.log(best) - np.log(np.minimum(best, times[left]))
        merit = gains @ weights
        source = next(s for s in ORDER if any(pool[index].source == s for index in left))
        places = [place for place, index in enumerate(left) if pool[index].source == source]
        place = max(places, key=lambda p: merit[p])
        if source == ORDER[-1] and merit[place] <= 0:
            regret = np.where(np.isfinite(times[left]), np.log(times[left] / best), np.inf).min(axis=1)
            return ordered + [pool[left[place]] for place in np.argsort(regret, kind="stable")]
        index = left.pop(place)
        ordered.append(pool[index])
        best = np.minimum(best, times[index])
    return ordered
