"""traits.h's plain functions: who computes which tile, how many blocks of keys it walks, what a CTA takes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from itertools import product
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest

from cutlass_tuner.ops.columns import one_row
from cutlass_tuner.ops.fmha import rules, smem
from cutlass_tuner.space import Space
from emit.flash.on_cpu import compiled, knobs

IntArray = npt.NDArray[np.int32]

WALKED = [(causal, groups, tile_kv) for causal in (True, False) for groups in (1, 3) for tile_kv in (48, 128)]
"""Mask, groups and tile_kv of kernels whose blocks are counted."""
FACTS = [
    SimpleNamespace(head_dim=dim, groups=groups, tile_kv=kv, stages=stages, q_stages=q, blocks_per_sm=share)
    for dim, groups, kv, (stages, q), share in product(
        (32, 64, 128, 256), (1, 2, 3, 4), (32, 80, 176), ((1, 1), (2, 2), (5, 1)), (1, 2, 3)
    )
]


def source() -> str:
    kinds = [knobs(causal=causal, groups=groups, tile_kv=kv) for causal, groups, kv in WALKED]
    counted = "".join(
        f"EXPORT void blocks_{i}(int q, int kv, int diagonal, int32_t* tiles, int32_t* below)"
        f" {{ cutlass_tuner::flash::blocks<{kind}>(q, kv, diagonal, tiles, below); }}\n"
        for i, kind in enumerate(kinds)
    )
    table = ", ".join(f"facts<{knobs(**vars(one))}>()" for one in FACTS)
    return (
        f'#include "traits.h"\nusing namespace cutlass_tuner::flash;\n{counted}'
        f"EXPORT Facts const all_facts[] = {{{table}}};\n"
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("traits"), source())


def pointer(numbers: IntArray) -> ctypes.c_void_p:
    return ctypes.c_void_p(numbers.ctypes.data)


# --- the walk over tiles


def dealt(
    library: ctypes.CDLL, q_tiles: int, heads: int, *, section: int, heavy: bool, ctas: int
) -> IntArray:
    """Lines of cta, round, row, head, of each CTA until it stops."""
    out = np.full((q_tiles * heads + ctas, 4), -1, np.int32)
    library.deal.restype = ctypes.c_int64
    count = library.deal(q_tiles, heads, section, int(heavy), ctas, pointer(out))
    return out[:count]


WALKS = [
    (q_tiles, heads, section, ctas)
    for q_tiles, heads, section in product((1, 2, 3, 7, 16), (1, 3, 8, 20), (1, 2, 4, 8, 32))
    for ctas in {1, 2, 5, 13, q_tiles * heads // 2, q_tiles * heads - 1, q_tiles * heads}
    if 1 <= ctas <= q_tiles * heads  # host.h's grid
]


@pytest.mark.parametrize("heavy", [False, True])
def test_every_tile_is_computed_once_though_a_cta_stops_at_its_first_index_beyond(
    library: ctypes.CDLL, heavy: bool
) -> None:
    for q_tiles, heads, section, ctas in WALKS:
        tiles = dealt(library, q_tiles, heads, section=min(section, heads), heavy=heavy, ctas=ctas)[:, 2:]
        computed = sorted(map(tuple, tiles.tolist()))
        assert computed == list(product(range(q_tiles), range(heads))), (q_tiles, heads, section, ctas)


def in_order(tiles: IntArray) -> IntArray:
    """Lines of a walk by a CTA a tile: in the order in which the GPU starts them."""
    return tiles[np.argsort(tiles[:, 0], kind="stable")]


@pytest.mark.parametrize("heavy", [False, True])
def test_a_section_of_heads_is_walked_row_by_row_before_the_next(library: ctypes.CDLL, heavy: bool) -> None:
    for q_tiles, heads, section, _ in WALKS:
        tiles = in_order(
            dealt(library, q_tiles, heads, section=min(section, heads), heavy=heavy, ctas=q_tiles * heads)
        )
        rows = range(q_tiles)[::-1] if heavy else range(q_tiles)
        expected = [
            (row, head)
            for first in range(0, heads, section)
            for row in rows
            for head in range(first, min(first + section, heads))
        ]
        assert [tuple(line) for line in tiles[:, 2:].tolist()] == expected


def test_long_tiles_come_first_and_loads_differ_by_the_longest_at_most(library: ctypes.CDLL) -> None:
    """Of a square causal problem in one section: a tile of row r takes r + 1 units of time."""
    for q_tiles, heads, section, ctas in WALKS:
        if section < heads:
            continue
        tiles = dealt(library, q_tiles, heads, section=heads, heavy=True, ctas=ctas)
        lengths = [tiles[tiles[:, 0] == cta, 2] + 1 for cta in range(ctas)]
        assert all((np.diff(one) <= 0).all() for one in lengths)
        loads = [int(one.sum()) for one in lengths]
        assert max(loads) - min(loads) <= q_tiles, (q_tiles, heads, ctas)


# --- blocks of keys


def last_keys(seqlen_q: int, seqlen_kv: int, diagonal: int | None) -> IntArray:
    """How many of the keys each row is to see, none or all of them included."""
    rows = np.arange(seqlen_q)
    seen = np.full(seqlen_q, seqlen_kv) if diagonal is None else rows + diagonal + 1
    keys: IntArray = np.clip(seen, 0, seqlen_kv).astype(np.int32)
    return keys


def blocks_of(keys: Iterable[int], tile_kv: int) -> int:
    return max(1, -(-max(keys) // tile_kv))


LENGTHS = [(1, 1), (64, 64), (192, 384), (200, 129), (129, 200), (500, 37), (37, 500), (385, 384), (1, 300)]


@pytest.mark.parametrize("index", range(len(WALKED)), ids=lambda index: "-".join(map(str, WALKED[index])))
def test_blocks_are_those_that_hold_a_key_some_row_sees_and_at_least_one(
    library: ctypes.CDLL, index: int
) -> None:
    causal, groups, tile_kv = WALKED[index]
    tile_q = 64 * groups
    for seqlen_q, seqlen_kv in LENGTHS:
        for diagonal in (seqlen_kv - seqlen_q, 0) if causal else (0,):
            tiles = np.zeros(-(-seqlen_q // tile_q), np.int32)
            below = np.zeros(seqlen_q, np.int32)
            count = getattr(library, f"blocks_{index}")
            count(seqlen_q, seqlen_kv, diagonal, pointer(tiles), pointer(below))
            keys = last_keys(seqlen_q, seqlen_kv, diagonal if causal else None).tolist()
            expected = [blocks_of(keys[: end + 1], tile_kv) for end in range(seqlen_q)]
            assert below.tolist() == expected
            starts = range(0, seqlen_q, tile_q)
            assert tiles.tolist() == [blocks_of(keys[: start + tile_q], tile_kv) for start in starts]


# --- what a CTA takes


class Facts(ctypes.Structure):
    """traits.h's Facts, of this folder."""

    _fields_ = [
        (name, ctypes.c_int32)
        for name in (
            *("groups", "blocks_per_sm", "threads", "registers", "producer", "consumer"),
            *("q_bytes", "kv_bytes", "k_offset", "v_offset", "barrier_offset", "barrier_bytes", "smem_bytes"),
        )
    ]


