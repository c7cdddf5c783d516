"""Which candidates are worth a prediction: the near ones, the analytically good ones, some at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutlass_tuner.refine.features import Matrix
from cutlass_tuner.refine.history import History
from cutlass_tuner.refine.pool import Pool, Rows

BEST = 3
"""Kernels of each problem, best first, around which neighbours are looked for."""
AT_DISTANCE = {1: 700, 2: 500, 3: 300}
"""The most neighbours kept at each number of changed knobs."""
RANDOM = 200
PRIOR = 8
"""Fresh kernels of each problem, best first by the op's estimate."""


class Neighbourhood:
    """Finds the fresh rows a batch is chosen from. `prior` is candidates x problems, small is good."""

    def __init__(self, pool: Pool, serves: NDArray[np.bool_], prior: Matrix | None) -> None:
        self._pool, self._serves = pool, serves
        self._ranked: list[Rows] = []
        if prior is not None:
            self._ranked = [_ranked(column, served) for column, served in zip(prior.T, serves.T, strict=True)]

    def rows(self, history: History, rng: np.random.Generator) -> Rows:
        """Fresh rows, sorted, without duplicates; empty only when nothing is fresh."""
        fresh = self._pool.fresh
        found = [*self._around(self._anchors(history), rng), *self._estimated()]
        rest = np.flatnonzero(fresh)
        found.append(rest if len(rest) <= RANDOM else rng.choice(rest, RANDOM, replace=False))
        return np.unique(np.concatenate(found))

    def _anchors(self, history: History) -> Rows:
        """The rows that are among the `BEST` of some problem."""
        if not len(history.told):
            return history.told
        log_ratio = np.where(np.isnan(history.log_ratio), np.inf, history.log_ratio)
        order = np.argsort(log_ratio, axis=0, kind="stable")[:BEST]
        measured = np.isfinite(np.take_along_axis(log_ratio, order, axis=0))
        return np.unique(history.told[order[measured]])

    def _around(self, anchors: Rows, rng: np.random.Generator) -> list[Rows]:
        if not len(anchors):
            return []
        distance = np.full(len(self._pool), 255, dtype=np.uint8)
        for anchor in anchors.tolist():
            np.minimum(distance, self._pool.distance(anchor), out=distance)
        distance[~self._pool.fresh] = 255
        shells = [(np.flatnonzero(distance == d), most) for d, most in AT_DISTANCE.items()]
        return [s if len(s) <= most else rng.choice(s, most, replace=False) for s, most in shells]

    def _estimated(self) -> list[Rows]:
        return [ranked[self._pool.fresh[ranked]][:PRIOR] for ranked in self._ranked]


def _ranked(prior: Matrix, served: NDArray[np.bool_]) -> Rows:
    """The rows that serve a problem, best estimate first, as many as a long search can use up."""
    rows = np.flatnonzero(served)
    return rows[np.argsort(prior[rows], kind="stable")[:2000]]
