"""Which candidates are worth a prediction: the near ones, the analytically good ones, some at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutlass_tuner.refine.features import Matrix
from cutlass_tuner.refine.focus import Focus
from cutlass_tuner.refine.history import History
from cutlass_tuner.refine.pool import Pool, Rows

BEST = 3
"""Kernels of each problem, best first, around which neighbours are looked for."""
AT_DISTANCE = {1: 700, 2: 500, 3: 300}
"""The most neighbours kept at each number of changed knobs."""
RANDOM = 200
PRIOR = 8
"""Fresh kernels of each problem, best first by the op's estimate."""
FOCUSED = 1200
"""The most rows of a focus, nearest to its problems' best kernels first, besides the estimated and random."""


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
        found = [*self._around(self._anchors(history.told, history.log_ratio), rng), *self._estimated()]
        rest = np.flatnonzero(fresh)
        found.append(rest if len(rest) <= RANDOM else rng.choice(rest, RANDOM, replace=False))
        return np.unique(np.concatenate(found))

    def focused(self, focus: Focus, history: History, rng: np.random.Generator) -> Rows:
        """Fresh rows of a focus, sorted, without duplicates; empty only when none is fresh."""
        fresh = self._pool.fresh & focus.rows
        rest = np.flatnonzero(fresh)
        if len(rest) <= FOCUSED:
            return rest
        anchors = self._anchors(history.told, history.log_ratio[:, focus.problems])
        shuffled = rng.permutation(rest)  # equally near ones are drawn by lot
        near = shuffled[np.argsort(self._nearness(anchors)[shuffled], kind="stable")[:FOCUSED]]
        ranked = [self._ranked[s] for s in np.flatnonzero(focus.problems)] if self._ranked else []
        estimated = [rows[fresh[rows]][:PRIOR] for rows in ranked]
        return np.unique(np.concatenate([near, *estimated, rng.choice(rest, RANDOM, replace=False)]))

    @staticmethod
    def _anchors(told: Rows, log_ratio: Matrix) -> Rows:
        """The told rows that are among the `BEST` of some problem; `log_ratio` is told x problems."""
        if not len(told):
            return told
        known = np.where(np.isnan(log_ratio), np.inf, log_ratio)
        order = np.argsort(known, axis=0, kind="stable")[:BEST]
        measured = np.isfinite(np.take_along_axis(known, order, axis=0))
        return np.unique(told[order[measured]])

    def _nearness(self, anchors: Rows) -> NDArray[np.uint8]:
        """Knobs in which each candidate differs from the nearest anchor; 255 without any."""
        distance = np.full(len(self._pool), 255, dtype=np.uint8)
        for anchor in anchors.tolist():
            np.minimum(distance, self._pool.distance(anchor), out=distance)
        return distance

    def _around(self, anchors: Rows, rng: np.random.Generator) -> list[Rows]:
        if not len(anchors):
            return []
        distance = self._nearness(anchors)
        distance[~self._pool.fresh] = 255
        shells = [(np.flatnonzero(distance == d), most) for d, most in AT_DISTANCE.items()]
        return [s if len(s) <= most else rng.choice(s, most, replace=False) for s, most in shells]

    def _estimated(self) -> list[Rows]:
        return [ranked[self._pool.fresh[ranked]][:PRIOR] for ranked in self._ranked]


def _ranked(prior: Matrix, served: NDArray[np.bool_]) -> Rows:
    """The rows that serve a problem, best estimate first, as many as a long search can use up."""
    rows = np.flatnonzero(served)
    return rows[np.argsort(prior[rows], kind="stable")[:2000]]
