from __future__ import annotations

from dataclasses import replace

import pytest

from cutlass_tuner.ops.hgemm.matmul_heuristics import HGEMM, Advice, knobs, query
from cutlass_tuner.ops.hgemm.problem import CONTIGUOUS, LAYOUTS, problem
from cutlass_tuner.ops.registry import op

ADVICE = Advice(tile_m=128, tile_n=256, tile_k=64, cluster_m=2, cluster_n=1, splits=1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_the_librarys_of_the_same_storage(layout: str) -> None:
    """The library transposes what is not stored row-major: A (m x k) by k, B (k x n) by n."""
    library = pytest.importorskip("nvMatmulHeuristics", reason="the optional nvMatmulHeuristics is missing")
    transposed = (CONTIGUOUS[layout]["a"] != "k", CONTIGUOUS[layout]["b"] != "n")
    assert (
        library.boolsToNvMatmulHeuristicsLayout(*transposed).name
        == query(problem((64, 64, 64), layout)).layout
    )


def test_extents_go_where_they_belong() -> None:
    asked = query(problem((16, 64, 128, 3), "tt"))
    assert (asked.m, asked.n, asked.k, asked.batch, asked.layout) == (16, 64, 128, 3, "NN_ROW_MAJOR")


@pytest.mark.parametrize(
    ("tile_m", "splits", "schedule", "scheduler"),
    [
        (64, 1, "pingpong", "persistent"),
        (128, 1, "cooperative", "persistent"),
        (256, 1, "cooperative", "persistent"),
        (128, 7, "cooperative", "streamk"),
    ],
)
def test_schedule_and_scheduler_follow_from_tile_and_splits(
    tile_m: int, splits: int, schedule: str, scheduler: str
) -> None:
    found = knobs(problem((64, 64, 64)), replace(ADVICE, tile_m=tile_m, splits=splits))
    assert (found["schedule"], found["scheduler"]) == (schedule, scheduler)


def test_an_answer_becomes_the_kernel_it_describes() -> None:
    found = knobs(problem((64, 64, 64), "tt"), replace(ADVICE, cluster_n=4))
    assert {**found, "schedule": "", "scheduler": ""} == {
        "layout": "tt",
        "tile_m": 128,
        "tile_n": 256,
        "tile_k": 64,
        "cluster_m": 2,
        "cluster_n": 4,
        "schedule": "",
        "scheduler": "",
    }


def test_the_op_says_how_it_is_asked() -> None:
    assert op("hgemm").matmul_heuristics is HGEMM
    assert HGEMM.family in op("hgemm").families
