"""From knobs to an operation of the CUTLASS package: the one place that reads a GEMM kernel's knobs."""

from __future__ import annotations

from dataclasses import dataclass

from cutlass_tuner.emit.knobs import count, flag, word
from cutlass_tuner.emit.package import EmitGemmUniversal3xInstance, GemmOperation
from cutlass_tuner.emit.package import library as lib
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, KernelConfig

SCHEDULES = {
    "plain": lib.KernelScheduleType.TmaWarpSpecialized,
    "pingpong": lib.KernelScheduleType.TmaWarpSpecializedPingpong,
    "cooperative": lib.KernelScheduleType.TmaWarpSpecializedCooperative,
}
SCHEDULERS = {"persistent": lib.TileSchedulerType.Persistent, "streamk": lib.TileSchedulerType.StreamK}
ROW, COLUMN = lib.LayoutType.RowMajor, lib.LayoutType.ColumnMajor
# A and B of each layout word: "t" is row-major for A and for B alike, "n" column-major, except that
# CUTLASS's first letter speaks of A (t = row) and its second of B (n = column).
LAYOUTS = {"tn": (ROW, COLUMN), "tt": (ROW, ROW), "nn": (COLUMN, COLUMN), "nt": (COLUMN, ROW)}
ELEMENTS = {"f16": lib.DataType.f16, "bf16": lib.DataType.bf16}
TMA_BYTES = 16  # TMA moves rows that start on 16-byte boundaries


@dataclass(frozen=True)
class Knobs:
    """A kernel's knobs with their types checked. Tile and cluster are the kernel's own M, N, K."""

    layout: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int]
    schedule: str
    stages: int
    epilogue: str
    scheduler: str
    swap_ab: bool


def knobs(kernel: KernelConfig) -> Knobs:
    """The knobs of a "tma_ws" kernel in effective form. Raises UserError on one that cannot be emitted."""
    return Knobs(
        layout=word(kernel, "layout", LAYOUTS),
        tile=(count(kernel, "tile_m"), count(kernel, "tile_n"), count(kernel, "tile_k")),
        cluster=(count(kernel, "cluster_m"), count(kernel, "cluster_n")),
        schedule=word(kernel, "schedule", SCHEDULES),
        stages=count(kernel, "stages"),
        epilogue=word(kernel, "epilogue", ("tma", "nosmem")),
        scheduler=word(kernel, "scheduler", SCHEDULERS),
        swap_ab=flag(kernel, "swap_ab"),
    )


def emit_types(kernel: KernelConfig, contract: Contract, name: str) -> str:
    """The package's own text for this kernel, with `name` as the kernel struct's name."""
    operation = _operation(knobs(kernel), contract)
    operation.procedural_name = lambda: name
    text: str = EmitGemmUniversal3xInstance().emit(operation)
    lines = (line.rstrip() for line in text.strip().splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def includes() -> tuple[str, ...]:
    """The headers that the package's emitter says its text needs."""
    return tuple(EmitGemmUniversal3xInstance().includes)


def _operation(knobs: Knobs, contract: Contract) -> GemmOperation:
    a, b, d = (_element(contract.elements[operand]) for operand in "abd")
    if contract.accumulator != "f32":
        raise UserError(f"accumulator {contract.accumulator}: this family accumulates in f32 only")
    accumulator = lib.DataType.f32
    layout_a, layout_b = LAYOUTS[knobs.layout]
    layout_d = ROW
    if knobs.swap_ab:
        # D^T = B^T A^T: the operands trade places and every layout is read the other way round.
        a, b = b, a
        layout_a, layout_b = _transposed(layout_b), _transposed(layout_a)
        layout_d = COLUMN
    tile_m, tile_n, tile_k = knobs.tile
    instruction = lib.MathInstruction(
        [64, tile_n, 16], a, b, accumulator, lib.OpcodeClass.TensorOp, lib.MathOperation.multiply_add
    )
    tile = lib.TileDescription(
        [tile_m, tile_n, tile_k], knobs.stages, [4, 1, 1], instruction, 90, 90, [*knobs.cluster, 1]
    )
    return GemmOperation(
        lib.GemmKind.Universal3x,
        90,
        tile,
        lib.TensorDescription(a, layout_a, _alignment(a)),
        lib.TensorDescription(b, layout_b, _alignment(b)),
        lib.TensorDescription(lib.DataType.void, layout_d, _alignment(d)),
        element_epilogue=accumulator,
        epilogue_functor=lib.EpilogueFunctor3x.LinearCombination,
        D=lib.TensorDescription(d, layout_d, _alignment(d)),
        kernel_schedule=SCHEDULES[knobs.schedule],
        epilogue_schedule=_epilogue(knobs),
        # The plain schedule is not persistent: it takes no scheduler of its own.
        tile_scheduler=lib.TileSchedulerType.Default
        if knobs.schedule == "plain"
        else SCHEDULERS[knobs.scheduler],
    )


def _epilogue(knobs: Knobs) -> lib.EpilogueScheduleType:
    if knobs.epilogue == "nosmem":
        return lib.EpilogueScheduleType.NoSmemWarpSpecialized
    if knobs.schedule == "cooperative":
        return lib.EpilogueScheduleType.TmaWarpSpecializedCooperative
    return lib.EpilogueScheduleType.TmaWarpSpecialized


def _transposed(layout: lib.LayoutType) -> lib.LayoutType:
    return COLUMN if layout == ROW else ROW


def _alignment(element: lib.DataType) -> int:
    return int(TMA_BYTES * 8 // lib.DataTypeSize[element])


def _element(name: str) -> lib.DataType:
    if name not in ELEMENTS:
        raise UserError(f"element type {name}: this family takes {', '.join(ELEMENTS)}")
    return ELEMENTS[name]
