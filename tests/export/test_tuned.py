from __future__ import annotations

import pytest

from export.samples import PERSISTENT, problem, tuned


@pytest.mark.parametrize(
    ("torch", "cublaslt", "beats"),
    [(1.0, 1.2, True), (1.2, 0.99, False), (0.99, 1.2, False), (1.1, None, True), (None, None, False)],
)
def test_beating_the_baselines_means_every_one_measured(
    torch: float | None, cublaslt: float | None, beats: bool
) -> None:
    entry = tuned(problem(64, 64, 64), PERSISTENT, torch=torch, cublaslt=cublaslt)
    assert entry.beats_baselines is beats
