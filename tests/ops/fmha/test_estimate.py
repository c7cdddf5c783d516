"""The analytic estimate: known ups and downs, not known times."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from cutlass_tuner.ops.columns import one_row
from cutlass_tuner.ops.fmha.estimate import estimate_us, visited_blocks
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Scalar
from cutlass_tuner.space import Candidates, Space

from .conftest import problem

FMHA = op("fmha")
Estimate = Callable[..., float]


@pytest.fixture
def estimate(space: Space, device: DeviceFacts, kernel: Callable[..., KernelConfig]) -> Estimate:
    def microseconds(of: Problem, **knobs: Scalar) -> float:
        given = space.family().knobs_for(of)
        row = one_row(kernel(**{**knobs, **given}).knobs, space.family().alphabets)
        (found,) = estimate_us(row, of, device)
        return float(found)

    return microseconds


def test_blocks_are_counted_tile_by_tile(space: Space) -> None:
    row = one_row(space.kernel(tile_kv=48).knobs, space.family().alphabets)
    extents = row["tile_q"], row["tile_kv"]
    # 300 queries are tiles of 128, 128 and 44; the last row of each sees 128, 256 and 300 keys, or 57 fewer.
    assert [visited_blocks(*extents, problem(300, 243, causal=c)).total[0] for c in (0, 2, 1)] == [
        3 * 6,
        3 + 6 + 6,
        2 + 5 + 6,
    ]
    assert visited_blocks(*extents, problem(300, 243, causal=1)).longest[0] == 6


def test_hiding_softmax_pays_the_more_the_longer_it_is(estimate: Estimate) -> None:
    def gain(dim: int) -> float:
        of = problem(4096, dim=dim, batch=4)
        return estimate(of, overlap=False, pingpong=False) / estimate(of)

    assert gain(128) > 1.03 * gain(256) > 1.03


def test_some_exponentials_on_the_fma_units_pay_at_small_head_dims(estimate: Estimate) -> None:
    small = problem(4096, dim=64, batch=4)
    assert estimate(small, tile_kv=128, exp_fma=1) < estimate(small, tile_kv=128)
    assert estimate(small, tile_kv=128, exp_fma=3) > estimate(small, tile_kv=128, exp_fma=1)


def test_a_causal_mask_is_nearly_half_the_work(estimate: Estimate) -> None:
    full, causal = problem(16384), problem(16384, causal=1)
    assert 0.5 < estimate(causal, tile_kv=128) / estimate(full, tile_kv=128) < 0.56


def test_a_last_wave_of_few_tiles_costs_a_wave(estimate: Estimate) -> None:
    # 132 tiles are one wave, 136 are two.
    one, two = problem(4 * 128, 8192, heads=33), problem(4 * 128, 8192, heads=34)
    assert estimate(two) > 1.7 * estimate(one)


def test_spilling_does_not_pay(estimate: Estimate) -> None:
    of = problem(4096, batch=4)
    assert estimate(of, tile_kv=240, stages=1) > 1.5 * estimate(of, tile_kv=128)


def test_the_whole_file_takes_no_time_and_is_what_such_kernels_reach(
    space: Space, shipped: list[Problem], device: DeviceFacts
) -> None:
    begun = time.process_time()
    table = space.candidates(shipped, device)
    prior = FMHA.prior(table, shipped, device)
    assert time.process_time() - begun < 3.0
    assert 20_000 < len(table) < 150_000
    assert np.isfinite(prior[table.serves]).all() and np.isinf(prior[~table.serves]).all()
    best = dict(zip((one.name for one in shipped), prior.min(axis=0).tolist(), strict=True))
    for name, flash_attention_4 in (
        ("d64.s4096.full", 522),
        ("d128.s4096.full", 674),
        ("d256.s4096.full", 739),
    ):
        of = next(one for one in shipped if one.name == name)
        reached = FMHA.flops(of) / best[name] / 1e6
        assert 0.8 * flash_attention_4 < reached < 1.15 * flash_attention_4, name
    # None is faster than its roofline on an H200, nor takes several times as long.
    h200 = device.model_copy(update={"name": "NVIDIA H200"})
    rooflines = [float(FMHA.regime(one, h200, "cold").figures["roofline us"]) for one in shipped]
    ratio = np.array([best[one.name] for one in shipped]) / np.array(rooflines)
    assert ratio.min() > 0.9 and ratio.max() < 3.0


def test_estimates_do_not_depend_on_the_rows_beside_them(table: Candidates, device: DeviceFacts) -> None:
    of = problem(4096, causal=1)
    rows = np.arange(0, len(table), 1009)
    together = estimate_us(table.columns, of, device)[rows]
    apart = [estimate_us(table.columns.take(np.array([row])), of, device)[0] for row in rows]
    np.testing.assert_allclose(together, apart)
