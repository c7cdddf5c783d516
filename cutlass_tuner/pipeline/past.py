"""Winners of earlier studies on the same GPU, near the shapes at hand: what a proposer may learn from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cutlass_tuner.events import FinalRow, StudyHeader
from cutlass_tuner.ops import registry
from cutlass_tuner.propose.context import Past
from cutlass_tuner.records import Problem
from cutlass_tuner.results import TORCH
from cutlass_tuner.statistics import across
from cutlass_tuner.study.outcomes import outcomes

NEAR = 2.0
"""Doublings, over all extents together, up to which a shape is nearby."""


def nearby(roots: Iterable[Path], header: StudyHeader, problems: Sequence[Problem]) -> tuple[Past, ...]:
    """For each problem the nearest one that another study of the same op, GPU and L2 mode has a winner on.

    Of equally near ones the one that beats torch by most. Simulated studies don't count, nor does the study
    called `header.name`. Each past problem stands once, in the order of the problems it is near to.
    """
    past = [one for root in roots for one in _winners(root, header)]
    chosen: dict[str, Past] = {}
    for problem in problems:
        near = [(distance, one) for one in past if (distance := _doublings(problem, one.problem)) <= NEAR]
        if near:
            _, nearest = min(near, key=lambda pair: (pair[0], -pair[1].speedup))
            chosen.setdefault(nearest.problem.key, nearest)
    return tuple(chosen.values())


def _winners(root: Path, header: StudyHeader) -> Iterator[Past]:
    """The winner of every final under `root` that may stand beside results of the study of `header`."""

    def comparable(other: StudyHeader) -> bool:
        same = (other.op, other.environment.gpu, other.l2) == (header.op, header.environment.gpu, header.l2)
        return same and not other.simulated and other.name != header.name

    for outcome in outcomes(root, comparable):
        by_key = {problem.key: problem for problem in outcome.problems}
        for row in outcome.finals:
            speedup = _speedup(row)
            if row.winner is not None and speedup is not None and row.problem in by_key:
                yield Past(by_key[row.problem], row.winner, speedup)


def _speedup(row: FinalRow) -> float | None:
    """torch's time / the winner's; None without a winner, without torch, or where rounds don't add up."""
    samples = dict(zip(row.entrants, row.samples_us, strict=False))
    if row.winner is None:
        return None
    try:
        pair = across(samples.get(row.winner.key, ()), samples.get(TORCH, ()), row.contests)
    except ValueError:
        return None
    return None if pair is None else pair.ratio


def _doublings(a: Problem, b: Problem) -> float:
    """How far apart two problems of an op are, over all extents together; infinite between layouts, and where
    no kernel serves both."""
    if a.layout != b.layout or a.dims.keys() != b.dims.keys() or _unlike(a, b):
        return math.inf
    return sum(_between(a.dims[name], b.dims[name]) for name in a.dims)


def _unlike(a: Problem, b: Problem) -> bool:
    """Do they decide a kernel's knobs differently, whatever its family?"""
    families = registry.op(a.op).families.values()
    return all(any(given(a) != given(b) for given in family.given.values()) for family in families)


def _between(a: int, b: int) -> float:
    """Doublings from one extent to another; 0, which is none, is infinitely far from all others."""
    if a == b:
        return 0.0
    return abs(math.log2(a / b)) if a and b else math.inf
