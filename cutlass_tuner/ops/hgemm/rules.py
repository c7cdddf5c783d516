"""The predicates of the rules that spaces/hgemm-sm90.yaml names. Vectorised; True = broken.

A function's name is the rule's name. Kind, reason and source stand in the YAML only.
"""

from __future__ import annotations

import numpy as np

from cutlass_tuner.ops.columns import BoolArray, Columns, IntArray, ceil_div, round_up
from cutlass_tuner.ops.hgemm import smem
from cutlass_tuner.ops.hgemm.problem import CONTIGUOUS, TMA_ALIGNMENT, extents
from cutlass_tuner.ops.rule import Rule, kernel_rule, launch_rule, problem_rule
from cutlass_tuner.records import DeviceFacts, Problem

MAX_CLUSTER_CTAS = 8
HALF_BYTES = 2
TMA_SMEM_ALIGNMENT = 128
CLEAN_ACCUMULATORS = 208
"""ptxas of CUDA 13.0: up to 208 without a spill in all three schedules, 224 spills and serialises WGMMA."""


def accumulators(c: Columns) -> IntArray:
    """fp32 accumulator registers a thread. Cooperative warp groups share a tile, the others own one."""
    threads = np.where(c.is_("schedule", "cooperative"), 256, 128)
    return c["tile_m"] * c["tile_n"] // threads


def cta_grid(c: Columns, problem: Problem) -> tuple[IntArray, IntArray]:
    """CTA tiles along the kernel's M and N, not yet rounded up to clusters."""
    m, n = extents(c, problem)
    return ceil_div(m, c["tile_m"]), ceil_div(n, c["tile_n"])


def _b_along_k(c: Columns) -> BoolArray:
    """Is the kernel's B k-contiguous? An n-contiguous one (tt, not swapped) has another swizzle atom."""
    along_k: BoolArray = ~c.is_("layout", "tt") | (c["swap_ab"] == 1)
    return along_k


