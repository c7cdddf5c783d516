"""Which kernels to build first: the default, the textbook's, and the analytic estimate's favourites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cutlass_tuner.ops import seeding
from cutlass_tuner.ops.columns import FloatArray
from cutlass_tuner.ops.hgemm.estimate import estimate_us
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Proposal, Scalar

if TYPE_CHECKING:
    from cutlass_tuner.space import Candidates, Space

FAMILY = "tma_ws"


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
    """As `seeding.proposals`: of an estimate's favourites, no two have the same CTA tile or schedule."""
    c = table.columns
    known = _known(space, problems, device)
    unlike = (c["tile_m"] * 1000 + c["tile_n"], c["schedule"])
    return seeding.proposals(table, estimate_us, known, unlike, problems)


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
