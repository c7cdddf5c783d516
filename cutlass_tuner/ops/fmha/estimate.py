"""An analytic guess of an attention kernel's best time: tensor cores, exponentials, L2, waves, latency.

Good for ranking first guesses and as a prior; never reported as a time. The rates are those of an H200
(dense fp16 at its power limit, device copies, L2 reads), scaled by SM count and clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutlass_tuner.ops.columns import Columns, FloatArray, IntArray
from cutlass_tuner.ops.fmha import smem
from cutlass_tuner.ops.fmha.fold import q_tiles
from cutlass_tuner.ops.fmha.problem import ELEMENT_BYTES, FULL, compulsory_bytes, diagonal
from cutlass_tuner.ops.fmha.rules import OTHER_REGISTERS, accumulators, flash, register_budget
from cutlass_tuner.records import DeviceFacts, Problem

REFERENCE_SMS, REFERENCE_MHZ = 132, 1980
FLOPS_PER_US = 760e6
"""What the power limit allows of products that softmax interrupts."""
DRAM_BYTES_PER_US = 4.3e6
L2_BYTES_PER_US = 9e6
"""What all SMs together get from L2, neighbours' requests for the same lines partly merged."""
WGMMA_FLOPS_PER_CYCLE = 4096
"""Dense fp16, one SM."""
SMEM_BYTES_PER_CYCLE = 128
EXPONENTIALS_PER_CYCLE = 16
"""ex2 on the special function units of an SM."""
LANES_PER_CYCLE = 128
"""Everything else that is issued: four warp instructions a cycle and SM."""
SUSTAINED_CLOCK = 0.95
"""Of the highest clock, under this load."""
SCORE_INSTRUCTIONS = 4.5
"""Of each score, besides its exponential: maximum, scale and shift, sum, conversion to 16 bits."""
UNIT_SHARE = 0.8
"""How much of the lesser of exponentials and other instructions comes on top: a warp does both in turn."""
POLYNOMIAL_INSTRUCTIONS = 10.0
"""Of an exponential on the FMA units."""
STEP_CYCLES = 80
"""Of each block of keys: barriers, draining WGMMA, the row maximum's shuffles."""
LOAD_LATENCY_US = 0.8
"""From issuing a tile's first loads to its first scores; a persistent kernel has them in flight already."""
STORE_LATENCY_US = 0.6
LAUNCH_US = 3.0
SM_BYTES_PER_CYCLE = 64
"""What one SM can take in from L2, or store."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of keys that the tiles of one head walk over: all together, and those of the longest tile."""

    total: FloatArray
    longest: FloatArray


def estimate_us(c: Columns, problem: Problem, device: DeviceFacts) -> FloatArray:
    """Microseconds of the best launch of each effective kernel, operands cold. Blind to legality."""
    scale = device.sm_count * device.clock_mhz / (REFERENCE_SMS * REFERENCE_MHZ)
    heads = problem.dims["heads_q"] * problem.dims["batch"]
    blocks = visited_blocks(c["tile_q"], c["tile_kv"], problem)
    rows = q_tiles(c, problem)
    residents = _residents(c)
    block_us = _block_cycles(c, residents) / (SUSTAINED_CLOCK * device.clock_mhz)
    tile_us = _tile_us(c, device)
    average = blocks.total / rows * block_us + tile_us
    share = heads * rows / (device.sm_count * residents)
    if problem.dims["causal"] == FULL:
        body = np.ceil(share) * average
    else:
        # Heaviest first leaves little at the end; in order, the last tiles of a head are its longest.
        tail = np.where(flash(c), 0.3 * average, 0.5 * (blocks.longest * block_us + tile_us))
        body = np.maximum(share * average + tail, blocks.longest * block_us + tile_us)
    # A resident CTA has its share of the SM: `_block_cycles` is of all of them together.
    body = body * _spilling(c)
    block_flops = 4.0 * c["tile_q"] * c["tile_kv"] * c["head_dim"]
    fetched = 2.0 * smem.stage_bytes(c) / c["cluster_m"]
    floor = heads * blocks.total * np.maximum(block_flops / FLOPS_PER_US, fetched / L2_BYTES_PER_US) / scale
    floor = np.maximum(floor, compulsory_bytes(problem) / DRAM_BYTES_PER_US)
    result: FloatArray = LAUNCH_US + np.maximum(body, floor) + 0.05 * np.minimum(body, floor)
    return result


