"""What limits an hgemm problem, in a word and in figures: how a person, or a model, reads a shapes file."""

from __future__ import annotations

from cutlass_tuner.ops.hgemm.problem import DIMS, compulsory_bytes, flops
from cutlass_tuner.ops.regime import Regime
from cutlass_tuner.records import DeviceFacts, L2Mode, Problem
from cutlass_tuner.roofline import SUSTAINED_FLOPS, roofline_us, stream_us

SKINNY = 64
"""WGMMA computes 64 rows: with fewer rows, or columns, of D one side of it runs partly empty."""
DEEP_K, LONG_K = 16, 1024
"""K as many times the larger side of D, and so many elements, 16 steps of a mainloop: few tiles for the SMs,
and much to add up in each."""
TINY_US = 4.0
"""A problem that streams, and computes, in less is mostly launch, prologue and epilogue."""
FEW_WAVES = 4
"""Of 128x128 tiles over the SMs: up to here the last, partly empty wave is a large part of the time."""
TILES = ((64, 64), (128, 64), (128, 128), (128, 256), (256, 128))
"""CTA tiles whose waves are shown."""

MEANINGS = {
    "deep K": "few tiles of D, a long K loop: SMs idle unless K is split among CTAs",
    "tiny": "launch, prologue, epilogue and latency dominate",
    "skinny": "one side of D is no wider than one WGMMA; streaming the other operand dominates",
    "memory-bound": "moving A, B and D once takes longer than the arithmetic",
    "few waves": "arithmetic dominates, but few tiles: how they fill the SMs decides",
    "compute-bound": "tensor cores and, on large ones, the power limit dominate",
}
"""Every group and what it means."""

_WAVES = "`waves MxN` is the number of CTA tiles of that size over the number of SMs."
_ROOFLINE = {
    "cold": "`roofline us` is the larger of streaming A, B and D once and of the arithmetic, at measured "
    "rates: no kernel gets below.",
    "warm": "`roofline us` is the time of the arithmetic at the measured rate, as operands may never leave "
    "the L2: no kernel gets below.",
}


def regime(problem: Problem, device: DeviceFacts, l2: L2Mode) -> Regime:
    """The group a problem belongs to, with its figures.

    Groups are drawn by the rates of an H200 and by streaming from DRAM, whatever the device and `l2`: they
    sort problems, and the L2 is only some two times faster. The roofline is of the device and `l2`, and
    there is no such column where it isn't known.
    """
    name = _group(problem, device)
    bound_us = roofline_us(compulsory_bytes(problem), flops(problem), device, l2)
    legend = _WAVES if bound_us is None else f"{_ROOFLINE[l2]} {_WAVES}"
    return Regime(name, MEANINGS[name], _figures(problem, device, bound_us), legend)


def _group(problem: Problem, device: DeviceFacts) -> str:
    m, n, k, _ = (problem.dims[dim] for dim in DIMS)
    moving_us, computing_us = stream_us(compulsory_bytes(problem)), flops(problem) / SUSTAINED_FLOPS * 1e6
    tiles = _tiles(problem, 128, 128)
    if k >= max(LONG_K, DEEP_K * max(m, n)) and tiles < device.sm_count:
        return "deep K"
    if max(moving_us, computing_us) <= TINY_US:
        return "tiny"
    if min(m, n) <= SKINNY:
        return "skinny"
    if computing_us < moving_us:
        return "memory-bound"
    return "few waves" if tiles < FEW_WAVES * device.sm_count else "compute-bound"


def _figures(problem: Problem, device: DeviceFacts, bound_us: float | None) -> dict[str, str]:
    moved, work = compulsory_bytes(problem), flops(problem)
    return {
        **{dim: str(problem.dims[dim]) for dim in DIMS},
        "layout": problem.layout,
        "count": str(problem.count),
        "GFLOP": f"{work / 1e9:.3g}",
        "MB": f"{moved / 1e6:.3g}",
        "FLOP/B": f"{work / moved:.0f}",
        **({} if bound_us is None else {"roofline us": f"{bound_us:.3g}"}),
        **{f"waves {m}x{n}": f"{_tiles(problem, m, n) / device.sm_count:.3g}" for m, n in TILES},
    }


def _tiles(problem: Problem, tile_m: int, tile_n: int) -> int:
    """Tiles of D, of every batch entry, partly filled ones included."""
    m, n, _, batch = (problem.dims[dim] for dim in DIMS)
    return batch * -(-m // tile_m) * -(-n // tile_n)
