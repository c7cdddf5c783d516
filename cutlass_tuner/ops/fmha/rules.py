"""The predicates of the rules that spaces/fmha-sm90.yaml names. Vectorised; True = broken.

A function's name is the rule's name. Kind, reason and source stand in the YAML only.
"""

from __future__ import annotations

import numpy as np

from cutlass_tuner.ops.columns import BoolArray, Columns, IntArray, ceil_div, round_up
from cutlass_tuner.ops.fmha import smem
from cutlass_tuner.ops.fmha.fold import q_tiles
from cutlass_tuner.ops.fmha.problem import mask as mask_of
from cutlass_tuner.ops.rule import Rule, kernel_rule, problem_rule
from cutlass_tuner.ops.shape_file import LARGEST
from cutlass_tuner.records import DeviceFacts, Problem

GROUP_ROWS = 64
"""Rows of a warp group's WGMMA."""
MAX_GRID_YZ = 65_535
PRODUCER_REGISTERS, MOST_REGISTERS = 24, 240
"""What a producer thread keeps of the CTA's registers, and the most that a math thread gets (setmaxnreg)."""
OTHER_REGISTERS = 32
"""Of those, what addresses, the online softmax and the loop need beside accumulators: FlashAttention-3's
128x176 tiles at head_dim 128 (196 accumulators of 240) and 192x128 at 64 (128 of 160) do not spill."""
REGISTERS_PER_SM = 65_536


def flash(c: Columns) -> BoolArray:
    return c.is_("template", "flash")


def cooperative(c: Columns) -> BoolArray:
    return c.is_("template", "example88") & c.is_("schedule", "cooperative")


def tma(c: Columns) -> BoolArray:
    return c.is_("template", "example88") & c.is_("schedule", "tma")


def accumulators(c: Columns) -> IntArray:
    """32-bit registers a thread for O and S in fp32, and P in 16 bits where it lives beside the next S."""
    rows = c["tile_q"] // np.maximum(c["groups"], 1)
    beside = flash(c) & (c["overlap"] == 1)
    halves = 2 * c["head_dim"] + 2 * c["tile_kv"] + np.where(beside, c["tile_kv"], 0)
    result: IntArray = rows * halves // 256
    return result


