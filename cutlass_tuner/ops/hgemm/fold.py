"""Folding configs to their effective form, so that equal kernels and equal launches compare equal.

Kernel knobs: `stages` becomes the number CUTLASS will use. Launch knobs: whatever the kernel's
scheduler ignores, clamps or decides by itself on this problem becomes what it will really do.
Follows CUTLASS 4.2's `gemm/kernel/tile_scheduler_params.h`; raster is in the kernel's own M and N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutlass_tuner.ops.columns import BoolArray, Columns, IntArray, ceil_div, round_up
from cutlass_tuner.ops.hgemm import smem
from cutlass_tuner.ops.hgemm.rules import cta_grid
from cutlass_tuner.records import DeviceFacts, Problem

MIN_K_TILES_PER_UNIT = 8
"""min_iters_per_sk_unit_: with no more K tiles than this, stream-K has nothing to share out."""


def resolve_kernel(c: Columns, device: DeviceFacts) -> Columns:
    """`stages` as numbers: "auto" by CUTLASS's formula, "two_ctas" the most that let two CTAs share an SM.

    A tile too large for even one stage gets 0, which the rule two_stages names.
    """
    stages = c["stages"]
    words = c.alphabets["stages"].words
    if not (stages < 0).any():
        return c
    parts = smem.layout(c)
    if "auto" in words:
        stages = np.where(c.is_("stages", "auto"), smem.automatic_stages(parts), stages)
    if "two_ctas" in words:
        pairs = c.is_("stages", "two_ctas")
        stages = np.where(pairs, smem.most_stages(parts, smem.TWO_CTA_BYTES), stages)
    return c.having(stages=stages)


def fold_launch(c: Columns, problem: Problem, device: DeviceFacts) -> Columns:
    """Launch knobs as the kernel will act on them. `c` holds effective kernel knobs and launch knobs."""
    plain = c.is_("schedule", "plain")
    splittable = c.is_("scheduler", "streamk")
    grid = _grid(c, problem)
    decomposition, splits = _decomposition(c, grid, problem, device)
    raster = _raster(c, grid, decomposition)

    def unless(inert: BoolArray, knob: str, values: IntArray, constant: int) -> IntArray:
        return np.broadcast_to(np.where(inert, constant, values), (len(c),)).astype(np.int64)

    # Two splits add one partial sum to another: there is no order to be indifferent about.
    unsplit = (decomposition == c.word("decomposition", "data_parallel")) | (
        (decomposition == c.word("decomposition", "split_k")) & (splits <= 2)
    )
    return c.having(
        swizzle=unless(plain, "swizzle", grid.swizzle, 1),
        raster=unless(plain, "raster", raster, c.word("raster", "heuristic")),
        splits=unless(~splittable, "splits", splits, 1),
        decomposition=unless(
            ~splittable, "decomposition", decomposition, c.word("decomposition", "heuristic")
        ),
        reduction=unless(
            ~splittable | unsplit, "reduction", c["reduction"], c.word("reduction", "deterministic")
        ),
    )


@dataclass(frozen=True)
class _Grid:
    """CTA tiles as the scheduler counts them. `swizzle` is the effective one."""

    swizzle: IntArray
    m: IntArray
    """Along M, rounded up to whole clusters times swizzle; n likewise."""
    n: IntArray
    clusters_m: IntArray
    """Whole clusters along M before the swizzle's rounding; clusters_n likewise."""
    clusters_n: IntArray


def _grid(c: Columns, problem: Problem) -> _Grid:
    ctas_m, ctas_n = cta_grid(c, problem)
    m, n = round_up(ctas_m, c["cluster_m"]), round_up(ctas_n, c["cluster_n"])
    swizzle = _effective_swizzle(c["swizzle"], np.minimum(m, n))
    return _Grid(
        swizzle=swizzle,
        m=round_up(m, swizzle * c["cluster_m"]),
        n=round_up(n, swizzle * c["cluster_n"]),
        clusters_m=m // c["cluster_m"],
        clusters_n=n // c["cluster_n"],
    )


def _effective_swizzle(asked: IntArray, shorter_side: IntArray) -> IntArray:
    """get_log_swizzle_size: 8, 4 and 2 need 6, 3 and 2 CTAs along the grid's shorter side."""
    conditions = [(asked >= s) & (shorter_side >= least) for s, least in ((8, 6), (4, 3), (2, 2))]
    return np.select(conditions, [8, 4, 2], default=1)


def _raster(c: Columns, grid: _Grid, decomposition: IntArray) -> IntArray:
    """The order the tiles are really visited in; get_rasterization_order decides for "heuristic"."""
    along_m, along_n = c.word("raster", "along_m"), c.word("raster", "along_n")
    chosen = np.where(grid.n > grid.m, along_m, along_n)
    # One cluster wide, both orders are the same walk. Stream-K still forms its groups along the raster.
    line = (grid.clusters_m == 1) | (grid.clusters_n == 1)
    grouped = c.is_("scheduler", "streamk") & ~np.isin(
        decomposition, [c.word("decomposition", "data_parallel"), c.word("decomposition", "split_k")]
    )
    free = c.is_("raster", "heuristic") | (line & ~grouped)
    result: IntArray = np.where(free, chosen, c["raster"])
    return result


def _decomposition(
    c: Columns, grid: _Grid, problem: Problem, device: DeviceFacts
) -> tuple[IntArray, IntArray]:
    """(decomposition, splits) of the stream-K scheduler: select_decomposition_mode, as far as it is certain.

    How many CTAs a wave holds is known here only for clusters of one CTA, so for others "heuristic"
    stays wherever its answer depends on that.
    """
    heuristic, data_parallel, split_k, stream_k = (
        c.word("decomposition", word) for word in ("heuristic", "data_parallel", "split_k", "stream_k")
    )
    asked = c["decomposition"]
    k_tiles = ceil_div(problem.dims["k"], c["tile_k"])
    splits = np.minimum(np.minimum(c["splits"], device.sm_count), k_tiles)
    split = ((asked == split_k) | (asked == heuristic)) & (splits > 1)
    # CUTLASS looks at the splits asked for: heuristic with 4 splits over 1 K tile is split-K by 1.
    whole = ((asked == split_k) | ((asked == heuristic) & (c["splits"] > 1))) & (splits <= 1)

    wave = device.sm_count
    tiles = grid.m * grid.n * problem.dims["batch"]
    single = c["cluster_m"] * c["cluster_n"] == 1
    even = (k_tiles <= MIN_K_TILES_PER_UNIT) | (single & (tiles % wave == 0))
    full_tail = single & (2 * (tiles % wave) >= wave)
    unsplit = whole | (asked == data_parallel) | even | ((asked == heuristic) & full_tail)

    shared_tiles = tiles - np.maximum(tiles // wave - 1, 0) * wave
    units = np.minimum(wave, k_tiles * shared_tiles // MIN_K_TILES_PER_UNIT)
    divisible = (shared_tiles < units) & (units % shared_tiles == 0)
    known = single & (asked == heuristic)
    by_k = split | (known & ~unsplit & divisible)
    mode = np.select(
        [split, unsplit, known & divisible, known],
        [split_k, data_parallel, split_k, stream_k],
        default=asked,
    )
    return mode, np.where(split, splits, np.where(by_k, units // shared_tiles, 1))
