"""What is believed about every kernel on every problem: a trend plus a Gaussian process.

log(time / reference) = a_s + b_s * prior + c_s * unwise + GP_s(knobs), for each problem s. `prior`
is the op's analytic estimate as log(estimate / best estimate of the problem), so that a_s is the
expected ratio of the kernel the estimate likes best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutlass_tuner.refine import gp
from cutlass_tuner.refine.features import Features, Matrix
from cutlass_tuner.refine.history import History
from cutlass_tuner.refine.pool import Rows

CLIP = 1.0
"""A kernel more than e times slower than a problem's incumbent is just bad: how bad teaches nothing."""
PRIOR_CLIP = 2.0
TREND = np.array([0.0, 0.5, 0.2])
"""Expected a, b, c before data speak: the analytic estimate is half right, spills cost some 20 %."""
TREND_TRUST = np.array([0.5, 4.0, 4.0])
"""How many observations each expectation counts as."""
SUCCESS, SUCCESS_TRUST = 0.97, 0.3
"""The chance that a legal kernel builds and runs, and how many observations that counts as."""


@dataclass(frozen=True)
class World:
    """What does not change during a search.

    `serves`, `unwise_on` and `prior` are candidates x problems; `prior` is in log units above the
    problem's best estimate, or None where the op has no estimate. `weights` (a problem's share of
    the objective) sum to one.
    """

    features: Features
    serves: NDArray[np.bool_]
    unwise_on: NDArray[np.bool_]
    prior: Matrix | None
    weights: Matrix


def log_prior(estimate_us: Matrix, serves: NDArray[np.bool_]) -> Matrix:
    """Estimated microseconds as log units above each problem's best served estimate, clipped."""
    usable = serves & np.isfinite(estimate_us) & (estimate_us > 0)
    log = np.log(np.where(usable, estimate_us, 1.0))
    best = np.where(usable, log, np.inf).min(axis=0, initial=np.inf)
    above = np.where(usable, log - np.where(np.isfinite(best), best, 0.0), PRIOR_CLIP)
    return np.clip(above, 0.0, PRIOR_CLIP)


@dataclass(frozen=True)
class _Part:
    """Problems that the kernels seen so far serve alike, and the process they share."""

    columns: NDArray[np.int64]
    posterior: gp.Posterior


class Beliefs:
    """Beliefs about some rows: `mean` and `variance` are rows x problems, in log ratio units."""

    def __init__(self, surrogate: Surrogate, rows: Rows) -> None:
        self.rows = rows
        self.mean = surrogate.trend(rows)
        self.variance = np.empty_like(self.mean)
        self._surrogate = surrogate
        self._projected: list[Matrix] = []
        for part in surrogate.parts:
            mean, projected = part.posterior.project(rows)
            self._projected.append(projected)
            amplitude = part.posterior.amplitude
            self.mean[:, part.columns] += mean
            unit = np.maximum(1.0 - (projected**2).sum(axis=0), 1e-6)
            self.variance[:, part.columns] = unit[:, None] * amplitude**2

    def covariances(self, chosen: NDArray[np.int64]) -> list[Matrix]:
        """Of the rows at the positions `chosen`: one matrix a part, in units of amplitude squared."""
        parts = zip(self._surrogate.parts, self._projected, strict=True)
        return [part.posterior.covariance(self.rows[chosen], v[:, chosen]) for part, v in parts]


class Surrogate:
    """The model of one moment of a search. Building it costs the cube of the kernels seen."""

    def __init__(self, world: World, history: History, rng: np.random.Generator) -> None:
        self.world = world
        with np.errstate(invalid="ignore"):
            best = np.where(np.isnan(history.log_ratio), np.inf, history.log_ratio).min(
                axis=0, initial=np.inf
            )
            clipped = np.minimum(history.log_ratio, best + CLIP)
        self._coefficients = self._fit_trend(history.told, clipped)
        residual = clipped - self.trend(history.told)
        seen = np.concatenate([history.told, history.pending])
        unseen = np.full((len(history.pending), residual.shape[1]), np.nan)
        self.parts = self._fit_parts(seen, np.vstack([residual, unseen]), rng)
        self._outcomes = np.concatenate([history.told, history.failed])
        self._succeeded = np.arange(len(self._outcomes)) < len(history.told)
        self.incumbent = self._incumbents(best, history.pending)

    def _basis(self, rows: Rows) -> Matrix:
        """rows x problems x (1, prior, unwise)."""
        basis = np.ones((len(rows), len(self.world.weights), 3))
        basis[:, :, 1] = 0.0 if self.world.prior is None else self.world.prior[rows]
        basis[:, :, 2] = self.world.unwise_on[rows]
        return basis

    def _fit_trend(self, rows: Rows, log_ratio: Matrix) -> Matrix:
        """Ridge regression towards `TREND`, a problem at a time: problems x 3."""
        basis = np.where(np.isnan(log_ratio)[:, :, None], 0.0, self._basis(rows))
        offset = np.nan_to_num(log_ratio, nan=0.0) - basis @ TREND
        gram = np.einsum("nsi,nsj->sij", basis, basis) + np.diag(TREND_TRUST)
        right = np.einsum("nsi,ns->si", basis, offset)
        coefficients = TREND + np.linalg.solve(gram, right[:, :, None])[:, :, 0]
        coefficients[:, 1:] = np.maximum(coefficients[:, 1:], 0.0)  # an estimate never ranks backwards
        return coefficients

    def trend(self, rows: Rows) -> Matrix:
        trend: Matrix = np.einsum("nsi,si->ns", self._basis(rows), self._coefficients)
        return trend

    def _fit_parts(self, seen: Rows, residual: Matrix, rng: np.random.Generator) -> list[_Part]:
        serves = self.world.serves[seen]
        patterns, of_problem = np.unique(serves, axis=1, return_inverse=True)
        parts = []
        for number in range(patterns.shape[1]):
            columns, rows = np.flatnonzero(of_problem.ravel() == number), patterns[:, number]
            values = residual[np.ix_(rows, columns)]
            whole = ~np.isnan(values).any(axis=1)
            hyper = gp.fit(self.world.features, seen[rows][whole], values[whole], rng)
            parts.append(_Part(columns, gp.Posterior(self.world.features, seen[rows], values, hyper)))
        return parts

    def _incumbents(self, best: Matrix, pending: Rows) -> Matrix:
        """The least log ratio of each problem, counting what pending kernels are expected to reach.

        A problem without any time yet is compared with its reference, i.e. with 0.
        """
        incumbent = np.where(np.isfinite(best), best, 0.0)
        if len(pending):
            expected = np.where(self.world.serves[pending], Beliefs(self, pending).mean, np.inf)
            incumbent = np.minimum(incumbent, expected.min(axis=0))
        return incumbent

    def beliefs(self, rows: Rows) -> Beliefs:
        return Beliefs(self, rows)

    def success(self, rows: Rows) -> Matrix:
        """The chance that each kernel builds and runs: a kernel-weighted vote of the outcomes so far."""
        if self._succeeded.all():
            return np.full(len(rows), SUCCESS)
        # Failures are sharp (one schedule, one tile): the vote is a few powers more local than the model.
        vote = self.parts[0].posterior.similarity(rows, self._outcomes) ** 4
        ok: Matrix = vote @ self._succeeded + SUCCESS * SUCCESS_TRUST
        chance: Matrix = ok / (vote.sum(axis=1) + SUCCESS_TRUST)
        return chance
