"""Shared memory of the SM90 TMA warp-specialised GEMM kernels, byte for byte.

fp16 operands, void C (beta = 0), automatic epilogue tile. Follows, in CUTLASS 4.2,
`gemm/collective/builders/sm90_gmma_builder.inl` (stages), `epilogue/collective/builders/sm90_builder.inl`
(epilogue tile and stages), `epilogue/collective/sm90_epilogue_tma_warpspecialized.hpp` (D buffers) and the
`SharedStorage` of the three `gemm/kernel/sm90_gemm_tma_warpspecialized*.hpp`. The tests hold what
`SharedStorageSize` said for real instantiations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutlass_tuner.ops.columns import Columns, IntArray, round_up
from cutlass_tuner.ops.hgemm.problem import ELEMENT_BYTES

CAPACITY_BYTES = 232_448
"""sm90_smem_capacity_bytes: 227 KiB a block, what automatic stage counts are computed from."""

TWO_CTA_BYTES = 233_472 // 2 - 1024
"""The most a block may use for two of them to fit an SM: 228 KiB an SM, 1 KiB of each block reserved."""

_BARRIER_BYTES = 16
"""One pipeline stage's full and empty barrier."""


@dataclass(frozen=True)
class Layout:
    """The parts that do not depend on the stage count, one entry a row."""

    stage: IntArray
    """One mainloop stage: the A tile and the B tile."""
    epilogue: IntArray
    """The epilogue's tensors, padded."""
    carveout: IntArray
    """sizeof(CollectiveEpilogue::SharedStorage), what automatic stage counts set aside."""
    alignment: IntArray
    """Of the tensors: the epilogue's swizzle atom wants up to 1024."""
    barriers: IntArray
    """All barriers but the mainloop's."""
    overlapped: IntArray
    """1 where mainloop and epilogue share memory in a union: the plain schedule is not persistent."""


def layout(columns: Columns) -> Layout:
    """Needs tile_m, tile_n, tile_k, schedule, epilogue and swap_ab."""
    tile_m, tile_n = columns["tile_m"], columns["tile_n"]
    cooperative = columns.is_("schedule", "cooperative")
    plain = columns.is_("schedule", "plain")
    tma = columns.is_("epilogue", "tma")

    epilogue_m = np.minimum(np.where(cooperative, 128, 64), tile_m)
    epilogue_n = np.gcd(np.minimum(32, tile_n), tile_n)
    subtiles = (tile_m // epilogue_m) * (tile_n // epilogue_n)
    # Rows of 8, 16 and 32 halves use the 128, 256 and 512 byte swizzle atoms; a column-major D (what
    # swap_ab makes of a row-major one) is 64 or 128 halves contiguous and takes the 1024 byte atom.
    atom = np.where(columns["swap_ab"] == 1, 1024, 16 * epilogue_n)
    d_bytes = np.minimum(subtiles, 2) * epilogue_m * epilogue_n * ELEMENT_BYTES
    # Empty structs count: the fusion callbacks' storage pads the tensors by one alignment, the pipeline's
    # by another, and the no-smem epilogue still holds one empty barrier slot.
    slots = np.where(tma, np.maximum(np.minimum(subtiles, 4), 1), 1)
    schedule = np.where(plain, 0, np.where(cooperative, 32, 64))
    return Layout(
        stage=round_up((tile_m + tile_n) * columns["tile_k"] * ELEMENT_BYTES, 128),
        epilogue=np.where(tma, d_bytes + atom, 1),
        carveout=np.where(tma, d_bytes + 2 * atom, 1),
        alignment=np.where(tma, np.maximum(128, atom), 128),
        barriers=_BARRIER_BYTES * slots + schedule,
        overlapped=plain.astype(np.int64),
    )


def automatic_stages(parts: Layout) -> IntArray:
    """StageCountAutoCarveout: as many stages as fit beside the epilogue."""
    result: IntArray = (CAPACITY_BYTES - round_up(parts.carveout, 128)) // (parts.stage + _BARRIER_BYTES)
    return result


def total_bytes(parts: Layout, stages: IntArray | int) -> IntArray:
    """sizeof(SharedStorage) with that many mainloop stages."""
    mainloop = stages * parts.stage
    shared = np.maximum(mainloop, round_up(parts.epilogue, parts.alignment))
    apart = mainloop + round_up(parts.epilogue, 128)
    tensors = round_up(np.where(parts.overlapped == 1, shared, apart), parts.alignment)
    return tensors + round_up(_BARRIER_BYTES * stages + parts.barriers, parts.alignment)


def most_stages(parts: Layout, budget_bytes: int) -> IntArray:
    """The most stages whose total is within the budget; 0 where not even one is."""
    # The mainloop alone bounds the count from above; padding and barriers take a stage or two off.
    stages: IntArray = budget_bytes // parts.stage
    while True:
        over = (stages > 0) & (total_bytes(parts, stages) > budget_bytes)
        if not over.any():
            return stages
        stages = stages - over
