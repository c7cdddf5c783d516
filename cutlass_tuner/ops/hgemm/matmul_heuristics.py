"""hgemm in nvMatmulHeuristics' terms: how it is asked for a problem, and what its answers are as knobs.

Follows `nvMatmulHeuristics.h` of version 0.1.0. The library ranks GEMM kernels by a performance model. Of
an answer we take CTA tile, cluster, and whether K is split. We leave its stage count, which fills shared
memory (up to 8) without room for an epilogue: automatic stages are the same idea and fit, and are what
CUTLASS's own use of the library builds (`cutlass_library/heuristics.py`). We leave its warp tile, which means
nothing to WGMMA kernels, and swizzle, raster order and number of splits: launches are tried on every kernel
anyway. It has no schedule and no epilogue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cutlass_tuner.records import Problem, Scalar

PRECISION = "HSH"
"""Letters for A and B, for the accumulator, and for C and D: fp16, fp32, fp16."""

LAYOUTS = {"tn": "NT_ROW_MAJOR", "tt": "NN_ROW_MAJOR"}
"""Our letters, which are CUTLASS's, to the library's. Ours say how an operand is stored (t: row-major);
the library's say which operand is transposed while it is loaded, where all are stored row-major. A is
row-major in both of ours; the B (k x n) of tn is column-major, which is the transpose of a row-major one."""


@dataclass(frozen=True)
class Query:
    """A problem as the library takes it: extents in elements, `layout` the name of its enum's member."""

    precision: str
    layout: str
    m: int
    n: int
    k: int
    batch: int


@dataclass(frozen=True)
class Advice:
    """A kernel as the library describes it. Extents in elements and CTAs; `splits` 1: K is not split."""

    tile_m: int
    tile_n: int
    tile_k: int
    cluster_m: int
    cluster_n: int
    splits: int


@dataclass(frozen=True)
class MatmulHeuristics:
    """What an op knows about the library. `knobs` gives kernel knobs of `family`; others keep defaults."""

    family: str
    query: Callable[[Problem], Query]
    knobs: Callable[[Problem, Advice], dict[str, Scalar]]


def query(problem: Problem) -> Query:
    """Raises KeyError for a layout that hgemm has no kernels for."""
    extents = {name: problem.dims[name] for name in ("m", "n", "k", "batch")}
    return Query(precision=PRECISION, layout=LAYOUTS[problem.layout], **extents)


def knobs(problem: Problem, advice: Advice) -> dict[str, Scalar]:
    """The one kernel of ours that an answer stands for; it may be illegal.

    The schedule is what CUTLASS chooses for KernelScheduleAuto (`sm90_gmma_builder.inl`): pingpong for
    tiles of 64 rows, else cooperative. Splits ask for the stream-K scheduler.
    """
    return {
        "layout": problem.layout,
        "tile_m": advice.tile_m,
        "tile_n": advice.tile_n,
        "tile_k": advice.tile_k,
        "cluster_m": advice.cluster_m,
        "cluster_n": advice.cluster_n,
        "schedule": "pingpong" if advice.tile_m == 64 else "cooperative",
        "scheduler": "streamk" if advice.splits > 1 else "persistent",
    }


HGEMM = MatmulHeuristics(family="tma_ws", query=query, knobs=knobs)
