"""cuBLASLt through nvmath-python's bindings: the heuristic's choice, or any algorithm by its bytes.

cuBLAS is column-major, D here is row-major, so D^T (n x m) = B^T A^T is computed: cuBLAS's first
operand is our B, its second our A.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from nvmath.bindings import cublasLt as lt

from cutlass_tuner.device.gemm import Operands
from cutlass_tuner.records import Problem

CUBLAS_COMPUTE_32F = 68
CUDA_R_32F = 0
CUDA_TYPES = {"f16": 2, "bf16": 14}
OP_N, OP_T = 0, 1
ALGORITHM_BYTES = 64


LtError = lt.cuBLASLtError


class NoAlgorithm(Exception):
    """The heuristic offers no algorithm for this problem and workspace."""


@cache
def _handle() -> int:
    return int(lt.create())


def version() -> str:
    number = int(lt.get_version())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _set(setter: Callable[..., None], what: int, attribute: int, value: int, kind: type) -> None:
    buffer: np.ndarray[tuple[int], np.dtype[Any]] = np.array([value], dtype=kind)
    setter(what, int(attribute), buffer.ctypes.data, buffer.nbytes)


class LtMatmul:
    """One problem's descriptors. Scalars are on the host; the workspace is the caller's."""

    def __init__(self, problem: Problem, layout: str, workspace_bytes: int) -> None:
        m, n, k, batch = (problem.dims[x] for x in ("m", "n", "k", "batch"))
        kind = CUDA_TYPES[problem.contract.elements["d"]]
        self.workspace_bytes = workspace_bytes
        self._workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device="cuda")
        self._desc = lt.matmul_desc_create(CUBLAS_COMPUTE_32F, CUDA_R_32F)
        first = (OP_T, k, n) if layout[1] == "n" else (OP_N, n, k)
        second = (OP_N, k, m) if layout[0] == "t" else (OP_T, m, k)
        attribute = lt.MatmulDescAttribute
        _set(lt.matmul_desc_set_attribute, self._desc, attribute.TRANSA, first[0], np.int32)
        _set(lt.matmul_desc_set_attribute, self._desc, attribute.TRANSB, second[0], np.int32)
        self._first = self._matrix(kind, first[1], first[2], batch)
        self._second = self._matrix(kind, second[1], second[2], batch)
        self._out = self._matrix(kind, n, m, batch)
        self._beta = np.zeros(1, dtype=np.float32)

    @staticmethod
    def _matrix(kind: int, rows: int, columns: int, batch: int) -> int:
        layout = int(lt.matrix_layout_create(kind, rows, columns, rows))
        attribute = lt.MatrixLayoutAttribute
        _set(lt.matrix_layout_set_attribute, layout, attribute.BATCH_COUNT, batch, np.int32)
        _set(
            lt.matrix_layout_set_attribute,
            layout,
            attribute.STRIDED_BATCH_OFFSET,
            rows * columns,
            np.int64,
        )
        return layout

    def algorithms(self, limit: int) -> list[bytes]:
        """Up to `limit` algorithms that work within the workspace, in the heuristic's order."""
        preference = lt.matmul_preference_create()
        most = lt.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES
        _set(lt.matmul_preference_set_attribute, preference, most, self.workspace_bytes, np.uint64)
        results = np.zeros(limit, dtype=lt.matmul_heuristic_result_dtype)
        found = np.zeros(1, dtype=np.int32)
        try:
            lt.matmul_algo_get_heuristic(
                _handle(), self._desc, self._first, self._second, self._out, self._out,
                preference, limit, results.ctypes.data, found.ctypes.data,
            )  # fmt: skip
        except LtError as error:
            raise NoAlgorithm(f"cublasLtMatmulAlgoGetHeuristic: {error}") from error
        finally:
            lt.matmul_preference_destroy(preference)
        raw = results.view(np.uint8).reshape(limit, -1)[: int(found[0])]
        return [row[:ALGORITHM_BYTES].tobytes() for row in raw]

    def bind(self, operands: Operands, algorithm: bytes, alpha: float, stream: int) -> Callable[[], None]:
        """A function that enqueues this algorithm on `stream`."""
        scale = np.array([alpha], dtype=np.float32)
        algo = np.frombuffer(algorithm, dtype=np.uint8).copy()
        a, b, d = operands.pointers

        def enqueue() -> None:
            lt.matmul(
                _handle(), self._desc, scale.ctypes.data, b, self._first, a, self._second,
                self._beta.ctypes.data, d, self._out, d, self._out, algo.ctypes.data,
                self._workspace.data_ptr(), self.workspace_bytes, stream,
            )  # fmt: skip

        return enqueue
