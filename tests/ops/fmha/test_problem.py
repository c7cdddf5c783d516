"""Problems: masks counted key by key, bytes, names, both alignments, what is refused."""

from __future__ import annotations

import random

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.fmha.problem import BOTTOM_RIGHT, FULL, TOP_LEFT, compulsory_bytes, visible_pairs
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, Problem

from .conftest import problem

FMHA = op("fmha")


def seen(queries: int, keys: int, causal: int) -> list[list[bool]]:
    """The mask, entry by entry, as its definition has it."""
    shift = keys - queries if causal == BOTTOM_RIGHT else 0
    return [[causal == FULL or j <= i + shift for j in range(keys)] for i in range(queries)]


@pytest.mark.parametrize("causal", [FULL, BOTTOM_RIGHT, TOP_LEFT])
def test_visible_pairs_are_counted_exactly(causal: int) -> None:
    rng = random.Random(causal)
    lengths = [(1, 1), (1, 7), (7, 1), (5, 5), (3, 8), (8, 3)]
    lengths += [(rng.randint(1, 60), rng.randint(1, 60)) for _ in range(200)]
    for queries, keys in lengths:
        mask = seen(queries, keys, causal)
        one = problem(queries, keys, batch=3, heads=4, heads_kv=2, dim=64, causal=causal)
        assert visible_pairs(one) == sum(map(sum, mask)), (queries, keys)
        assert FMHA.flops(one) == 4 * 64 * sum(map(sum, mask)) * 4 * 3
        # Rows of Q that see a key, and keys that a row sees, are read; all of O and of the LSE is written.
        read_q, read_kv = sum(map(any, mask)), sum(map(any, zip(*mask, strict=True)))
        halves = 4 * (read_q + queries) + 2 * 2 * read_kv
        assert compulsory_bytes(one) == 3 * (2 * 64 * halves + 4 * 4 * queries)


def test_the_usual_causal_square_is_half_and_half_a_diagonal() -> None:
    assert visible_pairs(problem(4096, causal=1)) == 4096 * 4097 // 2


def test_both_alignments_are_one_where_lengths_agree() -> None:
    assert problem(64, causal=TOP_LEFT) == problem(64, causal=BOTTOM_RIGHT)
    apart = {problem(64, 128, causal=causal).key for causal in (FULL, BOTTOM_RIGHT, TOP_LEFT)}
    assert len(apart) == 3


def test_names_can_be_read() -> None:
    chunked = problem(512, 8192, batch=4, heads=32, heads_kv=8, causal=1)
    assert chunked.label == "b4.h32/8.q512.kv8192.d128.causal"
    assert problem(1024, dim=64).label == "b1.h16.s1024.d64.full"
    assert problem(9, 10, causal=2, layout="BHSD").label == "b1.h16.q9.kv10.d128.causal-top-left.bhsd"
    assert chunked.key == "fmha:bshd:4x32x8x512x8192x128x1"


def test_the_two_ops_differ_in_their_contract() -> None:
    extents = (1, 8, 8, 64, 64, 64)
    half, brain = (op(name).problem(extents, None) for name in ("fmha", "fmha-bf16"))
    assert half.dims == brain.dims == {**half.dims, "causal": 0}
    assert half.contract.elements == {**dict.fromkeys("qkvo", "f16"), "lse": "f32"}
    assert brain.contract.elements == {**dict.fromkeys("qkvo", "bf16"), "lse": "f32"}
    assert (half.op, brain.op) == ("fmha", "fmha-bf16")
    assert half.contract == FMHA.contract and brain.contract == op("fmha-bf16").contract


@pytest.mark.parametrize(
    ("extents", "layout", "said"),
    [
        ((1, 8, 8, 64, 64), None, "5 extents"),
        ((1, 8, 8, 64, 64, 64, 0, 1), None, "8 extents"),
        ((0, 8, 8, 64, 64, 64), None, "batch is 0"),
        ((1, 8, 8, 64, 2**31, 64), None, "seqlen_kv is 2147483648"),
        ((1, 8, 8, 64, 64, 64, 3), None, "causal is 3; give 0"),
        ((1, 8, 3, 64, 64, 64), None, "heads_q is 8 and heads_kv 3"),
        ((1, 8, 16, 64, 64, 64), None, "multiple of heads_kv"),
        (
            (1, 8, 8, 64, 64, 96),
            None,
            "head_dim is 96; there are kernels for 32, 64, 128, 256; pad it .* 128",
        ),
        ((1, 8, 8, 64, 64, 512), None, "head_dim is 512; there are kernels for 32, 64, 128, 256$"),
        ((1, 8, 8, 64, 64, 64), "sbhd", "layout 'sbhd' is none; use bshd or bhsd"),
    ],
)
def test_what_is_no_problem_is_one_line(extents: tuple[int, ...], layout: str | None, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        FMHA.problem(extents, layout)
    assert "\n" not in str(caught.value)


def test_a_problem_larger_than_the_memory_says_so(shipped: list[Problem], device: DeviceFacts) -> None:
    assert [one.label for one in shipped if FMHA.fits(one, device)] == []
    said = FMHA.fits(problem(2**20, batch=64), device)
    assert said is not None and "b64.h16.s1048576.d128.full" in said and "GiB" in said
    # K and V alone, with few queries, are counted too.
    assert FMHA.fits(problem(1, 2**22, heads=32), device) is not None
