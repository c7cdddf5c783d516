"""An analytic guess of a kernel's best time on a problem: wave quantisation, tensor cores, memory, latency.

Good for ranking first guesses and as a prior; never reported as a time. The rates are those of an
H200 (dense fp16 at its power limit, device copies, L2 reads), scaled by SM count and clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutlass_tuner.ops.columns import Columns, FloatArray, IntArray, ceil_div, round_up
from cutlass_tuner.ops.hgemm import smem
from cutlass_tuner.ops.hgemm.problem import ELEMENT_BYTES, compulsory_bytes
from cutlass_tuner.ops.hgemm.rules import CLEAN_ACCUMULATORS, accumulators, cta_grid
from cutlass_tuner.records import DeviceFacts, Problem

REFERENCE_SMS, REFERENCE_MHZ = 132, 1980
FLOPS_PER_US = 790e6
"""cuBLAS at 8192 cubed on random data: what the power limit allows."""
DRAM_BYTES_PER_US = 4.3e6
L2_BYTES_PER_US = 9e6
"""What all SMs together get from L2, neighbours' requests for the same lines partly merged."""
SM_BYTES_PER_CYCLE = 64
"""What one SM can take in from L2."""
SMEM_BYTES_PER_CYCLE = 128
WGMMA_FLOPS_PER_CYCLE = 4096
"""Dense fp16, one SM."""
LOAD_LATENCY_US = 0.7
"""From issuing a TMA load to its data in shared memory, DRAM miss included."""
REFILL_US = 1.0
"""The same while the memory system is busy: what a pipeline's stages must cover."""
LAUNCH_US = 1.1
"""Launch, descriptor fetch and barrier set-up: what a kernel of this family takes without work."""
STORE_LATENCY_US = 0.5
STEP_CYCLES = 40
"""Waiting for a stage's barrier, draining WGMMA and releasing the stage: why shallow K tiles lose."""
ZEROING_US = 2.0
"""The memset node in front of a launch that splits tiles."""
SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
OVERLAP = 0.05
STREAMK_US = 0.3
"""The stream-K scheduler's index arithmetic, split or not."""
CLUSTER_US, CLUSTER_SHARE = 0.1, 0.01
"""What doubling the cluster costs at launch, and of the time, in CTAs waiting for each other."""


@dataclass(frozen=True)
class _Tile:
    """Times of one CTA tile, microseconds; `residents` CTAs share an SM."""

    k_tiles: IntArray
    stages: IntArray
    step: FloatArray
    """One K tile when operands arrive in time: tensor core or operand traffic, whichever is slower."""
    epilogue: FloatArray
    residents: IntArray


def estimate_us(c: Columns, problem: Problem, device: DeviceFacts) -> FloatArray:
    """Microseconds of the best launch of each effective kernel, operands cold. Blind to legality."""
    tile = _tile(c, problem, device)
    grid_m, grid_n = cta_grid(c, problem)
    grid_m, grid_n = round_up(grid_m, c["cluster_m"]), round_up(grid_n, c["cluster_n"])
    tiles = grid_m * grid_n * problem.dims["batch"]
    sms = _usable_sms(c, device)
    body = _body(c, tile, tiles, tile.k_tiles, sms)
    streamk = np.flatnonzero(c.is_("scheduler", "streamk"))
    if len(streamk):
        some = [np.broadcast_to(part, len(c))[streamk] for part in (*vars(tile).values(), tiles, sms)]
        split = _split_body(c.take(streamk), _Tile(*some[:-2]), some[-2], some[-1], device)
        body[streamk] = STREAMK_US + np.minimum(body[streamk], split)
    registers = accumulators(c)
    spill = np.select([registers > 255, registers > CLEAN_ACCUMULATORS], [3.0, 1.2], default=1.0)
    clustered = np.log2(c["cluster_m"] * c["cluster_n"])
    floor = _floor(c, problem, tiles, tile.k_tiles, device)
    body = body * spill * (1 + CLUSTER_SHARE * clustered)
    # The two overlap, but not perfectly: the lesser one counts a little, which also orders kernels
    # that all reach the same floor.
    overlapped = np.maximum(body, floor) + OVERLAP * np.minimum(body, floor)
    result: FloatArray = LAUNCH_US + CLUSTER_US * clustered + overlapped
    return result


