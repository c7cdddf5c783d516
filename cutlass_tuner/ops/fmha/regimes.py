"""What limits an attention problem, in a word and in figures: how a shapes file is read."""

from __future__ import annotations

from cutlass_tuner.ops.fmha.problem import DIMS, FULL, MASKS, compulsory_bytes, flops, visible_pairs
from cutlass_tuner.ops.regime import Regime
from cutlass_tuner.records import DeviceFacts, L2Mode, Problem
from cutlass_tuner.roofline import SUSTAINED_FLOPS, roofline_us, stream_us

DECODE = 64
"""WGMMA computes 64 query rows: with no more queries, a head is one tile."""
FEW_WAVES = 4
"""Of 128-row tiles over the SMs: up to here the last, partly empty wave is a large part of the time."""
SHORT_KEYS = 1024
"""A tile walks over no more than a few blocks of so many keys: what comes before and after them counts."""
EXPONENTIAL_DIM = 64
"""4 * 64 FLOPs a score take an SM as long as one exponential: 256 / 4096 = 1 / 16 cycles."""
TILES = (64, 128, 192)
"""Query rows of CTA tiles whose waves are shown."""

MEANINGS = {
    "decode": "no more queries than a WGMMA has rows: a tile a head, streaming K and V, idle SMs where heads "
    "are few",
    "memory-bound": "moving Q, K, V and O once takes longer than the arithmetic",
    "few waves": "few query tiles: how they fill the SMs decides",
    "short": "few keys: loading Q, the first scores and storing O are a large part of each tile",
    "exponential-bound": "a small head_dim: exponentials take as long as the products, or longer",
    "compute-bound": "tensor cores and, on large ones, the power limit dominate",
}
"""Every group and what it means."""

_WAVES = "`waves N` is the number of CTA tiles of N query rows over the number of SMs."
_SHARE = "`seen` is the share of all scores that the mask lets through."
_ROOFLINE = {
    "cold": "`roofline us` is the larger of streaming Q, K, V and O once and of the two products, at "
    "measured rates: no kernel gets below.",
    "warm": "`roofline us` is the time of the two products at the measured rate, as operands may never leave "
    "the L2: no kernel gets below.",
}


def regime(problem: Problem, device: DeviceFacts, l2: L2Mode) -> Regime:
    """The group a problem belongs to, with its figures.

    Groups are drawn by the rates of an H200 and by streaming from DRAM, whatever the device and `l2`. The
    roofline is of the device and `l2`, and there is no such column where it isn't known.
    """
    name = _group(problem, device)
    bound_us = roofline_us(compulsory_bytes(problem), flops(problem), device, l2)
    legend = [_SHARE, _WAVES] if bound_us is None else [_ROOFLINE[l2], _SHARE, _WAVES]
    return Regime(name, MEANINGS[name], _figures(problem, device, bound_us), " ".join(legend))


def _group(problem: Problem, device: DeviceFacts) -> str:
    dims = problem.dims
    if dims["seqlen_q"] <= DECODE:
        return "decode"
    if flops(problem) / SUSTAINED_FLOPS * 1e6 < stream_us(compulsory_bytes(problem)):
        return "memory-bound"
    if _tiles(problem, 128) < FEW_WAVES * device.sm_count:
        return "few waves"
    if dims["seqlen_kv"] <= SHORT_KEYS:
        return "short"
    return "exponential-bound" if dims["head_dim"] <= EXPONENTIAL_DIM else "compute-bound"


def _figures(problem: Problem, device: DeviceFacts, bound_us: float | None) -> dict[str, str]:
    dims, moved, work = problem.dims, compulsory_bytes(problem), flops(problem)
    full = problem.model_copy(update={"dims": {**dims, "causal": FULL}})
    return {
        **{dim: str(dims[dim]) for dim in DIMS if dim != "causal"},
        "mask": MASKS[dims["causal"]],
        "layout": problem.layout,
        "count": str(problem.count),
        "GFLOP": f"{work / 1e9:.3g}",
        "MB": f"{moved / 1e6:.3g}",
        "seen": f"{visible_pairs(problem) / visible_pairs(full):.3g}",
        **({} if bound_us is None else {"roofline us": f"{bound_us:.3g}"}),
        **{f"waves {rows}": f"{_tiles(problem, rows) / device.sm_count:.3g}" for rows in TILES},
    }


def _tiles(problem: Problem, rows: int) -> int:
    """CTA tiles of so many query rows, of all heads and sequences, partly filled ones included."""
    dims = problem.dims
    return dims["batch"] * dims["heads_q"] * -(-dims["seqlen_q"] // rows)
