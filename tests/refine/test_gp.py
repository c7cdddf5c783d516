"""The Gaussian process against the textbook formulas, and its treatment of missing outputs."""

from __future__ import annotations

import numpy as np
import pytest

from cutlass_tuner.refine import gp
from cutlass_tuner.refine.features import Features, encode

ROWS = 40


@pytest.fixture
def features() -> Features:
    rng = np.random.default_rng(0)
    tile = [int(v) for v in rng.choice([64, 128, 256], ROWS)]
    schedule = [str(v) for v in rng.choice(["plain", "pingpong", "cooperative"], ROWS)]
    stages = [int(v) for v in rng.integers(2, 9, ROWS)]
    return encode({"tile": tile, "schedule": schedule, "stages": stages}, np.zeros(ROWS, dtype=np.bool_))


def outputs(problems: int = 3) -> np.ndarray:
    return np.random.default_rng(1).normal(0.0, 0.3, (ROWS, problems))


def kernel(features: Features, hyper: gp.Hyper) -> np.ndarray:
    """Matern 5/2, entry by entry as Rasmussen & Williams write it."""
    scaled = features.values * hyper.weights[features.group]
    r = np.linalg.norm(scaled[:, None, :] - scaled[None, :, :], axis=2)
    return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)


HYPER = gp.Hyper(np.array([0.6, 0.9, 0.4]), 0.03)


def test_mean_and_variance_are_the_textbook_ones(features: Features) -> None:
    seen, new, y = np.arange(25), np.arange(25, ROWS), outputs()
    posterior = gp.Posterior(features, seen, y[seen], HYPER)
    mean, projected = posterior.project(new)
    k = kernel(features, HYPER)
    inverse = np.linalg.inv(k[:25, :25] + 0.03 * np.eye(25))
    np.testing.assert_allclose(mean, k[25:, :25] @ inverse @ y[seen], atol=1e-9)
    expected = k[25:, 25:] - k[25:, :25] @ inverse @ k[:25, 25:]
    np.testing.assert_allclose(posterior.covariance(new, projected), expected, atol=1e-9)


def test_a_missing_output_leaves_the_mean_as_if_the_row_had_not_been_seen(features: Features) -> None:
    seen, new, y = np.arange(25), np.arange(25, ROWS), outputs()
    gaps = y[seen].copy()
    gaps[3:6, 0] = np.nan
    gaps[20, 2] = np.nan
    gaps[24, :] = np.nan  # a pending kernel
    mean, _ = gp.Posterior(features, seen, gaps, HYPER).project(new)
    for problem in range(3):
        present = np.flatnonzero(~np.isnan(gaps[:, problem]))
        alone = gp.Posterior(features, present, y[present][:, [problem]], HYPER)
        np.testing.assert_allclose(mean[:, [problem]], alone.project(new)[0], atol=1e-8)


def test_a_pending_row_shrinks_the_variance_around_it(features: Features) -> None:
    y = outputs()
    without = gp.Posterior(features, np.arange(10), y[:10], HYPER)
    pending = gp.Posterior(features, np.arange(11), np.vstack([y[:10], np.full((1, 3), np.nan)]), HYPER)
    at = np.array([10])
    before = without.covariance(at, without.project(at)[1])[0, 0]
    after = pending.covariance(at, pending.project(at)[1])[0, 0]
    assert before > 0.1
    assert after < 0.03  # about the noise


def test_amplitude_follows_each_problems_own_spread(features: Features) -> None:
    y = outputs() * np.array([0.1, 1.0, 4.0])
    amplitude = gp.Posterior(features, np.arange(ROWS), y, HYPER).amplitude
    assert amplitude[0] < 0.7 * amplitude[1] < amplitude[1] < 0.5 * amplitude[2]


def test_nothing_seen_is_the_prior(features: Features) -> None:
    none = np.zeros(0, dtype=np.int64)
    posterior = gp.Posterior(features, none, np.zeros((0, 3)), HYPER)
    mean, projected = posterior.project(np.arange(4))
    assert mean.tolist() == np.zeros((4, 3)).tolist()
    np.testing.assert_allclose(posterior.covariance(np.arange(4), projected).diagonal(), 1.0)
    np.testing.assert_allclose(posterior.amplitude, gp.AMPLITUDE)


def test_fit_finds_the_knob_that_matters() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(2, 10, 120), rng.integers(2, 10, 120)
    features = encode({"a": a.tolist(), "b": b.tolist()}, np.zeros(120, dtype=np.bool_))
    y = np.stack([np.sin(a * 1.1), np.cos(a * 0.9)], axis=1) + rng.normal(0, 0.02, (120, 2))
    hyper = gp.fit(features, np.arange(120), y - y.mean(axis=0), rng)
    assert hyper.weights[0] > 5 * hyper.weights[1]


def test_fit_sees_noise() -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(2, 30, 120)
    features = encode({"a": a.tolist()}, np.zeros(120, dtype=np.bool_))
    smooth, rough = np.log2(a)[:, None], rng.normal(0, 1, (120, 1))
    noise = [gp.fit(features, np.arange(120), y - y.mean(), rng).noise for y in (smooth, rough)]
    assert noise[0] < noise[1]


def test_features_are_log2_for_numbers_and_equidistant_for_words() -> None:
    effective = {
        "tile": [64, 128, 256],
        "schedule": ["b", "a", "c"],
        "swap": [True, False, True],
        "one": [7] * 3,
    }
    features = encode(effective, np.array([False, False, True]))
    squared = np.stack(
        [
            gp.squared_distances(block, block)
            for block in (features.values[:, features.group == g] for g in range(features.groups))
        ]
    )
    assert features.groups == 4  # tile, schedule, swap, unwise
    np.testing.assert_allclose(squared[0, 0], [0, 0.25, 1])
    np.testing.assert_allclose(squared[1], 1 - np.eye(3), atol=1e-12)
    np.testing.assert_allclose(squared[2, 0], [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(squared[3, 0], [0, 0, 1], atol=1e-12)