def _tile(c: Columns, problem: Problem, device: DeviceFacts) -> _Tile:
    tile_m, tile_n, tile_k = c["tile_m"], c["tile_n"], c["tile_k"]
    k_tiles = ceil_div(problem.dims["k"], tile_k)
    # A 64 x N x 16 WGMMA reads its 2 KiB of A and 32 N bytes of B from shared memory while it computes:
    # narrow tiles are bound by those reads.
    computing = 64 * tile_n * 16 * 2 / WGMMA_FLOPS_PER_CYCLE
    reading = (64 + tile_n) * 16 * ELEMENT_BYTES / SMEM_BYTES_PER_CYCLE
    wgmma = np.maximum(computing, reading) * (tile_m // 64) * (tile_k // 16)
    arriving = (tile_m + tile_n) * tile_k * ELEMENT_BYTES / SM_BYTES_PER_CYCLE
    step = (np.maximum(wgmma, arriving) + STEP_CYCLES) / device.clock_mhz
    stored = tile_m * tile_n * ELEMENT_BYTES * np.where(c.is_("epilogue", "tma"), 1.0, 1.5)
    return _Tile(
        k_tiles=k_tiles,
        stages=np.maximum(1, c["stages"]),
        step=step,
        epilogue=STORE_LATENCY_US + stored / (32 * device.clock_mhz),
        residents=_residents(c),
    )


def _residents(c: Columns) -> IntArray:
    """CTAs that fit an SM. Two math warp groups take all registers; the plain schedule may leave some."""
    shared = 2 * (smem.TWO_CTA_BYTES + 1024) // (smem.total_bytes(smem.layout(c), c["stages"]) + 1024)
    registers = np.minimum(255, round_up(accumulators(c) + 56, 8))
    plain = np.clip(np.minimum(shared, 65_536 // (256 * registers)), 1, 4)
    return np.where(c.is_("schedule", "plain"), plain, 1)


def _usable_sms(c: Columns, device: DeviceFacts) -> IntArray:
    """SMs that whole clusters can cover: GPCs of 16 or 18 SMs leave a few over."""
    size = c["cluster_m"] * c["cluster_n"]
    share = np.select([size >= 8, size >= 4], [0.91, 0.97], default=1.0)
    covered: IntArray = np.maximum(size, (device.sm_count * share).astype(np.int64) // size * size)
    return covered


def _mainloop(tile: _Tile, k_tiles: IntArray) -> FloatArray:
    """One tile's K loop after its first loads arrived.

    A stage is released one step after its own (the mainloop keeps one WGMMA batch in flight), then
    refilled within REFILL_US, and is needed again `stages` steps after its last use.
    """
    refilled = np.maximum(0, k_tiles - tile.stages)
    waiting = (k_tiles - refilled) * tile.step + refilled * (REFILL_US + 2 * tile.step) / tile.stages
    result: FloatArray = np.maximum(k_tiles * tile.step, waiting)
    return result


def _body(c: Columns, tile: _Tile, tiles: IntArray, k_tiles: IntArray, sms: IntArray) -> FloatArray:
    """From the first load to the last store, for `tiles` work items of `k_tiles` each."""
    busiest = ceil_div(tiles, sms)
    loop = _mainloop(tile, k_tiles)
    one = LOAD_LATENCY_US + loop + tile.epilogue
    plain = np.maximum(
        busiest * k_tiles * tile.step + LOAD_LATENCY_US, ceil_div(busiest, tile.residents) * one
    )
    # Persistent: the next tile's loads start early. Pingpong hides the epilogue behind the other
    # group's math, cooperative does not.
    pingpong = LOAD_LATENCY_US + busiest * loop + tile.epilogue
    cooperative = LOAD_LATENCY_US + busiest * (loop + tile.epilogue)
    return np.select(
        [c.is_("schedule", "plain"), c.is_("schedule", "pingpong")], [plain, pingpong], default=cooperative
    ).astype(np.float64)


def _split_body(c: Columns, tile: _Tile, tiles: IntArray, sms: IntArray, device: DeviceFacts) -> FloatArray:
    """The best of stream-K and of split-K by the usual counts, zeroing of the workspace included."""
    # A peer adds its fp32 tile to the workspace after the peer before it: a chain of writes and reads.
    link = STORE_LATENCY_US + c["tile_m"] * c["tile_n"] * 4 * 2 / (SM_BYTES_PER_CYCLE * device.clock_mhz)
    peers = np.clip(sms / tiles, 1, np.maximum(1, tile.k_tiles // 8)) + 1
    share = np.maximum(1, tiles * tile.k_tiles // np.minimum(sms, tiles * peers).astype(np.int64))
    best = LOAD_LATENCY_US + _mainloop(tile, share) + (peers - 1) * link + tile.epilogue
    for splits in SPLITS:
        body = _body(c, tile, tiles * splits, ceil_div(tile.k_tiles, splits), sms)
        best = np.minimum(best, np.where(tile.k_tiles >= splits, body + (splits - 1) * link, np.inf))
    return ZEROING_US + best


def _floor(
    c: Columns, problem: Problem, tiles: IntArray, k_tiles: IntArray, device: DeviceFacts
) -> FloatArray:
    """What the whole GPU needs, however the work is laid out: power, L2 reads, DRAM."""
    scale = device.sm_count * device.clock_mhz / (REFERENCE_SMS * REFERENCE_MHZ)
    deep = tiles * k_tiles * c["tile_k"]
    math = 2.0 * deep * c["tile_m"] * c["tile_n"] / (FLOPS_PER_US * scale)
    # Multicast: a cluster fetches each operand tile once.
    fetched = deep * ELEMENT_BYTES * (c["tile_m"] / c["cluster_n"] + c["tile_n"] / c["cluster_m"])
    dram = compulsory_bytes(problem) / DRAM_BYTES_PER_US
    result: FloatArray = np.maximum(np.maximum(math, fetched / (L2_BYTES_PER_US * scale)), dram)
    return result
