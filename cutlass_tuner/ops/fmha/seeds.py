"""Which kernels to build first: the default, what others use, and the estimate's favourites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cutlass_tuner.ops import seeding
from cutlass_tuner.ops.columns import Columns, FloatArray, IntArray
from cutlass_tuner.ops.fmha.family import FAMILIES, SM100
from cutlass_tuner.ops.fmha.rules import flash
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Proposal, Scalar

if TYPE_CHECKING:
    from cutlass_tuner.space import Candidates, Space

Knobs = Mapping[str, Scalar]


def _flash(tile: str, stages: int, **knobs: Scalar) -> Knobs:
    tile_q, tile_kv = map(int, tile.split("x"))
    return {"tile_q": tile_q, "tile_kv": tile_kv, "groups": tile_q // 64, "stages": stages, **knobs}


def _example88(tile: str, stages: int, **knobs: Scalar) -> Knobs:
    return {**_flash(tile, stages, groups=2), "template": "example88", **knobs}


_NO_TURNS: Knobs = {"pingpong": False}
_EAGER: Knobs = {"lazy_rescale": False}
_TMA: Knobs = {"groups": 1, "schedule": "tma", "blocks_per_sm": 2}
_PINGPONG88: Knobs = {"persistent": True, "separate_q": True}

TEXTBOOK: Mapping[int, tuple[Knobs, ...]] = {
    # FlashAttention-3's tiles (hopper/tile_size.h) and what led on an H200: a second buffer for Q wherever it
    # fits, narrow blocks of keys for short causal problems. Then example 88's own choices.
    32: (
        _flash("192x128", 2, q_stages=2),
        _flash("128x128", 2, q_stages=2, exp_fma=2),
        _flash("192x128", 3, q_stages=2, exp_fma=1),
        _flash("192x128", 2, q_stages=2, **_NO_TURNS),
        _example88("64x128", 4, **_TMA),
        _example88("128x64", 5),
    ),
    64: (
        _flash("192x128", 2, q_stages=2, **_EAGER),
        _flash("128x128", 2, q_stages=2, exp_fma=1),
        _flash("192x128", 2, q_stages=2),
        _flash("128x64", 4, q_stages=2, **_EAGER),
        _flash("128x128", 2, q_stages=2, exp_fma=2),
        _flash("256x64", 3, q_stages=2, **_EAGER),
        _flash("128x48", 3, q_stages=2, blocks_per_sm=2, **_EAGER),
        _flash("64x96", 2, q_stages=2, blocks_per_sm=2, **_EAGER),
        _flash("192x128", 2, q_stages=2, **_NO_TURNS),
        _example88("64x128", 4, **_TMA),
        _example88("128x64", 5),
        _example88("128x64", 5, **_PINGPONG88),
        _example88("192x128", 5, groups=3, q_stages=3),
    ),
    128: (
        _flash("128x128", 2, q_stages=2, **_EAGER),
        _flash("128x176", 2, **_EAGER),
        _flash("128x64", 4, q_stages=2, **_EAGER),
        _flash("128x128", 2, q_stages=2),
        _flash("128x144", 2, q_stages=2),
        _flash("128x128", 2, q_stages=2, **_NO_TURNS),
        _flash("64x64", 2, q_stages=2, blocks_per_sm=2, **_EAGER),
        _example88("128x128", 5),
        _example88("128x128", 5, **_PINGPONG88),
    ),
    256: (
        _flash("128x64", 2),
        _flash("128x80", 2),
        _flash("128x64", 2, exp_fma=1),
        _flash("128x64", 2, **_EAGER),
        _flash("128x80", 2, **_NO_TURNS),
        _flash("64x64", 2),
        _example88("128x64", 4),
        _example88("128x64", 4, **_PINGPONG88),
    ),
}
"""Proven kernels by head_dim, for either mask where it allows them."""

_LOOPING: Knobs = {"softmax_registers": 184, "correction_registers": 96}
"""Of a persistent kernel (rule persistent_registers), as in example 77's for latent attention."""
SM100_TEXTBOOK: tuple[Knobs, ...] = (
    # Example 77's schedulers, first its own register counts; then blocks of half as many keys.
    {"softmax_registers": 192, "correction_registers": 96},
    {"scheduler": "persistent", **_LOOPING},
    {"scheduler": "causal_individual"},
    {"scheduler": "causal_persistent", **_LOOPING},
    {"scheduler": "causal_individual", "tile_kv": 64},
)
"""Kernels to begin with on sm_100a, for every head_dim and mask; none has been measured."""


def prior(candidates: Candidates, problems: Sequence[Problem], device: DeviceFacts) -> FloatArray:
    """Estimated microseconds, rows x problems; infinite where a candidate does not serve the problem."""
    result = np.full((len(candidates), len(problems)), np.inf)
    for position, problem in enumerate(problems):
        rows = np.flatnonzero(candidates.serves[:, position])
        columns = candidates.columns.take(rows)
        result[rows, position] = FAMILIES[candidates.family].estimate_us(columns, problem, device)
    return result


def seeds(
    space: Space,
    table: Candidates,
    estimate_us: FloatArray,
    problems: Sequence[Problem],
    device: DeviceFacts,
) -> list[Proposal]:
    """As `seeding.proposals`: of an estimate's favourites, no two have the same tile or kind."""
    known = list(_known(space, table.family, problems, device))
    return seeding.proposals(table, estimate_us, known, _unlike(table.family, table.columns), problems)


def _unlike(family: str, c: Columns) -> tuple[IntArray, IntArray]:
    """Tile, and kind: the template with its number of warp groups, or the scheduler."""
    if family == SM100:
        return c["tile_kv"], c["scheduler"]
    return c["tile_q"] * 1000 + c["tile_kv"], c["groups"] + 10 * np.where(flash(c), 0, -c["schedule"])


def _known(
    space: Space, family_name: str, problems: Sequence[Problem], device: DeviceFacts
) -> Iterator[tuple[KernelConfig, str]]:
    """The default and the textbook kernels for every head_dim and mask of the problems, where the space has
    their knobs' values."""
    family = space.family(family_name)
    knobs = {knob.name: knob for knob in space.kernel_knobs(family_name)}
    asked = {tuple(given.items()): given for given in map(family.knobs_for, problems)}
    for given in asked.values():
        textbook = SM100_TEXTBOOK if family_name == SM100 else TEXTBOOK[int(given["head_dim"])]
        for source, config in [("default", {}), *(("textbook", config) for config in textbook)]:
            wanted = {**config, **given}
            if all(knobs[name].accepts(value) for name, value in wanted.items()):
                yield space.effective(space.kernel(family_name, **wanted), device), source
