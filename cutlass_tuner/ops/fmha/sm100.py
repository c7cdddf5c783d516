"""Attention on sm_100a: what CUTLASS's example 77 takes, and what its knobs come to.

Vectorised, as for sm_90a. A predicate's name is its rule's in spaces/fmha-sm100.yaml, True = broken; kind,
reason and source stand there. Sources are CUTLASS 4.2's examples/77_blackwell_fmha.
"""

from __future__ import annotations

import numpy as np

from cutlass_tuner.ops.columns import BoolArray, Columns, IntArray
from cutlass_tuner.ops.fmha import rules as shared
from cutlass_tuner.ops.fmha.problem import BOTTOM_RIGHT, ELEMENT_BYTES
from cutlass_tuner.ops.fmha.problem import mask as mask_of
from cutlass_tuner.ops.rule import Rule, kernel_rule, problem_rule
from cutlass_tuner.ops.shape_file import LARGEST
from cutlass_tuner.records import DeviceFacts, Problem

TILE_Q = 256
"""Query rows of a CTA tile: two softmax warp groups, a thread a row."""
Q_STAGES, KV_STAGES = 2, 3
"""Buffers of half a tile of Q, and of a block of K or V (16-bit elements)."""
WARP_GROUP_REGISTERS = 512
"""A thread's of all four warp groups together: the SM's 65536 over 128 threads."""
LEAST_OTHER_REGISTERS, PERSISTENT_OTHER_REGISTERS, MOST_OTHER_REGISTERS = 32, 48, 64
"""Of the warps that load, issue MMAs and store: what the example gives them, what it gives them in its kernel
for latent attention, and what is plenty."""
GROUPED_HEADS = 8
PERSISTENT = ("persistent", "causal_persistent")
_BARRIER_BYTES = 240
"""Of the kernel's `SharedStorage`: its pipelines' barriers and the address of tensor memory."""


def resolve(c: Columns, device: DeviceFacts) -> Columns:
    """Every knob acts on every kernel: nothing folds."""
    return c


def persistent(c: Columns) -> BoolArray:
    return c.is_("scheduler", PERSISTENT[0]) | c.is_("scheduler", PERSISTENT[1])


def q_tiles(problem: Problem) -> int:
    """CTA tiles along the queries of one head."""
    return -(-problem.dims["seqlen_q"] // TILE_Q)


def fold_launch(c: Columns, problem: Problem, device: DeviceFacts) -> Columns:
    """An individual scheduler has a CTA for each tile, and so has any with no more tiles than SMs."""
    few = q_tiles(problem) * problem.dims["heads_q"] * problem.dims["batch"] <= device.sm_count
    alone = ~persistent(c) | few
    grid = np.broadcast_to(np.where(alone, c.word("grid", "tiles"), c["grid"]), (len(c),))
    return c.having(grid=grid.astype(np.int64))


def other_registers(c: Columns) -> IntArray:
    """A thread's of the loading, MMA and storing warps (example77_kernel.h, Schedule)."""
    result: IntArray = WARP_GROUP_REGISTERS - 2 * c["softmax_registers"] - c["correction_registers"]
    return result


def stage_bytes(c: Columns) -> IntArray:
    """One block of K or of V."""
    return ELEMENT_BYTES * c["head_dim"] * c["tile_kv"]


def smem_bytes(c: Columns) -> IntArray:
    """What a CTA asks for, never more than a block may have: a persistent one loads its next tile while it
    stores this one."""
    q = TILE_Q // 2 * c["head_dim"] * ELEMENT_BYTES
    operands, output = Q_STAGES * q + KV_STAGES * stage_bytes(c), 2 * q
    tensors = np.where(persistent(c), operands + output, np.maximum(operands, output))
    result: IntArray = tensors + _BARRIER_BYTES
    return result


@kernel_rule
def warp_registers(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = other_registers(c) < LEAST_OTHER_REGISTERS
    return broken


@problem_rule
def rows_without_keys(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    dims = problem.dims
    blind = dims["causal"] == BOTTOM_RIGHT and dims["seqlen_q"] > dims["seqlen_kv"]
    return np.full(len(c), blind)


@problem_rule
def grouped_heads_scheduler(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    ragged = problem.dims["heads_q"] % GROUPED_HEADS != 0
    return c.is_("scheduler", "causal_individual") & ragged


@problem_rule
def extents(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    dims = problem.dims
    rows = max(shared.q_rows(problem), shared.kv_rows(problem))
    second = np.where(c.is_("scheduler", "causal_individual"), q_tiles(problem), dims["heads_q"])
    gridded = ~persistent(c) & (np.maximum(second, dims["batch"]) > shared.MAX_GRID_YZ)
    broken: BoolArray = gridded | (dims["batch"] * dims["head_dim"] * rows > LARGEST)
    return broken


# --- legal, but expected to be slow ---------------------------------------------------------------


@kernel_rule
def persistent_registers(c: Columns, device: DeviceFacts) -> BoolArray:
    few: BoolArray = other_registers(c) < PERSISTENT_OTHER_REGISTERS
    return persistent(c) & few


@kernel_rule
def idle_registers(c: Columns, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = other_registers(c) > MOST_OTHER_REGISTERS
    return broken


@problem_rule
def tile_kv_exceeds_keys(c: Columns, problem: Problem, device: DeviceFacts) -> BoolArray:
    broken: BoolArray = c["tile_kv"] >= problem.dims["seqlen_kv"] + 64
    return broken


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        warp_registers,
        shared.RULES["head_dim"],
        shared.RULES["mask"],
        rows_without_keys,
        grouped_heads_scheduler,
        extents,
        persistent_registers,
        idle_registers,
        tile_kv_exceeds_keys,
    )
}


def facts(c: Columns, problem: Problem | None, device: DeviceFacts) -> dict[str, object]:
    """Of a single config: what the reasons' {placeholders} may name, besides its knobs."""
    known: dict[str, object] = {
        "other_registers": int(other_registers(c)[0]),
        "least_other_registers": LEAST_OTHER_REGISTERS,
        "persistent_registers": PERSISTENT_OTHER_REGISTERS,
    }
    if problem is not None:
        known |= {dim: problem.dims[dim] for dim in ("batch", "heads_q", "seqlen_q", "seqlen_kv")}
        known |= {"problem_head_dim": problem.dims["head_dim"], "problem_mask": mask_of(problem)}
    return known
