"""Regret curves, thresholds, the sign test and calibration, against figures worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cutlass_tuner.compare import regret as r

NAN = math.nan
LOG_RATIO = np.log(np.array([[1.0, 2.0], [1.5, NAN], [3.0, 1.0]]))
KNOWN = np.nanmin(LOG_RATIO, axis=0)
COUNTS = np.array([1.0, 1.0])


def run(regret: list[float], arm: str = "a", seed: int = 0, **given: object) -> r.Run:
    builds = len(regret) - 1
    values: dict[str, object] = {
        "arm": arm,
        "seed": seed,
        "rows": tuple(range(builds)),
        "sources": ("sampler",) * builds,
        "regret": tuple(regret),
        "compile_s": tuple(10.0 * n for n in range(builds + 1)),
        "device_s": tuple(1.0 * n for n in range(builds + 1)),
    } | given
    return r.Run.model_validate(values)


def test_the_best_so_far_starts_with_nothing_and_passes_over_misses_and_gaps() -> None:
    best = np.exp(r.best_so_far(LOG_RATIO, [1, r.MISS, 2, 0]))
    assert best.tolist() == [
        [math.inf, math.inf],
        [pytest.approx(1.5), math.inf],
        [pytest.approx(1.5), math.inf],
        [pytest.approx(1.5), 1.0],
        [1.0, 1.0],
    ]


def test_regret_is_a_geometric_mean_over_the_problems() -> None:
    found = r.regret(r.best_so_far(LOG_RATIO, [1, 2, 0]), KNOWN, COUNTS)
    assert found[1] == pytest.approx(math.sqrt(1.5 * r.CAP) - 1)  # nothing on the second yet: the cap
    assert found[2] == pytest.approx(math.sqrt(1.5) - 1)
    assert found[3] == 0.0


def test_regret_weighs_problems_by_their_count() -> None:
    best = np.log(np.array([1.2, 1.0]))
    assert r.regret(best, KNOWN, np.array([3.0, 1.0])) == pytest.approx(1.2**0.75 - 1)


def test_one_bad_problem_counts_as_at_most_the_cap_and_a_curve_never_rises() -> None:
    log_ratio = np.log(np.array([[50.0], [3.0], [1.5], [1.0]]))
    found = r.regret(r.best_so_far(log_ratio, [0, 1, 2, 3]), np.zeros(1), np.ones(1))
    assert found.tolist() == pytest.approx([1.0, 1.0, 1.0, 0.5, 0.0])


def test_a_run_that_ended_early_stays_where_it_ended() -> None:
    assert r.by_builds([run([1.0, 0.5]), run([1.0, 0.4, 0.2, 0.1])], 3).tolist() == [
        [1.0, 0.5, 0.5, 0.5],
        [1.0, 0.4, 0.2, 0.1],
    ]


def test_a_kernel_counts_against_seconds_when_it_is_done() -> None:
    found = r.by_cost([run([1.0, 0.5, 0.2])], "compile_s", np.array([0.0, 9.9, 10.0, 19.0, 20.0]))
    assert found.tolist() == [[1.0, 1.0, 0.5, 0.5, 0.2]]


def test_builds_to_a_target_and_never() -> None:
    assert r.first_within(run([1.0, 0.05, 0.01]), 0.05) == 1
    assert r.first_within(run([1.0, 0.05, 0.01]), 0.001) is None


@pytest.mark.parametrize(
    ("values", "middle"),
    [([1, 2, 9], 2), ([1, None, 3], 3), ([1, None], None), ([None, None, 3], None), ([2, 4], 3)],
)
def test_a_median_in_which_never_is_later_than_anything(
    values: list[float | None], middle: float | None
) -> None:
    assert r.median_or_never(values) == middle


def test_the_figures_of_an_arm() -> None:
    runs = [run([1.0, 0.06, 0.02]), run([1.0, 0.04, 0.04], seed=1), run([1.0, 0.05, 0.01], seed=2)]
    found = r.standing(runs, (1, 2), (0.05, 0.02))
    assert found.arm == "a" and found.seeds == 3
    assert found.regret[1] == (pytest.approx(0.05), pytest.approx(0.01))
    assert found.within == {0.05: 1.0, 0.02: 2.0}
    assert found.compile_s == {0.05: 10.0, 0.02: 20.0}
    assert found.device_s == {0.05: 1.0, 0.02: 2.0}


def test_misses_are_counted_a_run() -> None:
    runs = [run([1.0, 1.0, 1.0], rows=(r.MISS, r.MISS)), run([1.0, 1.0, 1.0], rows=(0, r.MISS))]
    assert r.standing(runs, (2,), (0.5,)).misses == 1.5


def test_one_seed_has_no_spread() -> None:
    assert r.standing([run([1.0, 0.5])], (1,), (0.5,)).regret[1] == (0.5, 0.0)


def test_the_regret_of_each_problem_of_one_sources_kernels() -> None:
    both = run([1.0, 0.5, 0.2], rows=(1, 2), sources=("llm", "sampler"))
    assert r.by_problem([both], LOG_RATIO, KNOWN, 2).tolist() == pytest.approx([0.5, 0.0])
    assert r.by_problem([both], LOG_RATIO, KNOWN, 2, {"llm"}).tolist() == pytest.approx([0.5, 1.0])
    assert r.by_problem([both], LOG_RATIO, KNOWN, 1, {"sampler"}).tolist() == pytest.approx([1.0, 1.0])


def test_the_sign_test_gives_the_textbooks_probability() -> None:
    found = r.duel([1.0, 2.0, 3.0, 4.0, 5.5, 6.0], [2.0, 3.0, 4.0, 5.0, 5.0, 6.0])
    assert (found.wins, found.losses, found.ties) == (4, 1, 1)
    assert found.p == pytest.approx(2 * (1 + 5) / 2**5)
    assert not found.proven


def test_nine_of_ten_is_proven_and_eight_of_ten_is_not() -> None:
    other = [float(n) for n in range(10)]
    assert r.duel([x - 1 for x in other[:9]] + [20.0], other).proven
    assert not r.duel([x - 1 for x in other[:8]] + [20.0, 21.0], other).proven


def test_seeds_that_change_nothing_prove_nothing() -> None:
    found = r.duel([0.1] * 10, [0.2] * 10)
    assert found.wins == 10
    assert found.p == 1.0 and not found.proven


def expectation(expected: float, achieved: float | None) -> r.Expectation:
    return r.Expectation(name="i", bottleneck="l2", expected=expected, achieved=achieved)


def test_calibration() -> None:
    found = r.calibration(
        [expectation(1.0, 1.1), expectation(1.2, 0.9), expectation(1.1, 1.1), expectation(2.0, None)]
    )
    assert (found.judged, found.unjudged) == (3, 1)
    assert found.reached == pytest.approx(2 / 3)
    assert found.bias == pytest.approx((1.1 * 0.9 / 1.2 * 1.0) ** (1 / 3))
    # Ranks 1 3 2 against 2.5 1 2.5.
    assert found.rank == pytest.approx(-0.8660254)


def test_calibration_of_too_little() -> None:
    assert r.calibration([]) == r.Calibration(judged=0, unjudged=0, rank=None, bias=None, reached=None)
    assert r.calibration([expectation(1.0, 1.0), expectation(1.1, 1.0)]).rank is None
    assert r.calibration([expectation(1.0, 1.0)] * 4).rank is None
