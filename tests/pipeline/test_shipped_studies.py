"""The studies that are shipped: that what they claim was measured fairly can be read in their own records."""

from __future__ import annotations

import pytest

from cutlass_tuner import settings
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ShowOptions
from cutlass_tuner.pipeline import show
from cutlass_tuner.results import LT, LT_TUNED, TORCH
from cutlass_tuner.statistics import paired
from cutlass_tuner.study import Study
from pipeline.harness import repeated, screened

FOLDER = settings.data_dir("studies")
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/study.json"))
LEAST_WORKSPACE = 32 << 20


@pytest.fixture(scope="module", params=NAMES)
def study(request: pytest.FixtureRequest) -> Study:
    return Study.load(FOLDER, request.param)


@pytest.fixture
def products(study: Study) -> Study:
    """A study of matrix products, whose baseline is tuned as well."""
    if not registry.op(study.header.op).tunes_baseline:
        pytest.skip("its op has no baseline to tune")
    return study


def test_there_is_one() -> None:
    assert NAMES


def test_every_shape_has_a_winner_that_was_right_whenever_it_was_measured(study: Study) -> None:
    for problem in study.problems:
        winner = study.ledger.finals[problem.key].winner
        assert winner is not None
        mine = [
            m
            for m in study.measurements(problem.key)
            if (m.kernel, m.launch) == (winner.kernel, winner.launch)
        ]
        assert mine and all(m.verdict.passed for m in mine)
        last = mine[-1].evidence
        assert (last.unwritten, last.nonfinite, last.guard_touched, last.exact_mismatches) == (0, 0, 0, 0)
        assert last.after_timing_mismatches == 0 and 0 < last.error_over_bound <= 1


def test_baselines_and_winner_are_of_the_same_rounds(study: Study) -> None:
    for problem in study.problems:
        row = study.ledger.finals[problem.key]
        assert row.winner is not None
        assert row.entrants[0] == TORCH and row.entrants[-1] == row.winner.key
        assert len({len(samples) for samples in row.samples_us}) == 1
        assert len(row.samples_us[0]) >= 13


def test_every_baseline_was_measured_or_says_why_not(study: Study) -> None:
    for problem in study.problems:
        entrants = study.ledger.finals[problem.key].entrants
        for name in registry.op(study.header.op).baselines:
            result = study.ledger.baselines[problem.key, name]
            assert (name in entrants) == (result.failure is None)
            assert result.failure is None or result.failure.reason


def test_cublas_had_its_workspace_and_the_problems_own_layout(products: Study) -> None:
    for problem in products.problems:
        for name in (TORCH, LT, LT_TUNED):
            result = products.ledger.baselines[problem.key, name]
            assert result.failure is None and result.layout == problem.layout
            assert result.workspace_bytes >= LEAST_WORKSPACE


def test_cublaslt_was_tuned_beyond_what_its_heuristic_offers(products: Study) -> None:
    """Every algorithm's time is kept in the order of trying, the heuristic's 3 to 8 offers first; the first
    of them is the other baseline, and never much better than the tuned one in the same rounds."""
    counts = []
    for problem in products.problems:
        tuned = products.ledger.baselines[problem.key, LT_TUNED]
        assert len(bytes.fromhex(tuned.algorithm)) == 64
        assert 40 <= len(tuned.tried_us) == tuned.tried <= 100
        assert list(tuned.tried_us) != sorted(tuned.tried_us)
        counts.append(tuned.tried)
        row = products.ledger.finals[problem.key]
        ours, first = (row.samples_us[row.entrants.index(name)] for name in (LT_TUNED, LT))
        pair = paired(ours, first)
        assert pair is not None and pair.ratio > 0.995
    assert sorted(counts)[len(counts) // 2] == 100


def test_nothing_was_measured_twice(study: Study) -> None:
    assert screened(study.events()) and repeated(study.events()) == []


def test_it_can_be_shown(study: Study) -> None:
    text = show(ShowOptions(study=study.name, studies=FOLDER / "nowhere"))
    assert text.startswith(f"study {study.name}: ")
    assert all(f"\n{problem.label} " in text for problem in study.problems)
    assert registry.op(study.header.op).name == study.header.op