@kernel_rule
def tile_m_step(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = c["tile_m"] % 64 != 0
    return broken


@kernel_rule
def tile_n_step(c: Columns, device: DeviceFacts) -> BoolArray:
    n = c["tile_n"]
    odd: BoolArray = (n % 8 != 0) | (_b_along_k(c) & (n % 16 != 0) & (n != 8))
    return odd | (n > 256)


@kernel_rule
def tile_k_step(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = c["tile_k"] % 16 != 0
    return broken


@kernel_rule
def cooperative_tile_m(c: Columns, device: DeviceFacts) -> BoolArray:
    halved: BoolArray = c["tile_m"] % 128 != 0
    return c.is_("schedule", "cooperative") & halved


@kernel_rule
def narrow_tile_stages(c: Columns, device: DeviceFacts) -> BoolArray:
    odd: BoolArray = c["stages"] % 2 != 0
    narrow: BoolArray = (c["tile_n"] == 8) & (c["tile_k"] <= 64)
    return _b_along_k(c) & odd & narrow


@kernel_rule
def two_stages(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = c["stages"] < 2
    return broken


@kernel_rule
def smem_capacity(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = smem.total_bytes(smem.layout(c), c["stages"]) > device.smem_per_block_bytes
    return broken


@kernel_rule
def cluster_extent(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = np.zeros(1, dtype=np.bool_)
    for extent in (c["cluster_m"], c["cluster_n"]):
        broken = broken | (extent < 1) | ((extent & (extent - 1)) != 0)
    return broken


@kernel_rule
def multicast_slice(c: Columns, device: DeviceFacts) -> BoolArray:
    # A's slice is never that small: tile_m is at least 64.
    slice_bytes = c["tile_n"] * c["tile_k"] * HALF_BYTES // np.maximum(c["cluster_m"], 1)
    broken: BoolArray = slice_bytes < TMA_SMEM_ALIGNMENT
    return broken


@kernel_rule
def cluster_size(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = c["cluster_m"] * c["cluster_n"] > MAX_CLUSTER_CTAS
    return broken


@kernel_rule
def plain_scheduler(c: Columns, device: DeviceFacts) -> BoolArray:
    return c.is_("schedule", "plain") & ~c.is_("scheduler", "persistent")


@kernel_rule
def pingpong_scheduler(c: Columns, device: DeviceFacts) -> BoolArray:
    return c.is_("schedule", "pingpong") & c.is_("scheduler", "streamk")


@problem_rule
def layout(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    if problem.layout not in c.alphabets["layout"].words:
        return np.ones(len(c), dtype=np.bool_)
    return ~c.is_("layout", problem.layout)


@problem_rule
def alignment(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    unaligned = {
        operand: problem.dims[dim] % TMA_ALIGNMENT != 0
        for operand, dim in CONTIGUOUS.get(problem.layout, {}).items()
    }
    loads = unaligned.get("a", False) or unaligned.get("b", False)
    return loads | (c.is_("epilogue", "tma") & unaligned.get("d", False))


@launch_rule
def splits_decomposition(c: Columns, device: DeviceFacts) -> BoolArray:
    splitting = c.is_("decomposition", "heuristic") | c.is_("decomposition", "split_k")
    return c.is_("scheduler", "streamk") & (c["splits"] > 1) & ~splitting


# --- legal, but expected to be slow ---------------------------------------------------------------


@kernel_rule
def register_spill(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = accumulators(c) > CLEAN_ACCUMULATORS
    return broken


@problem_rule
def tile_exceeds_problem(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    m, n = extents(c, problem)
    narrowest = 64 * np.where(c.is_("schedule", "cooperative"), 2, 1)
    tall = (c["tile_m"] >= 2 * m) & (c["tile_m"] > narrowest)
    # WGMMA widths step by 16: a tile of the next width up that covers n is the least that can be had.
    return tall | (c["tile_n"] > np.maximum(8, round_up(n, 16)))


@problem_rule
def tile_k_exceeds_k(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    return (c["tile_k"] >= 2 * problem.dims["k"]) & (c["tile_k"] > 32)


@problem_rule
def cluster_exceeds_grid(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    grid_m, grid_n = cta_grid(c, problem)
    return (c["cluster_m"] > grid_m) | (c["cluster_n"] > grid_n)


@problem_rule
def plain_one_cta(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    grid_m, grid_n = cta_grid(c, problem)
    waves = grid_m * grid_n * problem.dims["batch"] > device.sm_count
    alone = smem.total_bytes(smem.layout(c), c["stages"]) > smem.TWO_CTA_BYTES
    return c.is_("schedule", "plain") & waves & alone


@launch_rule
def splits_inert(c: Columns, device: DeviceFacts) -> BoolArray:
    return (c["splits"] > 1) & ~c.is_("scheduler", "streamk")


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        tile_m_step,
        tile_n_step,
        tile_k_step,
        cooperative_tile_m,
        narrow_tile_stages,
        two_stages,
        smem_capacity,
        cluster_extent,
        multicast_slice,
        cluster_size,
        plain_scheduler,
        pingpong_scheduler,
        layout,
        alignment,
        splits_decomposition,
        register_spill,
        tile_exceeds_problem,
        tile_k_exceeds_k,
        cluster_exceeds_grid,
        plain_one_cta,
        splits_inert,
    )
}


def facts(c: Columns, problem: Problem | None, device: DeviceFacts) -> dict[str, object]:
    """Of a single config: what the reasons' {placeholders} may name, besides its knobs."""
    known: dict[str, object] = {
        "accumulators": int(accumulators(c)[0]),
        "cluster_ctas": int(c["cluster_m"][0] * c["cluster_n"][0]),
        "smem_bytes": int(smem.total_bytes(smem.layout(c), c["stages"])[0]),
        "smem_limit": device.smem_per_block_bytes,
        "two_cta_bytes": smem.TWO_CTA_BYTES,
        "sm_count": device.sm_count,
    }
    if problem is not None:
        m, n = extents(c, problem)
        grid_m, grid_n = cta_grid(c, problem)
        known |= {"problem_layout": problem.layout, "k": problem.dims["k"], "n": problem.dims["n"]}
        known |= {"kernel_m": int(m[0]), "kernel_n": int(n[0])}
        known |= {"grid_m": int(grid_m[0]), "grid_n": int(grid_n[0])}
    return known
