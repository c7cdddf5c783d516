"""Which kernels an export ships when it may not ship all of them.

Each problem is served by the fastest of the chosen kernels that was measured on it, so choosing N of
K kernels is the p-median problem. Greedy addition followed by swaps (Teitz and Bart 1968) is at most
a few per cent from its optimum and takes milliseconds at our sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutlass_tuner.errors import UserError
from cutlass_tuner.export.tuned import Tuned
from cutlass_tuner.records import Problem

Floats = NDArray[np.float64]

UNSERVED = 1e6
"""Log-slowdown charged for a problem that no chosen kernel was measured on: it outweighs any real one."""


@dataclass(frozen=True)
class Selection:
    """`served` has the problems in the order given. `loss` is the count-weighted geometric mean
    slowdown against each problem's own winner, minus one, over the problems served."""

    served: tuple[Tuned, ...]
    unserved: tuple[Problem, ...]
    loss: float


def select(winners: Sequence[Tuned], alternatives: Iterable[Tuned], max_kernels: int | None) -> Selection:
    """Serve every winner's problem with at most `max_kernels` kernels at the least weighted loss.

    `alternatives` are the other verified measurements of those problems. Raises UserError when there
    is no winner or `max_kernels` is below 1.
    """
    if not winners:
        raise UserError(
            "nothing to export: no shape of this study has a verified winner; tune it first, or see `show`"
        )
    if max_kernels is not None and max_kernels < 1:
        raise UserError(f"--max-kernels {max_kernels}: must be at least 1")
    keys = sorted({w.kernel_key for w in winners})
    if max_kernels is None or len(keys) <= max_kernels:
        return Selection(tuple(winners), (), 0.0)
    fastest = _fastest(winners, alternatives)
    candidates = sorted({key for key, _ in fastest})
    weights = np.array([w.problem.count for w in winners], dtype=np.float64)
    costs = np.full((len(candidates), len(winners)), UNSERVED)
    for row, key in enumerate(candidates):
        for column, winner in enumerate(winners):
            entry = fastest.get((key, winner.problem.key))
            if entry is not None:
                costs[row, column] = _slowdown(entry, winner)
    chosen = [candidates[row] for row in _p_median(costs * weights, max_kernels)]
    return _assign(winners, fastest, chosen)


def _slowdown(entry: Tuned, winner: Tuned) -> float:
    """Log of the time ratio. An entry that looks faster than the winner of the finals is noise: a tie."""
    return max(0.0, math.log(entry.time_us / winner.time_us))


def _fastest(winners: Sequence[Tuned], alternatives: Iterable[Tuned]) -> dict[tuple[str, str], Tuned]:
    """The fastest entry of each (kernel, problem); a problem's winner stands whatever the others say."""
    wanted = {w.problem.key for w in winners}
    best: dict[tuple[str, str], Tuned] = {}
    for entry in alternatives:
        at = (entry.kernel_key, entry.problem.key)
        if entry.problem.key in wanted and (at not in best or entry.time_us < best[at].time_us):
            best[at] = entry
    best.update({(w.kernel_key, w.problem.key): w for w in winners})
    return best


def _p_median(costs: Floats, size: int) -> list[int]:
    """Rows of `costs` (kernels x problems), at most `size`, whose column minima have the least sum."""
    chosen: list[int] = []
    served = np.full(costs.shape[1], np.inf)
    for _ in range(min(size, len(costs))):
        row = int(np.argmin(np.minimum(costs, served).sum(axis=1)))
        chosen.append(row)
        served = np.minimum(served, costs[row])
    while (better := _swap(costs, chosen)) is not None:
        chosen = better
    return sorted(set(chosen))


def _swap(costs: Floats, chosen: list[int]) -> list[int] | None:
    """`chosen` after the best exchange of one row for another, or None when no exchange gains."""
    best_total, best = float(costs[chosen].min(axis=0).sum()) - 1e-12, None
    for position in range(len(chosen)):
        kept = chosen[:position] + chosen[position + 1 :]
        without = costs[kept].min(axis=0, initial=np.inf)
        totals = np.minimum(costs, without).sum(axis=1)
        row = int(np.argmin(totals))
        if totals[row] < best_total:
            best_total, best = float(totals[row]), [*kept, row]
    return best


def _assign(winners: Sequence[Tuned], fastest: dict[tuple[str, str], Tuned], chosen: list[str]) -> Selection:
    served, unserved = [], []
    log_loss = weight = 0.0
    for winner in winners:
        options = [fastest[at] for key in chosen if (at := (key, winner.problem.key)) in fastest]
        if not options:
            unserved.append(winner.problem)
            continue
        # The winner comes from its own finals: where its kernel is there, it is the answer.
        entry = winner if winner in options else min(options, key=lambda option: option.time_us)
        served.append(entry)
        log_loss += winner.problem.count * _slowdown(entry, winner)
        weight += winner.problem.count
    return Selection(tuple(served), tuple(unserved), math.expm1(log_loss / weight))
