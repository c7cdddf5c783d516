"""The integer probe: exact for every honest order of summation, wrong for every short accumulator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from cutlass_tuner.errors import UserError
from cutlass_tuner.probe import Probe, probe
from cutlass_tuner.records import Contract

HGEMM = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
KS = (16, 64, 72, 512, 1000, 4096, 8192, 16384)

Array = NDArray[np.float64]


def operands(chosen: Probe, k: int, n: int = 48, seed: int = 0) -> tuple[Array, Array, NDArray[np.float16]]:
    """A, B and the one right D."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-chosen.limit, chosen.limit + 1, (n, k)).astype(np.float64)
    b = rng.integers(-chosen.limit, chosen.limit + 1, (k, n)).astype(np.float64)
    return a, b, rounded(a @ b, chosen)


def rounded(sums: NDArray[np.floating], chosen: Probe) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        return (sums.astype(np.float64) * chosen.alpha).astype(np.float16)


def accumulate(
    a: Array, b: Array, kind: type[np.floating], step: int, order: NDArray[np.int64]
) -> NDArray[np.floating]:
    """Sum products in `order` along K, `step` at a time, rounding to `kind` after every step."""
    total = np.zeros((a.shape[0], b.shape[1]), kind)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(order), step):
            chosen = order[start : start + step]
            total = (total.astype(np.float64) + a[:, chosen] @ b[chosen]).astype(kind)
    return total


@pytest.mark.parametrize("k", KS)
def test_the_worst_signs_stay_exact_and_finite(k: int) -> None:
    chosen = probe(HGEMM, k)
    worst = k * chosen.limit**2
    assert worst <= 2**24
    assert float(np.float32(worst - 1)) == worst - 1
    assert worst * chosen.alpha <= 65504
    assert 1 <= chosen.limit <= 64
    assert chosen.alpha >= 2**-14  # an odd sum of 1 is still a normal fp16
    mantissa, _ = math.frexp(chosen.alpha)
    assert mantissa == 0.5  # a power of two: scaling rounds nothing
    assert chosen.alpha < 1.0


@pytest.mark.parametrize("k", KS)
def test_any_order_in_fp32_gives_the_same_bits(k: int) -> None:
    chosen = probe(HGEMM, k)
    a, b, right = operands(chosen, k)
    rng = np.random.default_rng(1)
    for step in (1, 16):
        found = accumulate(a, b, np.float32, step, rng.permutation(k))
        assert np.array_equal(rounded(found, chosen), right)
    halves = [accumulate(a, b, np.float32, 16, part) for part in np.array_split(rng.permutation(k), 3)]
    assert np.array_equal(rounded(halves[2] + (halves[0] + halves[1]), chosen), right)


@pytest.mark.parametrize("k", [k for k in KS if k >= 64])
@pytest.mark.parametrize("step", [1, 16])
def test_an_fp16_accumulator_fails_widely(k: int, step: int) -> None:
    chosen = probe(HGEMM, k)
    a, b, right = operands(chosen, k)
    found = rounded(accumulate(a, b, np.float16, step, np.arange(k)), chosen)
    assert np.mean(found != right) > 0.05


@pytest.mark.parametrize("k", [512, 4096, 16384])
@pytest.mark.parametrize("chunk", [64, 128])
def test_fp16_promoted_to_fp32_now_and_then_fails_too(k: int, chunk: int) -> None:
    chosen = probe(HGEMM, k)
    a, b, right = operands(chosen, k)
    parts = np.split(np.arange(k), k // chunk)
    total = sum(accumulate(a, b, np.float16, 16, part).astype(np.float64) for part in parts)
    assert np.mean(rounded(np.asarray(total), chosen) != right) > 0.05


@pytest.mark.parametrize("k", [512, 4096, 16384])
def test_split_k_with_fp16_partials_fails(k: int) -> None:
    chosen = probe(HGEMM, k)
    a, b, right = operands(chosen, k)
    parts = np.split(np.arange(k), 4)
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum((a[:, part] @ b[part]).astype(np.float16).astype(np.float64) for part in parts)
    assert np.mean(rounded(np.asarray(total), chosen) != right) > 0.05


@pytest.mark.parametrize("k", [16, 4096])
def test_a_kernel_that_ignores_alpha_fails(k: int) -> None:
    chosen = probe(HGEMM, k)
    a, b, right = operands(chosen, k)
    assert np.mean(rounded(a @ b, Probe(limit=chosen.limit, alpha=1.0)) != right) > 0.9


def test_limit_is_the_largest_that_is_safe() -> None:
    assert [probe(HGEMM, k).limit for k in (16, 4096, 4097, 16384, 2**20, 2**24, 2**30)] == [
        64,
        64,
        63,
        32,
        4,
        1,
        1,
    ]


def test_bf16_output_and_fp16_accumulator() -> None:
    bf16 = Contract(elements={"a": "bf16", "b": "bf16", "d": "bf16"}, accumulator="f32")
    assert probe(bf16, 4096) == Probe(limit=64, alpha=0.5)
    half = HGEMM.model_copy(update={"accumulator": "f16"})
    assert probe(half, 512) == Probe(limit=2, alpha=0.5)
    assert probe(half, 4096).limit == 1


def test_unknown_types_are_one_line() -> None:
    with pytest.raises(UserError, match="operand d has type 'e4m3'"):
        probe(Contract(elements={"a": "f16", "b": "f16", "d": "e4m3"}, accumulator="f32"), 64)
    with pytest.raises(UserError, match="accumulator has type 's32'"):
        probe(HGEMM.model_copy(update={"accumulator": "s32"}), 64)
    with pytest.raises(ValueError, match="at least 1"):
        probe(HGEMM, 0)
