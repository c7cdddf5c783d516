"""The analytic estimate: known ups and downs, not known times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cutlass_tuner.ops.columns import Columns, one_row
from cutlass_tuner.ops.hgemm.estimate import estimate_us
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Scalar
from cutlass_tuner.space import Space

from .conftest import problem

Estimate = Callable[..., float]


@pytest.fixture
def estimate(space: Space, device: DeviceFacts, kernel: Callable[..., KernelConfig]) -> Estimate:
    def microseconds(of: Problem, **knobs: Scalar) -> float:
        made = kernel(**knobs)
        row: Columns = one_row(made.knobs, space.family().alphabets)
        (found,) = estimate_us(row, of, device)
        return float(found)

    return microseconds


def test_a_last_wave_of_one_tile_costs_a_wave(estimate: Estimate) -> None:
    # 12 x 11 tiles of 128x256 are one wave of 132 SMs, 14 x 11 are two; the work grows by a sixth.
    tile = {"tile_n": 256, "cluster_m": 2}
    full = estimate(problem(12 * 128, 11 * 256, 8192), **tile)
    spilled = estimate(problem(14 * 128, 11 * 256, 8192), **tile)
    assert spilled > 1.4 * full


def test_split_k_helps_where_tiles_are_few_and_k_is_deep(estimate: Estimate) -> None:
    deep = problem(512, 512, 16384)
    assert estimate(deep, scheduler="streamk") < 0.6 * estimate(deep)
    shallow = problem(4096, 4096, 512)
    assert estimate(shallow, scheduler="streamk") > 0.95 * estimate(shallow)


def test_swapping_suits_a_skinny_m(estimate: Estimate) -> None:
    skinny = problem(16, 4096, 4096)
    swapped = {"schedule": "plain", "tile_m": 64, "tile_n": 16, "tile_k": 128, "swap_ab": True}
    assert estimate(skinny, **swapped) < 0.7 * estimate(skinny)


def test_large_tiles_suit_large_problems_and_spills_do_not(estimate: Estimate) -> None:
    large = problem(8192, 8192, 8192)
    wide = estimate(large, tile_n=256, cluster_m=2)
    assert wide < estimate(large, tile_m=64, tile_n=64, schedule="pingpong")
    assert wide < estimate(large, tile_n=256, cluster_m=2, schedule="pingpong")


def test_nothing_is_faster_than_the_machine(space: Space, device: DeviceFacts) -> None:
    problems = [problem(8192, 8192, 8192), problem(1, 8192, 8192), problem(64, 64, 64)]
    table = space.candidates(problems, device)
    prior = op("hgemm").prior(table, problems, device)
    assert prior.shape == (len(table), 3)
    assert np.isfinite(prior).all()
    large, skinny, tiny = prior.min(axis=0)
    assert 1380 < large < 1700  # cuBLAS: 1,530 to 1,780 by power state
    assert 31 < skinny < 40  # streaming 134 MB takes 30.9
    assert 1.5 < tiny < 4  # cuBLAS: 2.04


def test_estimates_do_not_depend_on_the_rows_beside_them(space: Space, device: DeviceFacts) -> None:
    of = problem(512, 4096, 2048)
    table = space.candidates([of], device)
    rows = np.arange(0, len(table), 997)
    together = estimate_us(table.columns, of, device)[rows]
    apart = [estimate_us(table.columns.take(np.array([row])), of, device)[0] for row in rows]
    np.testing.assert_allclose(together, apart)