def register_budget(c: Columns) -> IntArray:
    """What a math thread has for accumulators."""
    groups = np.maximum(c["groups"], 1)
    # Registers of a CTA are as many a thread for all, in steps of 8; then the producers give theirs up.
    at_launch = REGISTERS_PER_SM // (128 * (groups + 1) * np.maximum(c["blocks_per_sm"], 1)) // 8 * 8
    share = (at_launch * (groups + 1) - PRODUCER_REGISTERS) // groups // 8 * 8
    shared = np.minimum(share, MOST_REGISTERS)
    alone = np.minimum(255, REGISTERS_PER_SM // (128 * np.maximum(c["blocks_per_sm"], 1)) // 8 * 8)
    result: IntArray = np.where(tma(c), alone, shared) - OTHER_REGISTERS
    return result


def q_rows(problem: Problem) -> int:
    """Rows of Q of one sequence, of all heads; `kv_rows` of K."""
    return problem.dims["heads_q"] * problem.dims["seqlen_q"]


def kv_rows(problem: Problem) -> int:
    return problem.dims["heads_kv"] * problem.dims["seqlen_kv"]


def kv_tiles(c: Columns, problem: Problem) -> IntArray:
    return ceil_div(problem.dims["seqlen_kv"], c["tile_kv"])


@kernel_rule
def flash_tile_q(c: Columns, device: DeviceFacts) -> BoolArray:
    other: BoolArray = c["tile_q"] != GROUP_ROWS * c["groups"]
    return flash(c) & other


@kernel_rule
def cooperative_tile_q(c: Columns, device: DeviceFacts) -> BoolArray:
    ragged: BoolArray = c["tile_q"] % (GROUP_ROWS * np.maximum(c["groups"], 1)) != 0
    return cooperative(c) & ragged


@kernel_rule
def cooperative_groups(c: Columns, device: DeviceFacts) -> BoolArray:
    other: BoolArray = (c["groups"] < 2) | (c["groups"] > 3)
    return cooperative(c) & other


@kernel_rule
def tma_tile_q(c: Columns, device: DeviceFacts) -> BoolArray:
    other: BoolArray = (c["tile_q"] != GROUP_ROWS) | (c["groups"] != 1)
    return tma(c) & other


@kernel_rule
def cooperative_stages(c: Columns, device: DeviceFacts) -> BoolArray:
    few: BoolArray = c["stages"] < 3
    return cooperative(c) & few


@kernel_rule
def tma_stages(c: Columns, device: DeviceFacts) -> BoolArray:
    wrong: BoolArray = (c["stages"] < 4) | (c["stages"] % 2 != 0)
    return tma(c) & wrong


@kernel_rule
def smem_capacity(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = smem.total_bytes(c) > device.smem_per_block_bytes
    return broken


@kernel_rule
def blocks_do_not_fit(c: Columns, device: DeviceFacts) -> BoolArray:
    asked = c["blocks_per_sm"] * (smem.total_bytes(c) + smem.RESERVED_BYTES)
    broken: BoolArray = (c["blocks_per_sm"] > 1) & (asked > smem.SM_BYTES)
    return broken


@problem_rule
def head_dim(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    other: BoolArray = c["head_dim"] != problem.dims["head_dim"]
    return other


@problem_rule
def mask(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    return ~c.is_("mask", mask_of(problem))


@problem_rule
def tma_grouped_heads(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    return tma(c) & (problem.dims["heads_q"] != problem.dims["heads_kv"])


@problem_rule
def example88_extents(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    dims = problem.dims
    elements = dims["batch"] * dims["head_dim"] * max(q_rows(problem), kv_rows(problem))
    gridded = (c["persistent"] == 0) & (max(dims["batch"], dims["heads_q"]) > MAX_GRID_YZ)
    broken: BoolArray = ~flash(c) & (gridded | (elements > LARGEST))
    return broken


# --- legal, but expected to be slow ---------------------------------------------------------------


@kernel_rule
def register_spill(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = accumulators(c) > register_budget(c)
    return broken


@kernel_rule
def idle_q_stages(c: Columns, device: DeviceFacts) -> BoolArray:
    spare: BoolArray = (c["q_stages"] > c["groups"]) & (c["persistent"] == 0)
    return cooperative(c) & spare


@problem_rule
def tile_q_exceeds_queries(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = c["tile_q"] >= problem.dims["seqlen_q"] + GROUP_ROWS
    return broken


@problem_rule
def tile_kv_exceeds_keys(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = c["tile_kv"] > np.maximum(32, round_up(problem.dims["seqlen_kv"], 16))
    return broken


@problem_rule
def idle_stages(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    # Flash has rings for K and for V, example 88 one for both, of 3 or 4 stages at least.
    tiles = kv_tiles(c, problem)
    most = np.where(flash(c), tiles, np.maximum(2 * tiles, np.where(tma(c), 4, 3)))
    broken: BoolArray = c["stages"] > most
    return broken


@problem_rule
def cluster_exceeds_queries(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = c["cluster_m"] > q_tiles(c, problem)
    return broken


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        flash_tile_q,
        cooperative_tile_q,
        cooperative_groups,
        tma_tile_q,
        cooperative_stages,
        tma_stages,
        smem_capacity,
        blocks_do_not_fit,
        head_dim,
        mask,
        tma_grouped_heads,
        example88_extents,
        register_spill,
        idle_q_stages,
        tile_q_exceeds_queries,
        tile_kv_exceeds_keys,
        idle_stages,
        cluster_exceeds_queries,
    )
}


def facts(c: Columns, problem: Problem | None, device: DeviceFacts) -> dict[str, object]:
    """Of a single config: what the reasons' {placeholders} may name, besides its knobs."""
    known: dict[str, object] = {
        "accumulators": int(accumulators(c)[0]),
        "register_budget": int(register_budget(c)[0]),
        "smem_bytes": int(smem.total_bytes(c)[0]),
        "smem_limit": device.smem_per_block_bytes,
        "group_rows": GROUP_ROWS * int(c["groups"][0]),
    }
    if problem is not None:
        dims = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_kv")
        known |= {dim: problem.dims[dim] for dim in dims}
        known |= {"problem_head_dim": problem.dims["head_dim"], "problem_mask": mask_of(problem)}
        known |= {"kv_tiles": int(kv_tiles(c, problem)[0]), "q_tiles": int(q_tiles(c, problem)[0])}
    return known
