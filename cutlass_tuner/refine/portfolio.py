"""The default sampler: which siblings to build next, so that each problem's best kernel gets better.

Every kernel built is screened on every problem, and the answer is a kernel a problem. So the gain
of a kernel is the sum, over problems, of what it is expected to improve on that problem's own
incumbent, not its average. Expected improvement: Jones, Schonlau & Welch 1998, eq. 15.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from optuna.study import Study
from optuna.trial import FrozenTrial
from scipy.special import ndtr

from cutlass_tuner.refine import history
from cutlass_tuner.refine.batch import BatchSampler, one_thread
from cutlass_tuner.refine.features import Matrix, encode
from cutlass_tuner.refine.focus import Focus
from cutlass_tuner.refine.neighbours import Neighbourhood
from cutlass_tuner.refine.pool import Pool, Rows
from cutlass_tuner.refine.surrogate import Surrogate, World, log_prior

UNIT_S, KERNEL_S = 24.0, 2.8
"""CPU seconds of a translation unit, and of each kernel in it (nvcc 13.0, siblings that share tile
and schedule: one kernel 26.8, six 40.7)."""
GROUPS = 16
"""Sibling groups, best first by their members near at hand, of which a batch is worked out."""
GROUP_MEMBERS = 128


class PortfolioSampler(BatchSampler):
    """Expected improvement summed over problems, for whole batches of siblings.

    `weights` are the problems' counts. `estimate_us` is candidates x problems, the op's analytic
    estimate in microseconds, or None. The study's trials carry what was measured in the user
    attribute `history.LOG_RATIO`; pending trials are taken into account. The same trials and seed
    give the same batch.
    """

    def __init__(self, pool: Pool, weights: Sequence[float], estimate_us: Matrix | None, seed: int) -> None:
        super().__init__(pool)
        share = np.asarray(weights, dtype=np.float64)
        candidates = pool.candidates
        serves = np.asarray(candidates.serves, dtype=np.bool_)
        unwise_on = np.asarray(candidates.unwise_on, dtype=np.bool_)
        prior = None if estimate_us is None else log_prior(np.asarray(estimate_us, np.float64), serves)
        features = encode(pool.effective, np.asarray(candidates.unwise, dtype=np.bool_))
        self._world = World(features, serves, unwise_on, prior, share / share.sum())
        self._near = Neighbourhood(pool, serves, prior)
        self._seed = seed
        self._plan: list[int] = []

    def begin(self, study: Study, size: int, group: int | None = None, focus: Focus | None = None) -> None:
        with one_thread():
            self._plan = self._batch(study, size, group, focus)

    def pick(self, study: Study, waiting: Sequence[int], size: int) -> list[int]:
        """Those expected to gain most together, by what is measured: who proposed them did not know."""
        with one_thread():
            rows = np.array(waiting, dtype=np.int64)
            model = Surrogate(self._world, *self._known(study))
            return _Draft(model, rows, None).fill(np.arange(len(rows)), size, thrifty=False)[0]

    def _known(self, study: Study) -> tuple[history.History, np.random.Generator]:
        """What the study knows, and random numbers that depend on how far it is."""
        asked = int(np.count_nonzero(~self.pool.fresh))
        known = history.read(study, self.pool, len(self._world.weights))
        return known, np.random.default_rng([self._seed, asked])

    def more(self) -> bool:
        return bool(self._plan)

    def choose(self, study: Study, trial: FrozenTrial) -> int:
        if not self._plan:
            self.begin(study, 1)
        return self._plan.pop(0)

    def _batch(self, study: Study, size: int, group: int | None, focus: Focus | None) -> list[int]:
        known, rng = self._known(study)
        if group is not None:
            rows = self._fresh_members(group, focus, rng)
        else:
            rows = self._near.rows(known, rng) if focus is None else self._near.focused(focus, known, rng)
        if size < 1 or not len(rows):
            return []
        model = Surrogate(self._world, known, rng)
        if group is not None:
            return _Draft(model, rows, focus).fill(np.arange(len(rows)), size, thrifty=False)[0]
        return self._best_batch(model, rows, size, focus, rng)

    def _best_batch(
        self, model: Surrogate, rows: Rows, size: int, focus: Focus | None, rng: np.random.Generator
    ) -> list[int]:
        """The batch that gains most per second of compiling, over the most promising groups."""
        score = _Draft(model, rows, focus).gains(np.arange(len(rows)))
        groups = _promising(self.pool.groups[rows], score, size)
        members = [self._fresh_members(group, focus, rng) for group in groups]
        draft = _Draft(model, np.concatenate(members), focus)
        ends = np.cumsum([len(m) for m in members])
        positions = np.split(np.arange(ends[-1]), ends[:-1])
        drafts = [draft.fill(position, size, thrifty=True) for position in positions]
        return max(drafts, key=lambda filled: filled[1])[0]

    def _fresh_members(self, group: int, focus: Focus | None, rng: np.random.Generator) -> Rows:
        rows = self.pool.members(group)
        rows = rows[self.pool.fresh[rows]]
        if focus is not None:
            rows = rows[focus.rows[rows]]
        return rows if len(rows) <= GROUP_MEMBERS else rng.choice(rows, GROUP_MEMBERS, replace=False)


def _promising(groups: NDArray[np.int32], score: Matrix, size: int) -> list[int]:
    """The `GROUPS` groups whose best `size` members promise most."""
    order = np.lexsort((-score, groups))
    ordered = groups[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    kept = order[rank < size]
    total = np.bincount(groups[kept], weights=score[kept])
    present = np.unique(groups)
    best: list[int] = present[np.argsort(-total[present], kind="stable")[:GROUPS]].tolist()
    return best


class _Draft:
    """Batches drawn up greedily: each next kernel is judged with those already chosen believed in.

    With a focus, what kernels gain on other problems than its own counts for nothing.
    """

    def __init__(self, model: Surrogate, rows: Rows, focus: Focus | None) -> None:
        self._model, self._beliefs = model, model.beliefs(rows)
        weights = model.world.weights if focus is None else model.world.weights * focus.problems
        self._weights = weights * model.world.serves[rows]
        self._success = model.success(rows)

    def gains(self, at: NDArray[np.int64]) -> Matrix:
        """Expected gain in the objective of each row at positions `at`, on its own."""
        beliefs = self._beliefs
        gain = improvement(beliefs.mean[at], beliefs.variance[at], self._model.incumbent)
        total: Matrix = (gain * self._weights[at]).sum(axis=1) * self._success[at]
        return total

    def fill(self, at: NDArray[np.int64], size: int, thrifty: bool) -> tuple[list[int], float]:
        """Up to `size` rows out of positions `at`, and their expected gain per compile second.

        A chosen kernel lowers the incumbents to what it is expected to reach and, through the
        posterior covariance, what is still to learn about its siblings. A thrifty batch ends where
        one kernel more would lower the gain per second.
        """
        mean, variance = self._beliefs.mean[at], self._beliefs.variance[at].copy()
        served = self._weights[at] > 0
        covariances = self._beliefs.covariances(at)
        incumbent = self._model.incumbent.copy()
        open_ = np.ones(len(at), dtype=np.bool_)
        chosen: list[int] = []
        total, rate = 0.0, 0.0
        while len(chosen) < min(size, len(at)):
            gain = (improvement(mean, variance, incumbent) * self._weights[at]).sum(axis=1)
            gain = np.where(open_, gain * self._success[at], -1.0)
            pick = int(gain.argmax())
            new_rate = (total + float(gain[pick])) / (UNIT_S + KERNEL_S * (len(chosen) + 1))
            if thrifty and chosen and new_rate < rate:
                break
            total, rate = total + float(gain[pick]), new_rate
            chosen.append(pick)
            open_[pick] = False
            incumbent = np.where(served[pick], np.minimum(incumbent, mean[pick]), incumbent)
            self._believe(covariances, pick, variance)
        return self._beliefs.rows[at[chosen]].tolist(), rate

    def _believe(self, covariances: list[Matrix], pick: int, variance: Matrix) -> None:
        """Condition every part on the picked kernel: a rank-one update of its covariance, in place."""
        for part, covariance in zip(self._model.parts, covariances, strict=True):
            column = covariance[:, pick].copy()
            learnt = np.outer(column, column) / (column[pick] + part.posterior.hyper.noise)
            np.subtract(covariance, learnt, out=covariance)
            unit = np.maximum(np.diag(covariance), 1e-6)
            variance[:, part.columns] = unit[:, None] * part.posterior.amplitude**2


def improvement(mean: Matrix, variance: Matrix, incumbent: Matrix) -> Matrix:
    """Expected improvement below `incumbent` of a normal variable, elementwise."""
    deviation = np.sqrt(variance)
    z = (incumbent - mean) / deviation
    gain: Matrix = deviation * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))
    return gain
