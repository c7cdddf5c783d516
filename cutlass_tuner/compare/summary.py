"""Rows -> figures over all problems. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from cutlass_tuner.ops.registry import Op
from cutlass_tuner.results import (
    BEST,
    BEST_CUBLASLT,
    BEST_LAYOUT,
    TORCH,
    Bucket,
    Outcome,
    Row,
    Summary,
)
from cutlass_tuner.statistics import Paired

EDGES_GFLOP = (1, 10, 100)


@dataclass(frozen=True)
class _Compared:
    row: Row
    pair: Paired
    outcome: Outcome


def against(op: Op) -> tuple[str, ...]:
    """What an op's results are compared with, `results.headline` first: each baseline and what the best of
    several would give."""
    names = [*op.baselines, BEST_CUBLASLT] if op.tunes_baseline else [BEST, *op.baselines]
    return (*names, *[BEST_LAYOUT] * (len(op.baseline_layouts) > 1))


def summary(rows: Sequence[Row], baseline: str = TORCH) -> Summary:
    """The figures against a baseline, or against `BEST`, `BEST_LAYOUT` or `BEST_CUBLASLT`.

    A row without a ratio counts in `missing`, one below the physical floor in `impossible`; neither
    enters a mean.
    """
    judged = [(row, *row.against(baseline)) for row in rows]
    compared = [
        _Compared(row, pair, outcome)
        for row, pair, outcome in judged
        if pair is not None and outcome != "impossible"
    ]
    weights = [c.row.flops * c.row.problem.count for c in compared]
    outcomes = [c.outcome for c in compared]
    return Summary(
        baseline=baseline,
        problems=len(rows),
        compared=len(compared),
        wins=outcomes.count("faster"),
        ties=outcomes.count("tie"),
        losses=outcomes.count("slower"),
        missing=tuple(row.problem.label for row, pair, _ in judged if pair is None),
        impossible=tuple(row.problem.label for row, pair, o in judged if pair and o == "impossible"),
        mean=_mean([c.pair.ratio for c in compared]),
        geomean=_geomean([c.pair.ratio for c in compared]),
        flop_weighted=_mean([c.pair.ratio for c in compared], weights),
        time_weighted=_time_weighted(compared),
        buckets=_buckets(compared),
        roofline=_geomean([c.row.roofline for c in compared if c.row.roofline is not None]),
    )


def _mean(values: list[float], weights: list[int] | None = None) -> float | None:
    if not values:
        return None
    weights = weights or [1] * len(values)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _geomean(values: list[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def _time_weighted(compared: list[_Compared]) -> float | None:
    """Total baseline time / total time of ours, over `count` calls of each.

    The baseline's time is ours times the paired ratio, so that drift between rounds stays out.
    """
    ours = [(c.row.ours_us or 0.0) * c.row.problem.count for c in compared]
    theirs = sum(us * c.pair.ratio for us, c in zip(ours, compared, strict=True))
    return theirs / sum(ours) if ours else None


def _buckets(compared: list[_Compared]) -> tuple[Bucket, ...]:
    """By FLOPs of one call; empty ranges are left out."""
    bounds = (0, *EDGES_GFLOP, math.inf)
    buckets = []
    for low, high in pairwise(bounds):
        inside = [c for c in compared if low <= c.row.flops / 1e9 < high]
        geomean = _geomean([c.pair.ratio for c in inside])
        if geomean is not None:
            wins = sum(c.outcome == "faster" for c in inside)
            buckets.append(Bucket(label=_label(low, high), problems=len(inside), geomean=geomean, wins=wins))
    return tuple(buckets)


def _label(low: float, high: float) -> str:
    if low == 0:
        return f"< {high:g} GFLOP"
    return f">= {low:g} GFLOP" if math.isinf(high) else f"{low:g}-{high:g} GFLOP"
