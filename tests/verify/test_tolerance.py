"""The tolerance, against simulated accumulators: honest ones pass with room, fp16 in disguise fails."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract
from cutlass_tuner.verify.tolerance import tolerance

HGEMM = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
KS = (16, 64, 512, 1024, 4096, 16384)

Array = NDArray[np.float64]


def truncated(x: Array) -> Array:
    """To fp32's 24 bits, towards zero, as tensor cores add."""
    mantissa, exponent = np.frexp(x)
    kept: Array = np.ldexp(np.trunc(mantissa * 2**24), exponent - 24)
    return kept


def single(x: Array) -> Array:
    return x.astype(np.float32).astype(np.float64)


def half(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float64)


ROUND = {"fp32": single, "truncating": truncated, "fp16": half}


@cache
def inputs(k: int, size: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(k)
    shape = (size, k)
    return half(rng.standard_normal(shape)), half(rng.standard_normal(shape).T.copy())


def size_of(k: int) -> int:
    return 256 if k <= 64 else 128 if k <= 1024 else 64


def accumulate(a: Array, b: Array, rounding: str, step: int, order: NDArray[np.int64]) -> Array:
    total = np.zeros((a.shape[0], b.shape[1]))
    for start in range(0, len(order), step):
        chosen = order[start : start + step]
        total = ROUND[rounding](total + a[:, chosen] @ b[chosen])
    return total


def bound_terms(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Reference, rounding term, accumulator term: the record's formula written out once more."""
    t = tolerance(HGEMM)
    reference = a @ b
    rounding = t.output_roundoff * np.abs(reference) + t.tiny
    accumulator = t.spread * np.sqrt(a.shape[1]) * t.accumulator_roundoff * (np.abs(a) @ np.abs(b))
    return reference, rounding, accumulator


def over_bound(d: Array, a: Array, b: Array) -> float:
    reference, rounding, accumulator = bound_terms(a, b)
    return float(np.max(np.abs(half(d) - reference) / (rounding + accumulator)))


HONEST = [
    (k, rounding, step, order)
    for k in KS
    for rounding, step in (("fp32", 1), ("truncating", 8), ("truncating", 16))
    for order in ("forward", "shuffled", "split")
    # The longest K once for each accumulator that tensor cores have; the rest is shown at 4096.
    if k < 16384 or (order == "forward" and step > 1)
]


@pytest.mark.parametrize(("k", "rounding", "step", "order"), HONEST)
def test_honest_accumulators_pass_with_room(k: int, rounding: str, step: int, order: str) -> None:
    """The accumulator's error alone fits its term, so rounding can never push a D over the bound."""
    a, b = inputs(k, size_of(k))
    along = np.random.default_rng(2).permutation(k) if order == "shuffled" else np.arange(k)
    parts = np.array_split(along, 4 if order == "split" else 1)
    total = np.zeros((a.shape[0], a.shape[0]))
    for part in parts:
        total = single(total + accumulate(a, b, rounding, step, part))
    reference, _, accumulator = bound_terms(a, b)
    assert np.max(np.abs(total - reference) / accumulator) < (0.85 if k < 64 else 0.5)
    assert over_bound(total, a, b) < 1.0


@pytest.mark.parametrize("k", [64, *[k for k in KS if k >= 512]])
@pytest.mark.parametrize("step", [4, 16])
def test_fp16_accumulation_fails(k: int, step: int) -> None:
    a, b = inputs(k, size_of(k))
    assert over_bound(accumulate(a, b, "fp16", step, np.arange(k)), a, b) > 5.0


@pytest.mark.parametrize("chunk", [64, 128])
@pytest.mark.parametrize(("k", "least"), [(512, 20.0), (1024, 8.0), (4096, 2.0), (16384, 1.05)])
def test_fp16_promoted_to_fp32_now_and_then_fails(k: int, least: float, chunk: int) -> None:
    a, b = inputs(k, size_of(k))
    parts = np.split(np.arange(k), k // chunk)
    total = np.sum([accumulate(a, b, "fp16", 16, part) for part in parts], axis=0)
    assert over_bound(total, a, b) > least


@pytest.mark.parametrize("k", [512, 4096])
def test_split_k_with_fp16_partials_fails(k: int) -> None:
    a, b = inputs(k, size_of(k))
    total = np.sum([half(a[:, part] @ b[part]) for part in np.split(np.arange(k), 4)], axis=0)
    assert over_bound(total, a, b) > 2.0


@pytest.mark.parametrize("k", KS)
def test_one_product_left_out_fails(k: int) -> None:
    """A K loop one element short."""
    a, b = inputs(k, size_of(k))
    assert over_bound(a[:, :-1] @ b[:-1], a, b) > 5.0


def test_small_results_are_held_to_the_subnormal_spacing() -> None:
    smallest = float(np.finfo(np.float16).smallest_subnormal)
    assert tolerance(HGEMM).tiny == smallest / 2


def test_units_of_each_type() -> None:
    roundoffs = {}
    for element in ("f16", "bf16", "f32"):
        contract = Contract(elements={"a": "f16", "b": "f16", "d": element}, accumulator="f32")
        roundoffs[element] = tolerance(contract).output_roundoff
    assert roundoffs["f16"] == np.finfo(np.float16).eps / 2
    assert roundoffs["f32"] == np.finfo(np.float32).eps / 2
    assert roundoffs["bf16"] == 2.0**-8
    assert tolerance(HGEMM).accumulator_roundoff == np.finfo(np.float32).eps
    relaxed = tolerance(HGEMM.model_copy(update={"accumulator": "f16"}))
    assert relaxed.accumulator_roundoff == np.finfo(np.float16).eps


def test_unknown_types_are_one_line() -> None:
    with pytest.raises(UserError, match="no tolerance for output type 'e4m3'"):
        tolerance(Contract(elements={"d": "e4m3"}, accumulator="f32"))
    with pytest.raises(UserError, match="no tolerance for accumulator type 's32'"):
        tolerance(HGEMM.model_copy(update={"accumulator": "s32"}))


def attention(element: str, softmax: str | None = None) -> Contract:
    elements = {**dict.fromkeys("qkvo", element), "v": softmax or element, "lse": "f32"}
    return Contract(elements=elements, accumulator="f32")


def test_attention_also_rounds_its_softmax() -> None:
    half, brain = tolerance(attention("f16")), tolerance(attention("bf16"))
    for held, gemm_output in ((half, "f16"), (brain, "bf16")):
        plain = tolerance(Contract(elements={"d": gemm_output}, accumulator="f32"))
        softmax = {"probability_roundoff", "probability_tiny", "probability_spread", "log_roundoff"}
        assert held.model_dump(exclude=softmax) == plain.model_dump(exclude=softmax)
        assert held.probability_roundoff == held.output_roundoff
        assert held.probability_tiny == held.tiny
        assert all(plain.model_dump(include=softmax)[name] == 0 for name in softmax)
        assert held.log_roundoff == 2.0**-22
    assert brain.probability_roundoff == 8 * half.probability_roundoff


def test_the_rounding_of_a_softmax_stays_far_below_its_term() -> None:
    """Largest of 3*10^5 sums of p v with p rounded, against sqrt(sum p^2 v^2): fp16 within half of the
    spread, bf16 under an fp16 contract beyond it."""
    held = tolerance(attention("f16"))
    rng = np.random.default_rng(0)
    p = np.exp(rng.standard_normal((600, 1024)))
    p /= p.max(axis=1, keepdims=True)
    v = half(rng.standard_normal((1024, 512)))
    size = np.sqrt(p**2 @ v**2)
    unit = held.probability_roundoff
    assert np.max(np.abs((half(p) - p) @ v) / size) / unit < 0.5 * held.probability_spread
    mantissa, exponent = np.frexp(p)
    brain = np.ldexp(np.round(mantissa * 2**8), exponent - 8)
    assert np.max(np.abs((brain - p) @ v) / size) / unit > 2 * held.probability_spread


def test_an_unknown_softmax_type_is_one_line() -> None:
    with pytest.raises(UserError, match="no tolerance for a softmax in 'e4m3'"):
        tolerance(attention("f16", "e4m3"))
    with pytest.raises(UserError, match="no tolerance for output type 'e4m3'"):
        tolerance(attention("e4m3"))
