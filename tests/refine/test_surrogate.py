"""The model of a moment: gaps, pending kernels, the trend, problems that not every kernel serves."""

from __future__ import annotations

import numpy as np
import pytest

from cutlass_tuner.records import Failure
from cutlass_tuner.refine import history
from cutlass_tuner.refine.features import encode
from cutlass_tuner.refine.history import History
from cutlass_tuner.refine.pool import Pool
from cutlass_tuner.refine.search import Search
from cutlass_tuner.refine.surrogate import CLIP, TREND, Surrogate, log_prior
from cutlass_tuner.refine.surrogate import World as Known
from refine.synthetic import World

NONE = np.zeros(0, dtype=np.int64)


@pytest.fixture(scope="module")
def world() -> World:
    return World(size=400, seed=2, layouts=("tn", "tt"))


@pytest.fixture(scope="module")
def known(world: World) -> Known:
    pool = Pool(world, world.knobs, world.siblings)
    prior = log_prior(world.estimate_us, world.serves)
    share = np.full(len(world.problems), 1 / len(world.problems))
    return Known(encode(pool.effective, world.unwise), world.serves, world.unwise_on, prior, share)


def model(
    known: Known,
    told: np.ndarray,
    log_ratio: np.ndarray,
    failed: np.ndarray = NONE,
    pending: np.ndarray = NONE,
) -> Surrogate:
    return Surrogate(known, History(told, log_ratio, failed, pending), np.random.default_rng(0))


def test_trials_are_read_by_state(world: World) -> None:
    search = Search(world, world.knobs, world.problems, world.siblings, sampler="random")
    kernels = [proposal.kernel for _ in range(6) for proposal in search.next_batch(1)]
    rows = [search.pool.row(kernel) for kernel in kernels]
    key = next(p.key for s, p in enumerate(world.problems) if world.serves[rows[0], s])
    search.tell(kernels[0], {key: 0.25})
    search.tell(kernels[1], Failure(stage="build", reason="no"))
    found = history.read(search.optuna_study, search.pool, len(world.problems))
    assert found.told.tolist() == [rows[0]]
    assert found.failed.tolist() == [rows[1]]
    assert found.pending.tolist() == sorted(rows[2:])
    assert np.nansum(found.log_ratio) == 0.25
    assert np.isnan(found.log_ratio).sum() == len(world.problems) - 1


def test_it_predicts_kernels_it_has_not_seen(world: World, known: Known) -> None:
    told, unseen = np.arange(0, 400, 2), np.arange(1, 400, 2)
    log_ratio = world.log_ratio[told]
    mean = model(known, told, log_ratio).beliefs(unseen).mean
    truth = np.minimum(world.log_ratio[unseen], np.nanmin(log_ratio, axis=0) + CLIP)
    error = np.nanstd(truth - mean)
    assert error < 0.4 * np.nanstd(truth)


def test_what_was_measured_is_believed_and_its_deviation_is_small(world: World, known: Known) -> None:
    told = np.arange(100)
    beliefs = model(known, told, world.log_ratio[told]).beliefs(np.arange(400))
    served = world.serves
    seen, other = beliefs.variance[:100][served[:100]], beliefs.variance[100:][served[100:]]
    assert np.median(seen) < 0.3 * np.median(other)


def test_pending_kernels_lower_what_is_left_to_learn_and_to_gain(world: World, known: Known) -> None:
    told, others = np.arange(0, 400, 8), np.arange(1, 400, 2)
    expected = np.where(
        world.serves[others], model(known, told, world.log_ratio[told]).beliefs(others).mean, 9.0
    )
    promising = (expected - np.nanmin(world.log_ratio[told], axis=0)).min(axis=1)
    pending = np.sort(others[np.argsort(promising)[:3]])
    assert promising.min() < -0.02
    without = model(known, told, world.log_ratio[told])
    with_ = model(known, told, world.log_ratio[told], pending=pending)
    served = world.serves[pending]
    before, after = without.beliefs(pending), with_.beliefs(pending)
    assert (after.variance[served] < 0.5 * before.variance[served]).all()
    np.testing.assert_allclose(after.mean[served], before.mean[served], atol=0.05)
    expected = np.where(served, after.mean, np.inf).min(axis=0)
    best = np.nanmin(world.log_ratio[told], axis=0)
    np.testing.assert_allclose(with_.incumbent, np.minimum(best, expected))
    np.testing.assert_allclose(without.incumbent, best)


def test_kernels_of_one_layout_say_nothing_certain_of_the_other(world: World, known: Known) -> None:
    """A tn kernel never ran tt problems: its tt twin's deviation there is that of an unseen kernel."""
    tn = np.flatnonzero(world.serves[:, 0])
    tt = np.flatnonzero(~world.serves[:, 0])
    log_ratio = world.log_ratio[tn]
    beliefs = model(known, tn, log_ratio).beliefs(tt)
    on_tt = ~world.serves[tn[0]]
    assert (beliefs.variance[:, on_tt] > 0.9 * beliefs.variance[:, on_tt].max()).all()


def test_without_a_time_the_reference_is_the_incumbent(world: World, known: Known) -> None:
    fresh = model(known, NONE, np.zeros((0, len(world.problems))))
    assert fresh.incumbent.tolist() == [0.0] * len(world.problems)
    prior = known.prior
    assert prior is not None
    beliefs = fresh.beliefs(np.arange(400))
    expected = TREND[1] * prior + TREND[2] * known.unwise_on
    np.testing.assert_allclose(beliefs.mean, expected)


def test_the_trend_trusts_an_estimate_as_far_as_it_proves_right(world: World, known: Known) -> None:
    told = np.arange(0, 400, 2)
    others = np.flatnonzero(world.serves[:, 3] & (np.arange(400) % 2 == 1))
    prior = known.prior
    assert prior is not None
    right = np.where(world.serves[told], np.minimum(prior[told], CLIP) - 0.1, np.nan)
    useless = np.where(world.serves[told], np.random.default_rng(0).normal(0, 0.2, right.shape), np.nan)
    slopes = []
    for log_ratio in (right, useless):
        trend = model(known, told, log_ratio).trend(others)[:, 3]
        slopes.append(np.polyfit(prior[others, 3], trend, 1)[0])
    assert slopes[0] > TREND[1] + 0.1
    assert slopes[1] < TREND[1] - 0.3


def test_failures_spread_to_kernels_alike(world: World, known: Known) -> None:
    plain = np.array([world.kernel(row).knobs["schedule"] == "plain" for row in range(400)])
    failed, told = np.flatnonzero(plain)[:40], np.flatnonzero(~plain)[:40]
    chance = model(known, told, world.log_ratio[told], failed=failed).success(np.arange(400))
    rest = np.arange(400) > max(failed.max(), told.max())
    assert chance[rest & plain].mean() < 0.5
    assert chance[rest & ~plain].mean() > chance[rest & plain].mean() + 0.2
