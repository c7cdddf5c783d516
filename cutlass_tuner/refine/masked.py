"""Optuna's own samplers behind a legality mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from cutlass_tuner.refine.batch import BatchSampler, one_thread
from cutlass_tuner.refine.focus import Focus
from cutlass_tuner.refine.pool import Pool


class MaskedSampler(BatchSampler):
    """Lets another sampler propose, and keeps the proposal when it is legal and fresh.

    After `retries` vain proposals the nearest allowed kernel (fewest differing knobs) is taken. A
    sampler that proposes nothing (random, or one still starting up) draws uniformly from the
    allowed rows, which is what rejection sampling over the grid would converge to.

    The inner sampler is made anew for each trial from the seed and the trial's number: a resumed
    search then continues as the uninterrupted one would, though no random state is stored.
    """

    def __init__(self, pool: Pool, make: Callable[[int], BaseSampler], seed: int, retries: int = 16) -> None:
        super().__init__(pool)
        self._make, self._seed, self._retries = make, seed, retries
        self._left = 0
        self._group: int | None = None
        self._focus: Focus | None = None
        self._space = {name: d for name, d in pool.distributions.items() if not d.single()}
        self._fixed = {name: v[0] for name, v in pool.values.items() if len(v) == 1}

    def begin(self, study: Study, size: int, group: int | None = None, focus: Focus | None = None) -> None:
        self._left, self._group, self._focus = size, group, focus

    def more(self) -> bool:
        return self._left > 0 and bool(self._allowed().any())

    def _allowed(self) -> NDArray[np.bool_]:
        allowed = self.pool.fresh
        if self._focus is not None:
            allowed = allowed & self._focus.rows
        if self._group is not None:
            allowed = allowed & (self.pool.groups == self._group)
        return allowed

    def choose(self, study: Study, trial: FrozenTrial) -> int:
        if self._left == 0:
            self._group = self._focus = None
        with one_thread():
            row = self._choose(study, trial)
        if self._left:
            self._left -= 1
            self._group = int(self.pool.groups[row])
        return row

    def _choose(self, study: Study, trial: FrozenTrial) -> int:
        rng = np.random.default_rng([self._seed, trial.number])
        allowed = self._allowed()
        inner = self._make(int(rng.integers(2**31)))
        # A proposal hardly ever falls into one sibling group or an idea by chance: go to the nearest at once.
        tries = self._retries if self._group is None and self._focus is None else 1
        params: dict[str, Any] = {}
        for _ in range(tries):
            params = inner.sample_relative(study, trial, self._space) if self._space else {}
            if not params:
                return int(rng.choice(np.flatnonzero(allowed)))
            row = self.pool.row_of_params({**params, **self._fixed})
            if row is not None and allowed[row]:
                return row
        return self.pool.nearest({**params, **self._fixed}, allowed, rng)


def tpe(pool: Pool, seed: int) -> MaskedSampler:
    """Optuna's TPE (multivariate, constant liar for pending kernels)."""
    return MaskedSampler(pool, lambda s: TPESampler(seed=s), seed)


def gp(pool: Pool, seed: int) -> MaskedSampler:
    """Optuna's Gaussian process on the summed objective (pending kernels by fantasies).

    A proposal costs it up to a second, and a second one from the same data is mostly the same: two tries.
    """
    return MaskedSampler(pool, lambda s: GPSampler(seed=s), seed, retries=2)


def random(pool: Pool, seed: int) -> MaskedSampler:
    """Uniform over the legal kernels nobody asked for yet."""
    return MaskedSampler(pool, lambda s: RandomSampler(seed=s), seed)
