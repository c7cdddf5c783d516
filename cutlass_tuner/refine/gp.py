"""A Gaussian process with one output per problem and one kernel matrix for all of them.

Standard equations: Rasmussen & Williams, Gaussian Processes for Machine Learning, algorithm 2.1
and section 5.4. The covariance is Matern 5/2 (their eq. 4.17) with a weight per knob.

Outputs are independent given the kernel matrix, each with an amplitude of its own. A row may lack
outputs (a launch failed there, or the kernel is still being built): the missing targets are set
to their own posterior expectation. With that choice the mean is exactly that of a process which
never saw those entries (the expectation solves A_mm y_m = -A_mo y_o, A the inverse covariance,
i.e. their weights vanish), while the variance shrinks as if they had been seen, which is what
spreads the next batches away from pending ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from cutlass_tuner.refine.features import Features, Matrix

WEIGHT = 0.7
"""Weight of a knob before data speak: kernels one whole knob apart correlate by about 0.65."""
NOISE = 0.02
"""Noise variance over signal variance before data speak."""
AMPLITUDE = 0.25
"""Standard deviation of a log ratio around its mean before data speak."""
AMPLITUDE_TRUST = 6.0
"""How many observations `AMPLITUDE` counts as."""
SUBSET = 160
"""Rows the likelihood is computed on: the hyperparameters need no more, and it costs their cube."""


@dataclass(frozen=True)
class Hyper:
    """A weight per knob (inverse length scale; a knob's range is 1) and the relative noise variance."""

    weights: Matrix
    noise: float


def matern(squared: Matrix) -> Matrix:
    """Matern 5/2 correlation of squared distances."""
    distance = np.sqrt(5.0 * np.maximum(squared, 0.0))
    return (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)


def squared_distances(a: Matrix, b: Matrix) -> Matrix:
    """All pairs of rows: len(a) x len(b)."""
    squared: Matrix = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return squared


def fit(features: Features, rows: NDArray[np.int64], residual: Matrix, rng: np.random.Generator) -> Hyper:
    """Hyperparameters by one sweep over a small grid of the profiled marginal likelihood.

    `residual` is len(rows) x problems without gaps. A weak prior keeps the knobs' weights near
    `WEIGHT` while there are few observations.
    """
    weights = np.full(features.groups, WEIGHT)
    if len(rows) < 2 or not features.groups:
        return Hyper(weights, NOISE)
    if len(rows) > SUBSET:
        chosen = np.sort(rng.choice(len(rows), SUBSET, replace=False))
        rows, residual = rows[chosen], residual[chosen]
    varying = residual.std(axis=0) > 1e-9
    if not varying.any():
        return Hyper(weights, NOISE)
    by_knob = np.stack(
        [
            squared_distances(block, block)
            for block in (features.values[rows][:, features.group == g] for g in range(features.groups))
        ]
    )
    return _sweep(by_knob, residual[:, varying], weights)


def _sweep(by_knob: Matrix, residual: Matrix, weights: Matrix) -> Hyper:
    best, best_score = Hyper(weights, NOISE), -np.inf
    for scale in (0.5, 1.0, 2.0):
        for noise in (0.003, NOISE, 0.1):
            trial = Hyper(weights * scale, noise)
            score = _log_posterior(by_knob, residual, trial)
            if score > best_score:
                best, best_score = trial, score
    for knob in range(len(weights)):
        for factor in (0.15, 0.4, 2.5):
            trial_weights = best.weights.copy()
            trial_weights[knob] = weights[knob] * factor
            trial = Hyper(trial_weights, best.noise)
            score = _log_posterior(by_knob, residual, trial)
            if score > best_score:
                best, best_score = trial, score
    return best


def _log_posterior(by_knob: Matrix, residual: Matrix, hyper: Hyper) -> float:
    """Log likelihood with each output's amplitude profiled out, plus a log-normal prior on weights."""
    n, outputs = residual.shape
    covariance = matern(np.tensordot(hyper.weights**2, by_knob, axes=1))
    covariance[np.diag_indices(n)] += hyper.noise
    factor = cho_factor(covariance, lower=True, check_finite=False)
    fit_term = np.einsum("ns,ns->s", residual, cho_solve(factor, residual, check_finite=False))
    log_det = 2.0 * np.log(np.diag(factor[0])).sum()
    likelihood = -0.5 * n * np.log(fit_term / n + 1e-12).sum() - 0.5 * outputs * log_det
    return float(likelihood) - float((np.log(hyper.weights / WEIGHT) ** 2).sum())


class Posterior:
    """The process after seeing `residual` (rows x problems, NaN = missing) at `rows`."""

    def __init__(self, features: Features, rows: NDArray[np.int64], residual: Matrix, hyper: Hyper) -> None:
        self._scaled = features.values * hyper.weights[features.group]
        self._rows, self.hyper = rows, hyper
        covariance = self._correlation(rows, rows)
        covariance[np.diag_indices(len(rows))] += hyper.noise
        self._lower = np.linalg.cholesky(covariance)
        inverse = cho_solve((self._lower, True), np.eye(len(rows)), check_finite=False)
        filled = _with_expectations(residual, inverse)
        self._weights = inverse @ filled
        seen = (~np.isnan(residual)).sum(axis=0)
        energy = np.einsum("ns,ns->s", filled, self._weights)
        prior = AMPLITUDE_TRUST * AMPLITUDE**2
        self.amplitude: Matrix = np.sqrt((energy + prior) / (seen + AMPLITUDE_TRUST))
        """Standard deviation of each problem's log ratio around its mean, one a problem."""

    def _correlation(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> Matrix:
        return matern(squared_distances(self._scaled[a], self._scaled[b]))

    def project(self, rows: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
        """Mean residual (rows x problems), and V = L^-1 k(seen, rows): what variances are made of."""
        cross = self._correlation(self._rows, rows)
        return cross.T @ self._weights, solve_triangular(self._lower, cross, lower=True, check_finite=False)

    def covariance(self, rows: NDArray[np.int64], projected: Matrix) -> Matrix:
        """Posterior covariance among `rows` in units of amplitude squared, without noise."""
        return self._correlation(rows, rows) - projected.T @ projected

    def similarity(self, rows: NDArray[np.int64], others: NDArray[np.int64]) -> Matrix:
        """Prior correlation, len(rows) x len(others)."""
        return self._correlation(rows, others)


def _with_expectations(residual: Matrix, inverse: Matrix) -> Matrix:
    """`residual` with each missing entry at its expectation given its column's other entries."""
    filled = np.nan_to_num(residual, nan=0.0)
    missing = np.isnan(residual)
    patterns, of_problem = np.unique(missing, axis=1, return_inverse=True)
    for number in range(patterns.shape[1]):
        gap, columns = patterns[:, number], np.flatnonzero(of_problem.ravel() == number)
        if gap.any():
            target = -inverse[np.ix_(gap, ~gap)] @ filled[np.ix_(~gap, columns)]
            filled[np.ix_(gap, columns)] = np.linalg.solve(inverse[np.ix_(gap, gap)], target)
    return filled
