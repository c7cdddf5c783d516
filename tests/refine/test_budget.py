from __future__ import annotations

import pytest

from cutlass_tuner.refine.budget import Budget, duration


def test_nothing_given_never_ends() -> None:
    budget = Budget()
    assert budget.stop(1e9, 10**6, 100.0) is None
    assert budget.search_s(5.0) is None
    assert budget.builds_left(5) is None


def test_time_ends_early_enough_for_the_finals() -> None:
    budget = Budget(seconds=600, finals_s=60)
    assert budget.search_s(0) == 540
    assert budget.stop(539, 0, None) is None
    assert budget.stop(540, 0, None) == "time used up: 9m of 10m, 1m kept for the finals"
    assert budget.search_s(1000) == 0


def test_the_finals_never_take_more_than_a_quarter() -> None:
    assert Budget(seconds=100, finals_s=90).reserve_s == 25
    assert Budget(seconds=None, finals_s=90).reserve_s == 0


def test_builds_end_at_the_count() -> None:
    budget = Budget(builds=40)
    assert budget.builds_left(38) == 2
    assert budget.stop(0, 39, None) is None
    assert budget.stop(0, 40, None) == "builds used up: 40 of 40"
    assert budget.builds_left(43) == 0


def test_the_target_ends_it_when_every_problem_has_a_time() -> None:
    budget = Budget(target=1.05)
    assert budget.stop(0, 0, None) is None
    assert budget.stop(0, 0, 1.04) is None
    assert budget.stop(0, 0, 1.0512) == "target reached: 1.051 times the reference, 1.05 asked for"


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"builds": -1}, {"target": 0.0}])
def test_limits_are_positive(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be greater than 0"):
        Budget(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (45, "45s"), (59.6, "1m"), (125, "2m05s"), (600, "10m"), (3600, "1h"), (5400, "1h30m")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