def visited_blocks(tile_q: IntArray, tile_kv: IntArray, problem: Problem) -> Blocks:
    """Exact, tile by tile, for each pair of tile extents."""
    tile_q, of_q = np.unique(tile_q, return_inverse=True)
    tile_kv, of_kv = np.unique(tile_kv, return_inverse=True)
    queries, keys = problem.dims["seqlen_q"], problem.dims["seqlen_kv"]
    total = np.zeros((len(tile_q), len(tile_kv)))
    longest = np.zeros_like(total)
    for place, rows in enumerate(tile_q.tolist()):
        ends = np.minimum(np.arange(1, -(-queries // rows) + 1) * rows, queries)
        full = problem.dims["causal"] == FULL
        seen = np.full_like(ends, keys) if full else np.clip(ends + diagonal(problem), 0, keys)
        trips = -(-seen[:, None] // tile_kv[None, :])
        total[place], longest[place] = trips.sum(axis=0), trips.max(axis=0)
    return Blocks(total[of_q, of_kv], longest[of_q, of_kv])


def _block_cycles(c: Columns, residents: IntArray) -> FloatArray:
    """One block of keys of the CTAs that share an SM: products and softmax, one partly under the other."""
    # A 64 x N x 16 WGMMA of Q K^T reads its 2 KiB of Q and 32 N bytes of K while it computes: narrow blocks
    # are bound by those reads. P is in registers.
    computing = 64 * c["tile_kv"] * 16 * 2 / WGMMA_FLOPS_PER_CYCLE
    reading = (64 + c["tile_kv"]) * 16 * ELEMENT_BYTES / SMEM_BYTES_PER_CYCLE
    scores = np.maximum(computing, reading) * (c["tile_q"] // 64) * (c["head_dim"] // 16)
    output = 2.0 * c["tile_q"] * c["tile_kv"] * c["head_dim"] / WGMMA_FLOPS_PER_CYCLE
    tensor = residents * (scores + output)
    softmax = residents * _softmax_cycles(c)
    bare = _bare_share(c, residents)
    together = np.maximum(tensor, softmax) + bare * np.minimum(tensor, softmax) + STEP_CYCLES
    arriving = residents * 2 * smem.stage_bytes(c) / c["cluster_m"] / SM_BYTES_PER_CYCLE
    # With one buffer the next block's loads begin when this one is done with.
    fetching = np.where(flash(c) & (c["stages"] == 1), 0.5 * arriving, 0.0)
    result: FloatArray = np.maximum(together + fetching, arriving)
    return result


def _softmax_cycles(c: Columns) -> FloatArray:
    """Of a block's scores, and of rescaling O: special function units and issue slots."""
    on_fma = c["exp_fma"] / 8
    scores = c["tile_q"] * c["tile_kv"]
    special = scores * (1 - on_fma) / EXPONENTIALS_PER_CYCLE
    instructions = SCORE_INSTRUCTIONS + 1 + on_fma * (POLYNOMIAL_INSTRUCTIONS - 1)
    rescaled = c["tile_q"] * c["head_dim"] * np.where(flash(c) & (c["lazy_rescale"] == 1), 0.1, 1.0)
    issued = (scores * instructions + rescaled) / LANES_PER_CYCLE
    result: FloatArray = np.maximum(special, issued) + UNIT_SHARE * np.minimum(special, issued)
    return result


def _bare_share(c: Columns, residents: IntArray) -> FloatArray:
    """How much of the lesser of products and softmax is under nothing. The least is what FlashAttention-4
    leaves on an H200: 522, 674 and 739 TFLOP/s at head_dim 64, 128 and 256, 4096 keys, no mask."""
    others = (c["groups"] > 1) | (residents > 1)
    overlap = flash(c) & (c["overlap"] == 1)
    turns = (c["groups"] > 1) & np.where(flash(c), c["pingpong"] == 1, c["locked"] == 1)
    result: FloatArray = np.select(
        [overlap & turns, overlap & others, turns, others, overlap], [0.4, 0.5, 0.55, 0.65, 0.6], default=1.0
    )
    return result


def _tile_us(c: Columns, device: DeviceFacts) -> FloatArray:
    """What a tile costs besides its blocks: first loads, a softmax under nothing, storing O."""
    stored = c["tile_q"] * c["head_dim"] * ELEMENT_BYTES / SM_BYTES_PER_CYCLE
    ahead = np.select(
        [flash(c) & (c["q_stages"] > 1), flash(c) | (c["persistent"] == 1)], [0.2, 0.5], default=1.0
    )
    first = _softmax_cycles(c) / np.maximum(c["groups"], 1)
    result: FloatArray = ahead * (LOAD_LATENCY_US + STORE_LATENCY_US) + (stored + first) / device.clock_mhz
    return result


def _residents(c: Columns) -> IntArray:
    """CTAs that share an SM."""
    shared = smem.SM_BYTES // (smem.total_bytes(c) + smem.RESERVED_BYTES)
    result: IntArray = np.clip(np.minimum(c["blocks_per_sm"], shared), 1, None)
    return result


def _spilling(c: Columns) -> FloatArray:
    over = accumulators(c) - register_budget(c)
    result: FloatArray = np.select([over > OTHER_REGISTERS, over > 0], [3.0, 1.25], default=1.0)
    return result
