"""The views: which measurement ranks, what is not tried again, what a resume has to finish."""

from __future__ import annotations

import math

import pytest

from cutlass_tuner.events import Event
from cutlass_tuner.study import Ledger, log_ratio
from study.events import P1, P2, P3, build_failed, built, kernel, launch, measured, run_failed, told


def ledger(*events: Event) -> Ledger:
    found = Ledger()
    for event in events:
        found.absorb(event)
    return found


def test_the_ratio_is_the_median_of_pairs_not_of_times() -> None:
    """The card slows down by half between rounds: both sides do, and the ratio stays."""
    one = measured(us=(10.0, 11.5, 10.5), reference_us=(20.0, 23.0, 20.0)).measurement
    assert log_ratio(one) == pytest.approx(math.log(0.5))
    assert log_ratio(measured(passed=False).measurement) is None
    assert log_ratio(measured(us=(), reference_us=()).measurement) is None


def test_a_few_rounds_of_which_one_was_disturbed_do_not_rank() -> None:
    """torch took 1.4 ms once instead of 0.18: the kernel is not twice as fast for that."""
    stalled = (1400.7, 179.8, 1197.0)
    assert log_ratio(measured(us=(537.7, 525.2, 526.0), reference_us=stalled).measurement) is None
    many = measured(us=(10.0,) * 7, reference_us=(20.0,) * 6 + (90.0,)).measurement
    assert log_ratio(many) == pytest.approx(math.log(0.5))


def test_only_verified_measurements_rank() -> None:
    found = ledger(measured(64, us=(1.0,) * 3, passed=False), measured(128, us=(8.0,) * 3), measured(256))
    assert [b.measurement.kernel for b in found.ranking(P1.key)] == [kernel(128), kernel(256)]
    best = found.best(P1.key)
    assert best is not None
    assert best.speedup == pytest.approx(1.25)
    assert found.best(P2.key) is None


def test_a_config_that_was_ever_wrong_on_a_problem_does_not_rank_there() -> None:
    race = [measured(us=(5.0,) * 3), measured(us=(5.0,) * 3, passed=False), measured(us=(5.0,) * 3)]
    elsewhere = measured(on=P2)
    found = ledger(*race, elsewhere, measured(swizzle=4, us=(9.0,) * 3))
    assert [b.measurement.launch for b in found.ranking(P1.key)] == [launch(4)]
    assert found.best(P2.key) is not None


def test_speed_is_relative_to_the_reference_of_the_same_rounds() -> None:
    hot = measured(64, us=(12.0,) * 3, reference_us=(15.0,) * 3)
    cool = measured(128, us=(11.0,) * 3, reference_us=(11.0,) * 3)
    assert ledger(cool, hot).ranking(P1.key)[0].measurement == hot.measurement


def test_of_several_measurements_of_a_config_the_longest_counts() -> None:
    lucky = measured(us=(5.0,), reference_us=(10.0,))
    long = measured(us=(9.0,) * 9, reference_us=(10.0,) * 9)
    for order in ((lucky, long), (long, lucky)):
        (best,) = ledger(*order).ranking(P1.key)
        assert best.measurement == long.measurement
    later = measured(us=(8.0,) * 9, reference_us=(10.0,) * 9)
    assert ledger(long, later).ranking(P1.key)[0].measurement == later.measurement


def test_a_kernel_that_loses_the_child_on_two_problems_is_condemned() -> None:
    once = ledger(run_failed(on=P1), run_failed(on=P1, swizzle=4))
    assert once.condemned == frozenset()
    assert once.refused(kernel(), launch(1), P1.key)
    assert not once.refused(kernel(), launch(2), P1.key)
    assert not once.refused(kernel(), launch(1), P2.key)
    twice = ledger(run_failed(on=P1), run_failed(on=P2))
    assert twice.condemned == frozenset({kernel().key})
    assert twice.refused(kernel(), launch(8), P3.key)
    assert not twice.refused(kernel(256), launch(8), P3.key)


def test_a_refusal_of_the_kernel_condemns_nothing_but_is_not_repeated() -> None:
    found = ledger(*(run_failed(on=p, stage="plan", swizzle=None) for p in (P1, P2)))
    assert found.condemned == frozenset()
    assert found.tried(kernel(), launch(3), P1.key)
    assert found.refused(kernel(), launch(3), P1.key)
    assert not found.tried(kernel(), launch(3), P3.key)


def test_what_was_measured_is_not_measured_again() -> None:
    found = ledger(measured(), measured(256, passed=False))
    assert found.tried(kernel(128), launch(1), P1.key)
    assert found.tried(kernel(256), launch(1), P1.key)
    assert not found.tried(kernel(128), launch(2), P1.key)
    assert not found.tried(kernel(128), launch(1), P2.key)


def test_kernels_whose_screening_was_cut_short_are_unfinished() -> None:
    found = ledger(built(64), told(64), built(128), measured(128), build_failed(256))
    assert [build.kernel for build in found.unfinished()] == [kernel(128)]


def test_kernels_not_tried_on_a_problem_added_later() -> None:
    found = ledger(built(64), built(128), built(256), measured(64, on=P2), run_failed(128, on=P2))
    assert [build.kernel for build in found.untried(P2.key)] == [kernel(256)]
    assert len(found.untried(P3.key)) == 3


def test_a_kernel_built_after_a_failure_is_built() -> None:
    found = ledger(build_failed(64), built(64))
    assert not found.failed
    assert list(found.builds) == [kernel(64).key]


def test_what_the_machine_failed_to_build_is_as_good_as_not_proposed() -> None:
    found = ledger(build_failed(64), build_failed(128, lasting=False, at_s=5.0))
    assert list(found.failed) == list(found.proposals) == [kernel(64).key]
    assert found.elapsed_s == 5.0


def test_the_summary_counts_and_names_what_is_unsolved() -> None:
    found = ledger(
        built(64, at_s=3.0),
        build_failed(256),
        measured(64, us=(5.0,) * 3, at_s=7.5),
        measured(64, on=P2, us=(20.0,) * 3),
        measured(64, 4, on=P2, passed=False),
        run_failed(64, 8, on=P2),
    )
    summary = found.summary([P1.key, P2.key, P3.key])
    assert (summary.built, summary.build_failed, summary.measured) == (1, 1, 3)
    assert (summary.wrong, summary.run_failed, summary.condemned) == (1, 1, 0)
    assert summary.elapsed_s == 7.5
    assert summary.speedup == {P1.key: pytest.approx(2.0), P2.key: pytest.approx(0.5)}
    assert summary.geomean == pytest.approx(1.0)
    assert summary.unsolved == (P3.key,)
    assert ledger().summary([P1.key]).geomean is None