def test_a_cta_hands_out_no_more_registers_than_it_gets(library: ctypes.CDLL) -> None:
    assert (rules.PRODUCER_REGISTERS, rules.REGISTERS_PER_SM) == (24, 65536)
    for said in (Facts * len(FACTS)).in_dll(library, "all_facts"):
        # setmaxnreg takes multiples of 8 from 24 to 256 (PTX ISA)
        assert said.consumer % 8 == said.producer % 8 == 0
        assert said.producer == rules.PRODUCER_REGISTERS <= said.consumer <= rules.MOST_REGISTERS
        assert said.threads == 128 * (said.groups + 1)
        handed_out = 128 * (said.consumer * said.groups + said.producer)
        assert handed_out <= said.registers <= rules.REGISTERS_PER_SM // said.blocks_per_sm
        # nor much less: a group cannot have 8 more, unless it has the most of all
        more = handed_out + 128 * 8 * said.groups
        assert more > said.registers or said.consumer == rules.MOST_REGISTERS


def test_the_rules_and_the_kernels_agree_on_registers_and_shared_memory(library: ctypes.CDLL) -> None:
    known = {knob.name: knob for knob in Space.load("fmha-sm90").kernel_knobs()}
    alphabets = {name: knob.alphabet for name, knob in known.items()}
    said = (Facts * len(FACTS)).in_dll(library, "all_facts")
    for one, fact in zip(FACTS, said, strict=True):
        asked = {name: knob.default for name, knob in known.items()}
        asked |= {"template": "flash", "tile_q": 64 * one.groups, **vars(one)}
        config = one_row(asked, alphabets)
        assert rules.register_budget(config) + rules.OTHER_REGISTERS == fact.consumer
        assert smem.total_bytes(config) == fact.smem_bytes


def test_shared_memory_holds_every_stage_where_its_swizzle_begins(library: ctypes.CDLL) -> None:
    said = (Facts * len(FACTS)).in_dll(library, "all_facts")
    for one, fact in zip(FACTS, said, strict=True):
        atom = 8 * min(2 * one.head_dim, 128)  # 8 swizzled rows: a stage begins with row 0 of one
        assert (fact.q_bytes, fact.kv_bytes) == (
            128 * one.head_dim * one.groups,
            2 * one.head_dim * one.tile_kv,
        )
        assert fact.q_bytes % atom == fact.kv_bytes % atom == 0
        ends = (fact.k_offset, fact.v_offset, fact.barrier_offset, fact.smem_bytes)
        sizes = (one.q_stages * fact.q_bytes, *[one.stages * fact.kv_bytes] * 2, fact.barrier_bytes)
        assert ends == tuple(sum(sizes[: n + 1]) for n in range(4))
