"""The GEMM's baselines by name: torch.matmul, and cuBLASLt by its heuristic or by a given algorithm."""

from __future__ import annotations

from cutlass_tuner.device import cublaslt, torch_matmul
from cutlass_tuner.device.gemm_operands import Operands
from cutlass_tuner.device.workload import Baseline, Binding
from cutlass_tuner.records import Problem
from cutlass_tuner.wire import BaselineEntry

LT_WORKSPACE_BYTES = 32 << 20


class TorchMatmul:
    def __init__(self, layout: str) -> None:
        self.workspace_bytes = torch_matmul.HOPPER_WORKSPACE_BYTES
        self._layout = layout

    def bind(self, operands: Operands, scalar: float) -> Binding:
        return Binding(torch_matmul.bind(operands, self._layout, scalar))


class CublasLt:
    """`algorithm` in hex, or "" for the heuristic's first choice. Raises cublaslt.NoAlgorithm."""

    def __init__(self, problem: Problem, layout: str, algorithm: str, stream: int) -> None:
        self.workspace_bytes = LT_WORKSPACE_BYTES
        self._stream = stream
        self._lt = cublaslt.LtMatmul(problem, layout, LT_WORKSPACE_BYTES)
        self._algorithm = bytes.fromhex(algorithm) or self._lt.first_choice()

    def bind(self, operands: Operands, scalar: float) -> Binding:
        return Binding(self._lt.bind(operands, self._algorithm, scalar, self._stream))


def baseline(problem: Problem, entry: BaselineEntry, stream: int) -> Baseline[Operands]:
    if entry.name.startswith("torch"):
        return TorchMatmul(entry.layout)
    return CublasLt(problem, entry.layout, entry.algorithm, stream)
