"""The portfolio sampler: what it is for, what it costs, and that its parts do what they say."""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import optuna
import pytest

from cutlass_tuner.events import KernelTold
from cutlass_tuner.records import Failure
from cutlass_tuner.refine.pool import Pool
from cutlass_tuner.refine.portfolio import PortfolioSampler, improvement
from cutlass_tuner.refine.search import SamplerName, Search
from cutlass_tuner.refine.surrogate import PRIOR_CLIP, log_prior
from refine.synthetic import Knob, World, regret

SEEDS = 6


@cache
def world() -> World:
    return World(size=5000, seed=7)


def searching(world: World, sampler: SamplerName, seed: int, prior: bool = True) -> Search:
    return Search(
        world,
        world.knobs,
        world.problems,
        world.siblings,
        sampler=sampler,
        seed=seed,
        estimate_us=world.estimate_us if prior else None,
    )


def told(world: World, row: int) -> dict[str, float]:
    values = zip(world.problems, world.log_ratio[row], strict=True)
    return {problem.key: float(value) for problem, value in values if not np.isnan(value)}


@cache
def regret_after(sampler: SamplerName, seed: int, builds: int, prior: bool = True) -> float:
    """With four batches always in flight, from nothing, no seeds."""
    search = searching(world(), sampler, seed, prior)
    rows: list[int] = []
    in_flight = [search.next_batch(4) for _ in range(4)]
    while len(rows) < builds:
        for proposal in in_flight.pop(0):
            row = search.pool.row(proposal.kernel)
            assert row is not None
            rows.append(row)
            search.tell(proposal.kernel, told(world(), row))
        in_flight.append(search.next_batch(4))
    return regret(world(), rows[:builds])


def mean_regret(sampler: SamplerName, builds: int, prior: bool = True) -> float:
    return float(np.mean([regret_after(sampler, seed, builds, prior) for seed in range(SEEDS)]))


def test_it_beats_random_at_the_same_builds() -> None:
    portfolio, random = mean_regret("portfolio", 60), mean_regret("random", 60)
    print(f"mean regret after 60 builds: portfolio {portfolio:.3f}, random {random:.3f}")
    assert portfolio < 0.6 * random
    better = [regret_after("portfolio", s, 60) < regret_after("random", s, 60) for s in range(SEEDS)]
    assert sum(better) >= SEEDS - 1


def test_it_beats_random_without_an_estimate_too() -> None:
    assert mean_regret("portfolio", 60, prior=False) < 0.8 * mean_regret("random", 60)


def test_a_problems_weight_decides_who_is_served() -> None:
    """All the weight on one problem: its best kernels come first."""
    heavy = World(size=3000, seed=5)
    heavy.problems = [
        p.model_copy(update={"count": 1000 if i == 16 else 1}) for i, p in enumerate(heavy.problems)
    ]
    column = heavy.log_ratio[:, 16]
    search = searching(heavy, "portfolio", 0)
    best = []
    for _ in range(12):
        for proposal in search.next_batch(4):
            row = search.pool.row(proposal.kernel)
            assert row is not None
            best.append(column[row])
            search.tell(proposal.kernel, told(heavy, row))
    assert np.mean(column <= min(best)) < 0.003  # among the best 0.3 % after about 1 % was built


def test_kernels_that_fail_alike_are_avoided() -> None:
    """One schedule never builds: after some failures it is hardly asked for any more."""

    def failing(row: int) -> bool:
        return world().kernel(row).knobs["schedule"] == "pingpong"

    search = searching(world(), "portfolio", 0)
    asked: list[bool] = []
    for _ in range(24):
        for proposal in search.next_batch(4):
            row = search.pool.row(proposal.kernel)
            assert row is not None
            asked.append(failing(row))
            outcome = Failure(stage="build", reason="no") if failing(row) else told(world(), row)
            search.tell(proposal.kernel, outcome)
    share = np.mean([failing(row) for row in range(len(world()))])
    assert share > 0.2
    assert np.mean(asked[len(asked) // 2 :]) < 0.5 * share


def test_it_serves_plain_optuna_studies() -> None:
    """As any sampler: ask, tell, and the trials' user attribute carries the outputs."""
    pool = Pool(world(), world().knobs, world().siblings)
    sampler = PortfolioSampler(pool, [1.0] * len(world().problems), world().estimate_us, seed=0)
    study = optuna.create_study(sampler=sampler)
    for _ in range(5):
        trial = study.ask(pool.distributions)
        row = pool.row_of_params(trial.params)
        assert row is not None
        trial.set_user_attr("log_ratio", world().log_ratio[row].tolist())
        study.tell(trial, float(world().log_ratio[row].mean()))
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 5
    with pytest.raises(KeyError, match="not a knob"):
        study.ask().suggest_float("speed", 0, 1)


def test_a_batch_takes_under_a_second_late_in_a_large_search() -> None:
    """600 kernels measured on 24 problems, over 100,000 candidates. CPU time: the cores are shared."""

    class Wide(World):
        def _legal(self) -> np.ndarray:
            self.knobs.insert(-1, Knob("epilogue", tuple(range(8))))
            return super()._legal()

    wide = Wide()
    assert len(wide) > 100_000
    search = searching(wide, "portfolio", 0)
    rows = np.random.default_rng(0).choice(len(wide), 600, replace=False).tolist()
    search.restore([KernelTold(kernel=wide.kernel(r), log_ratio=told(wide, r), at_s=0.0) for r in rows])
    spent = []
    for _ in range(3):
        begun = time.process_time()
        assert search.next_batch(5)
        spent.append(time.process_time() - begun)
    assert min(spent) < 1.0


def test_improvement_is_the_expectation() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(0.1, 0.3, 400_000)
    for incumbent in (-0.6, 0.0, 0.4):
        exact = improvement(np.array([0.1]), np.array([0.09]), np.array([incumbent]))[0]
        assert exact == pytest.approx(np.maximum(incumbent - draws, 0).mean(), rel=0.05, abs=1e-4)


def test_prior_is_log_units_above_the_best_served_estimate() -> None:
    estimate = np.array([[10.0, 1.0], [20.0, np.nan], [5.0, 4.0], [1e9, 0.0]])
    serves = np.array([[True, True], [True, True], [False, True], [True, True]])
    expected = [[0.0, 0.0], [np.log(2), PRIOR_CLIP], [PRIOR_CLIP, np.log(4)], [PRIOR_CLIP, PRIOR_CLIP]]
    np.testing.assert_allclose(log_prior(estimate, serves), expected)
