"""Which kernels to build first: the default, the textbook's, and the analytic estimate's favourites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cutlass_tuner.ops.columns import BoolArray, FloatArray
from cutlass_tuner.ops.hgemm.estimate import estimate_us
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Proposal, Scalar

if TYPE_CHECKING:
    from cutlass_tuner.space import Candidates, Space

FAMILY = "tma_ws"
TRUST = 0.95
"""What a textbook kernel's estimate is multiplied with: at equal estimates, the proven one goes first."""


def _config(tile: str, cluster: str = "1x1", **knobs: Scalar) -> dict[str, Scalar]:
    sides = dict(zip(("tile_m", "tile_n", "tile_k"), map(int, tile.split("x")), strict=True))
    extents = dict(zip(("cluster_m", "cluster_n"), map(int, cluster.split("x")), strict=True))
    return {**sides, **extents, **knobs}


TEXTBOOK: tuple[Mapping[str, Scalar], ...] = (
    # Compute-bound: the largest tiles whose accumulators do not spill, operands shared by two CTAs.
    _config("128x256x64", "2x1", schedule="cooperative"),
    _config("256x128x64", "2x1", schedule="cooperative"),
    _config("128x128x64", "2x1", schedule="pingpong"),
    _config("128x192x64", "2x1", schedule="cooperative"),
    _config("64x256x64", "1x2", schedule="pingpong"),
    # About as many tiles as SMs: smaller tiles, deeper stages.
    _config("128x64x128", "1x1", schedule="pingpong"),
    _config("64x128x128", "2x1", schedule="pingpong"),
    _config("128x128x128", "2x1", schedule="cooperative"),
    # Fewer tiles than SMs: split along K.
    _config("128x128x64", "1x1", schedule="cooperative", scheduler="streamk"),
    _config("128x256x64", "2x1", schedule="cooperative", scheduler="streamk"),
    # Small: little prologue, many CTAs, two of them an SM.
    _config("64x128x64", schedule="plain", stages="two_ctas"),
    _config("64x64x128", schedule="plain", stages="two_ctas"),
    # A skinny m on WGMMA's narrow side, deep pipelines.
    _config("128x16x128", schedule="cooperative", scheduler="streamk", swap_ab=True),
    _config("64x16x256", schedule="plain", swap_ab=True),
    _config("128x64x128", schedule="cooperative", scheduler="streamk", swap_ab=True),
    _config("64x64x128", schedule="pingpong", swap_ab=True),
)


ORDER = ("default", "textbook", "analytic")


def prior(candidates: Candidates, problems: Sequence[Problem], device: DeviceFacts) -> FloatArray:
    """Estimated microseconds of every candidate on every problem: rows x problems, all finite."""
    columns = [estimate_us(candidates.columns, problem, device) for problem in problems]
    return np.stack(columns, axis=1) if columns else np.zeros((len(candidates), 0))


def seeds(
    space: Space,
    table: Candidates,
    estimate_us: FloatArray,
    problems: Sequence[Problem],
    device: DeviceFacts,
) -> list[Proposal]:
    """Legal effective kernels worth building first, each once; the first N cover the problems well.

    `table` holds the space's candidates for the problems and `estimate_us` their `prior`. A kernel's
    place is decided greedily: the next one is that which lowers the estimated sum of count * log(time)
    most.
    """
    estimates = np.where(table.serves, estimate_us, np.inf)
    pool: dict[str, Proposal] = {}
    times: dict[str, FloatArray] = {}

    def add(kernel: KernelConfig, source: str, trust: float) -> None:
        row = rows.get(kernel.key)
        if row is not None and kernel.key not in pool:
            pool[kernel.key] = Proposal(kernel=kernel, source=source)
            times[kernel.key] = estimates[row] * trust

    favourites = _favourites(table, estimates)
    known = _known(space, problems, device)
    rows = _rows(table, [kernel for kernel, _ in known], favourites)
    for kernel, source in known:
        add(kernel, source, 1.0 if source == "default" else TRUST)
    for row in favourites:
        add(table.kernel(row), "analytic", 1.0)
    weights = np.array([problem.count for problem in problems], dtype=np.float64)
    return _ordered(list(pool.values()), np.stack([times[key] for key in pool]), weights)


def _known(space: Space, problems: Sequence[Problem], device: DeviceFacts) -> list[tuple[KernelConfig, str]]:
    """The default and the textbook kernels in every layout of the problems, where the space allows them."""
    knobs = {knob.name: knob for knob in space.kernel_knobs(FAMILY)}
    found = []
    for source, configs in (("default", ({},)), ("textbook", TEXTBOOK)):
        for layout in dict.fromkeys(problem.layout for problem in problems):
            for config in configs:
                asked = {**config, "layout": layout}
                if all(knobs[name].accepts(value) for name, value in asked.items()):
                    kernel = space.kernel(FAMILY, **asked)
                    found.append((space.effective(kernel, device), source))
    return found


def _favourites(table: Candidates, estimates: FloatArray) -> list[int]:
    """Per problem the best estimate of each schedule, no two of them with the same CTA tile.

    The estimate cannot tell neighbours apart; kernels that differ in kind teach what limits a shape.
    """
    tile = table.columns["tile_m"] * 1000 + table.columns["tile_n"]
    schedule = table.columns["schedule"]
    chosen: list[int] = []
    for position in range(estimates.shape[1]):
        usable: BoolArray = np.isfinite(estimates[:, position]) & ~table.unwise_on[:, position]
        if not usable.any():
            usable = np.isfinite(estimates[:, position])
        while usable.any():
            row = int(np.argmin(np.where(usable, estimates[:, position], np.inf)))
            chosen.append(row)
            usable &= (tile != tile[row]) & (schedule != schedule[row])
    return chosen


def _rows(table: Candidates, kernels: Sequence[KernelConfig], favourites: Sequence[int]) -> dict[str, int]:
    """Row of each kernel that is a candidate, by key."""
    found = {table.kernel(row).key: row for row in favourites}
    for kernel in kernels:
        row = table.row(kernel)
        if row is not None:
            found[kernel.key] = row
    return found


def _ordered(pool: list[Proposal], times: FloatArray, weights: FloatArray) -> list[Proposal]:
    """The defaults, the textbook's, then the estimate's favourites, each greedily by what it adds; of the
    favourites those that add nothing come last, by their own merit. Proven kernels go first because the
    estimate is off by tens of per cent."""
    # A problem nobody serves yet costs four times its slowest estimate.
    slowest = np.max(np.where(np.isfinite(times), times, 0.0), axis=0)
    best = 4.0 * np.maximum(slowest, 1.0)
    left = list(range(len(pool)))
    ordered: list[Proposal] = []
    while left:
        gains = np.log(best) - np.log(np.minimum(best, times[left]))
        merit = gains @ weights
        source = next(s for s in ORDER if any(pool[index].source == s for index in left))
        places = [place for place, index in enumerate(left) if pool[index].source == source]
        place = max(places, key=lambda p: merit[p])
        if source == ORDER[-1] and merit[place] <= 0:
            regret = np.where(np.isfinite(times[left]), np.log(times[left] / best), np.inf).min(axis=1)
            return ordered + [pool[left[place]] for place in np.argsort(regret, kind="stable")]
        index = left.pop(place)
        ordered.append(pool[index])
        best = np.minimum(best, times[index])
    return ordered
