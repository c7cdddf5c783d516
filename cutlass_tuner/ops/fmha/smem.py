"""Shared memory of the attention kernels, byte for byte.

`flash` (emit/flash) keeps the stages of Q, of K and of V, and a full and an empty barrier of each.
`example88` follows, in CUTLASS 4.2's examples/88_hopper_fmha, the `SharedStorage` of
collective/fmha_collective_tma*.hpp (Q, and one ring that K and V take turns in) and of
kernel/fmha_kernel_tma*.hpp (epilogue and barriers), with the epilogue's tensors as
epilogue/collective/builders/sm90_builder.inl makes them. The tests hold what `SharedStorageSize` said.
"""

from __future__ import annotations

import numpy as np

from cutlass_tuner.ops.columns import Columns, IntArray
from cutlass_tuner.ops.fmha.problem import ELEMENT_BYTES

SM_BYTES, RESERVED_BYTES = 233_472, 1024
"""Shared memory of an SM, and what of it each resident CTA takes besides its own."""

_BARRIER_BYTES = 8
_ATOM_BYTES = 512
"""Alignment of example 88's storage, by the swizzle atom of its epilogue; all its barriers fit one."""


def stage_bytes(c: Columns) -> IntArray:
    """One tile of K or of V."""
    return ELEMENT_BYTES * c["head_dim"] * c["tile_kv"]


def total_bytes(c: Columns) -> IntArray:
    """What a CTA asks for. Needs effective kernel knobs."""
    flash = c.is_("template", "flash")
    result: IntArray = np.where(flash, _flash(c), _example88(c))
    return result


def _q_bytes(c: Columns) -> IntArray:
    return ELEMENT_BYTES * c["head_dim"] * c["tile_q"]


def _flash(c: Columns) -> IntArray:
    """flash::Knobs::kSmemBytes."""
    stages, q_stages = c["stages"], c["q_stages"]
    operands = q_stages * _q_bytes(c) + 2 * stages * stage_bytes(c)
    result: IntArray = operands + _BARRIER_BYTES * (4 * stages + 2 * q_stages)
    return result


def _example88(c: Columns) -> IntArray:
    q_stage = _q_bytes(c) // np.maximum(c["groups"], 1)
    mainloop = q_stage * c["q_stages"] + c["stages"] * stage_bytes(c)
    epilogue = c["groups"] * _epilogue_bytes(c)
    # A CTA that goes on to another tile loads it while it stores this one.
    tensors = np.where(c["persistent"] == 1, mainloop + epilogue, np.maximum(mainloop, epilogue))
    result: IntArray = tensors + _ATOM_BYTES
    return result


def _epilogue_bytes(c: Columns) -> IntArray:
    """TensorStorage of one warp group's TMA epilogue: 64 x 32 subtiles of O, two where there are, padded."""
    rows = c["tile_q"] // np.maximum(c["groups"], 1)
    subtiles = (rows // 64) * (c["head_dim"] // 32)
    result: IntArray = np.minimum(subtiles, 2) * 64 * 32 * ELEMENT_BYTES + _ATOM_BYTES
    return result
