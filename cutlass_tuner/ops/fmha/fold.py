"""Folding configs to their effective form, so that equal kernels and equal launches compare equal.

Kernel knobs that the template, the schedule or the number of warp groups leaves without effect take one
value. Launch knobs become what the kernel does with them on a problem: see emit/flash (Walk::at) and, in
CUTLASS 4.2, examples/88_hopper_fmha/kernel/fmha_tile_scheduler.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cutlass_tuner.ops.columns import BoolArray, Columns, IntArray, ceil_div
from cutlass_tuner.records import DeviceFacts, Problem, Scalar

NEEDS: Mapping[str, tuple[str, Scalar]] = {
    "overlap": ("template", "flash"),
    "pingpong": ("template", "flash"),
    "lazy_rescale": ("template", "flash"),
    "exp_fma": ("template", "flash"),
    "schedule": ("template", "example88"),
    "separate_q": ("schedule", "cooperative"),
    "locked": ("schedule", "cooperative"),
    "persistent": ("schedule", "cooperative"),
    "cluster_m": ("schedule", "tma"),
}
"""Knobs that do something only where another one has this value (and does something itself)."""

INERT: Mapping[str, Scalar] = {
    "overlap": True,
    "pingpong": True,
    "lazy_rescale": True,
    "exp_fma": 0,
    "schedule": "cooperative",
    "separate_q": False,
    "locked": False,
    "persistent": False,
    "cluster_m": 1,
}
"""What such a knob is where it does nothing."""


def resolve_kernel(c: Columns, device: DeviceFacts) -> Columns:
    """Kernel knobs with those that do nothing at their `INERT` value, and as many buffers for Q as there are.

    A warp group alone has nobody to take turns with. Of Q, flash has no use for more than two tiles, a
    cooperative kernel needs one a warp group, and tma loads one. A cooperative kernel is alone on its SM.
    """
    acts = _acting(c)
    folded = {
        name: np.where(acts[name], c[name], c.alphabets[name].encode(inert)) for name, inert in INERT.items()
    }
    alone = c.is_("template", "flash") & (c["groups"] <= 1)
    folded["pingpong"] = np.where(alone, 0, folded["pingpong"])
    few = np.where(
        c.is_("template", "flash"), np.minimum(c["q_stages"], 2), np.maximum(c["q_stages"], c["groups"])
    )
    folded["q_stages"] = np.where(acts["cluster_m"], 1, few)
    folded["blocks_per_sm"] = np.where(acts["separate_q"], 1, c["blocks_per_sm"])
    return c.having(**folded)


def _acting(c: Columns) -> dict[str, BoolArray]:
    acting: dict[str, BoolArray] = {}
    for name, (other, value) in NEEDS.items():
        acting[name] = (c[other] == c.alphabets[other].encode(value)) & acting.get(other, np.True_)
    return acting


def q_tiles(c: Columns, problem: Problem) -> IntArray:
    """CTA tiles along the queries of one head, not yet rounded up to clusters."""
    return ceil_div(problem.dims["seqlen_q"], c["tile_q"])


def fold_launch(c: Columns, problem: Problem, device: DeviceFacts) -> Columns:
    """Launch knobs as the kernel will act on them. `c` holds effective kernel knobs and launch knobs.

    Example 88 has no launch knobs: it is persistent or not, and walks a head's tiles first to last. Of flash,
    heaviest first is the same walk as first to last where all tiles have the same keys or a head has one; any
    section is the same where a head has one; and no more tiles than SMs are a CTA each, persistent or not.
    """
    flash = c.is_("template", "flash")
    heads = problem.dims["heads_q"] * problem.dims["batch"]
    rows = q_tiles(c, problem)
    tiles, sms = c.word("grid", "tiles"), c.word("grid", "sms")
    theirs = np.where(c["persistent"] == 1, sms, tiles)
    ours = np.where(rows * heads <= device.sm_count, tiles, c["grid"])
    uneven = flash & c.is_("mask", "causal") & (rows > 1)
    section = np.where(flash & (rows > 1), np.minimum(c["section"], heads), 1)
    folded = {
        "grid": np.where(flash, ours, theirs),
        "order": np.where(uneven, c["order"], c.word("order", "rows")),
        "section": section,
    }
    return c.having(
        **{name: np.broadcast_to(array, (len(c),)).astype(np.int64) for name, array in folded.items()}
    )
