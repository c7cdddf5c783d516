from __future__ import annotations

from dataclasses import replace

import pytest

from cutlass_tuner.export.tuned import substitute
from export.samples import PERSISTENT, STREAM_K, problem, tuned

WINNER = tuned(problem(64, 64, 64), PERSISTENT, 10.0, torch=1.2, cublaslt=1.1)
OTHER = tuned(WINNER.problem, STREAM_K, codes=(1, 0, 8, 0, 0))


def test_a_substitutes_figures_are_the_winners_slowed_by_what_the_search_saw() -> None:
    entry = substitute(WINNER, OTHER.config, OTHER.launch_codes, 0.6)
    assert (entry.problem, entry.config, entry.launch_codes) == (
        WINNER.problem,
        OTHER.config,
        OTHER.launch_codes,
    )
    assert (entry.time_us, entry.speedup_torch, entry.speedup_cublaslt_tuned) == (
        pytest.approx(20.0),
        pytest.approx(0.6),
        pytest.approx(0.55),
    )
    assert entry.from_search


def test_a_substitute_never_looks_better_than_the_winner_of_the_final() -> None:
    entry = substitute(WINNER, OTHER.config, OTHER.launch_codes, 1.5)
    assert (entry.time_us, entry.speedup_torch, entry.speedup_cublaslt_tuned) == (10.0, 1.2, 1.1)


def test_only_a_final_may_say_that_a_kernel_beats_the_baselines() -> None:
    assert WINNER.beats_baselines
    entry = substitute(WINNER, OTHER.config, OTHER.launch_codes, 1.5)
    assert not entry.beats_baselines


def test_without_a_ratio_in_the_final_there_is_nothing_to_slow() -> None:
    with pytest.raises(ValueError, match="no ratio to torch"):
        substitute(replace(WINNER, speedup_torch=None), OTHER.config, OTHER.launch_codes, 1.0)
    entry = substitute(replace(WINNER, speedup_cublaslt_tuned=None), OTHER.config, OTHER.launch_codes, 0.6)
    assert entry.speedup_cublaslt_tuned is None
