"""The text of an export's self-benchmark: right against fp64, as fast as recorded, cuBLAS beside it."""

from __future__ import annotations

from cutlass_tuner.errors import UserError
from cutlass_tuner.export import commands
from cutlass_tuner.export.template import comment, fill, read
from cutlass_tuner.export.unit import Unit
from cutlass_tuner.records import Tolerance

_ELEMENTS = {
    "f16": ("__half", "CUDA_R_16F"),
    "bf16": ("__nv_bfloat16", "CUDA_R_16BF"),
    "f32": ("float", "CUDA_R_32F"),
}
"""CUTLASS's type letters: the CUDA type and cuBLAS's name of it."""


def bench(unit: Unit, tolerance: Tolerance) -> str:
    """The benchmark of `unit`, judging by the tolerance the study judged by."""
    label = unit.provenance.label
    types = {operand: element(unit.contract.elements[operand]) for operand in "abd"}
    return fill(
        "bench.cu.in",
        {
            "NAME": unit.name,
            "NAMESPACE": unit.namespace,
            "BENCH_LINE": commands.bench_line(unit.flags, unit.name, cublas=False),
            "BENCH_CUBLAS_LINE": commands.bench_line(unit.flags, unit.name, cublas=True),
            "LABEL": f"{comment(label)}\n" if label else "",
            "RANDOM": read("bench_random.h"),
            "REPLAY": read("bench_replay.h"),
            "COLD_L2": "true" if unit.provenance.l2 == "cold" else "false",
            "OUTPUT_ROUNDOFF": repr(tolerance.output_roundoff),
            "TINY": repr(tolerance.tiny),
            "SPREAD": repr(tolerance.spread),
            "ACCUMULATOR_ROUNDOFF": repr(tolerance.accumulator_roundoff),
            **{f"CPP_{operand.upper()}": cpp for operand, (cpp, _) in types.items()},
            **{f"CUBLAS_{operand.upper()}": name for operand, (_, name) in types.items()},
        },
    )


def element(letter: str) -> tuple[str, str]:
    """CUDA's type and cuBLAS's name of it. Raises UserError for a type there is no benchmark for."""
    if letter not in _ELEMENTS:
        raise UserError(f"no self-benchmark for element type {letter!r}; known are {', '.join(_ELEMENTS)}")
    return _ELEMENTS[letter]
