"""A first guess of a Blackwell attention kernel's time, to rank kernels by; never reported as one.

The rates are a B200's nominal ones and the shares are guesses: nothing here was measured.
"""

from __future__ import annotations

import numpy as np

from cutlass_tuner.ops.columns import Columns, FloatArray
from cutlass_tuner.ops.fmha.estimate import visited_blocks
from cutlass_tuner.ops.fmha.problem import FULL, compulsory_bytes
from cutlass_tuner.ops.fmha.sm100 import TILE_Q, persistent, q_tiles, stage_bytes
from cutlass_tuner.records import DeviceFacts, Problem

MMA_FLOPS_PER_CYCLE = 8192
"""Dense fp16, one SM."""
EXPONENTIALS_PER_CYCLE = 16
"""ex2 on the special function units of an SM."""
BARE_SHARE = 0.25
"""How much of the lesser of products and exponentials is under nothing: two halves of a tile take turns."""
STEP_CYCLES = 150
"""Of each block of keys: barriers, and O rescaled between two products."""
LOAD_US, PERSISTENT_LOAD_US = 1.5, 0.6
"""Of a tile, before its first scores and after its last; a persistent CTA has some of it under another."""
LAUNCH_US = 3.0
DRAM_BYTES_PER_US, L2_BYTES_PER_US = 7e6, 15e6


def estimate_us(c: Columns, problem: Problem, device: DeviceFacts) -> FloatArray:
    """Microseconds of the best launch of each kernel, operands cold. Blind to legality."""
    blocks = visited_blocks(np.full(len(c), TILE_Q), c["tile_kv"], problem)
    heads, rows = problem.dims["heads_q"] * problem.dims["batch"], q_tiles(problem)
    block_us = _block_cycles(c) / device.clock_mhz
    tile_us = np.where(persistent(c), PERSISTENT_LOAD_US, LOAD_US)
    average = blocks.total / rows * block_us + tile_us
    longest = blocks.longest * block_us + tile_us
    share = heads * rows / device.sm_count
    if problem.dims["causal"] == FULL:
        body = np.ceil(share) * average
    else:
        # Heaviest first leaves little at the end; otherwise the last tiles of a head are its longest.
        tail = np.where(c.is_("scheduler", "causal_individual"), 0.3 * average, 0.5 * longest)
        body = np.maximum(share * average + tail, longest)
    floor = heads * blocks.total * 2 * stage_bytes(c) / L2_BYTES_PER_US
    floor = np.maximum(floor, compulsory_bytes(problem) / DRAM_BYTES_PER_US)
    result: FloatArray = LAUNCH_US + np.maximum(body, floor)
    return result


def _block_cycles(c: Columns) -> FloatArray:
    """One block of keys of one CTA, which has its SM to itself: tensor memory is all its own."""
    products = 4.0 * TILE_Q * c["tile_kv"] * c["head_dim"] / MMA_FLOPS_PER_CYCLE
    special = TILE_Q * c["tile_kv"] / EXPONENTIALS_PER_CYCLE
    result: FloatArray = (
        np.maximum(products, special) + BARE_SHARE * np.minimum(products, special) + STEP_CYCLES
    )
    return result
