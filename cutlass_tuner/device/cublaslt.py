"""cuBLASLt through nvmath-python's bindings: the heuristic's choice, or any algorithm by its bytes.

cuBLAS is column-major, D here is row-major, so D^T (n x m) = B^T A^T is computed: cuBLAS's first
operand is our B, its second our A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from nvmath.bindings import cublasLt as lt

from cutlass_tuner.device.gemm_operands import Operands
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


def _set(setter: Callable[..., None], what: int, attribute: int, value: np.generic) -> None:
    buffer = np.array([value])
    setter(what, int(attribute), buffer.ctypes.data, buffer.nbytes)


_Preference, _Config = lt.MatmulPreferenceAttribute, lt.MatmulAlgoConfigAttribute
_SPLIT_OUTSIDE = np.uint32(lt.ReductionScheme.COMPUTE_TYPE)

NARROWER: tuple[Mapping[int, np.generic], ...] = (
    *({_Preference.REDUCTION_SCHEME_MASK: np.uint32(mask)} for mask in (0, 1, 2, 4)),
    *({_Preference.MAX_WAVES_COUNT: np.float32(waves)} for waves in (1.0, 0.5)),
)
"""The heuristic offers 3 to 8 algorithms however many it is asked for (CUDA 13.0); asked without splits
of K, with one way to add them up, or for less than a wave of CTAs, it offers others."""

NEIGHBOURS: tuple[Mapping[int, np.generic], ...] = (
    *({_Config.CUSTOM_OPTION: np.uint32(option)} for option in range(8)),
    *({_Config.CLUSTER_SHAPE_ID: np.uint16(shape)} for shape in range(2, 13)),
    {_Config.SPLITK_NUM: np.int32(1), _Config.REDUCTION_SCHEME: np.uint32(lt.ReductionScheme.NONE)},
    *(
        {_Config.SPLITK_NUM: np.int32(splits), _Config.REDUCTION_SCHEME: _SPLIT_OUTSIDE}
        for splits in (2, 3, 4, 6, 8, 12, 16)
    ),
)
"""One setting changed: the kernel's own option, the cluster (1x1 to 4x4, 8x1, 1x8), or the splits of K."""


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
        _set(lt.matmul_desc_set_attribute, self._desc, attribute.TRANSA, np.int32(first[0]))
        _set(lt.matmul_desc_set_attribute, self._desc, attribute.TRANSB, np.int32(second[0]))
        self._first = self._matrix(kind, first[1], first[2], batch)
        self._second = self._matrix(kind, second[1], second[2], batch)
        self._out = self._matrix(kind, n, m, batch)
        self._beta = np.zeros(1, dtype=np.float32)

    @staticmethod
    def _matrix(kind: int, rows: int, columns: int, batch: int) -> int:
        layout = int(lt.matrix_layout_create(kind, rows, columns, rows))
        attribute = lt.MatrixLayoutAttribute
        _set(lt.matrix_layout_set_attribute, layout, attribute.BATCH_COUNT, np.int32(batch))
        offset = np.int64(rows * columns)
        _set(lt.matrix_layout_set_attribute, layout, attribute.STRIDED_BATCH_OFFSET, offset)
        return layout

    def algorithms(self, limit: int) -> list[bytes]:
        """Up to `limit` different algorithms that work within the workspace, the heuristic's first choice
        first: what the heuristic offers, what it offers under narrower preferences, then neighbours of
        these, nearest to its first choices first. Raises NoAlgorithm where it offers nothing."""
        found = dict.fromkeys(self._offered(limit, {}))
        if not found:
            raise NoAlgorithm("cuBLASLt's heuristic offers no algorithm")
        for narrower in NARROWER:
            found |= dict.fromkeys(self._offered(limit, narrower))
        for algorithm in list(found):
            if len(found) >= limit:
                break
            found |= dict.fromkeys(self._neighbours(algorithm))
        return list(found)[:limit]

    def first_choice(self) -> bytes:
        """The heuristic's. Raises NoAlgorithm where it has none."""
        found = self._offered(1, {})
        if not found:
            raise NoAlgorithm("cuBLASLt's heuristic offers no algorithm")
        return found[0]

    def _offered(self, limit: int, preferences: Mapping[int, np.generic]) -> list[bytes]:
        """What the heuristic offers under these preferences, in its order; [] where it finds nothing."""
        preference = lt.matmul_preference_create()
        workspace = {lt.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES: np.uint64(self.workspace_bytes)}
        results = np.zeros(limit, dtype=lt.matmul_heuristic_result_dtype)
        found = np.zeros(1, dtype=np.int32)
        try:
            for attribute, value in {**workspace, **preferences}.items():
                _set(lt.matmul_preference_set_attribute, preference, attribute, value)
            lt.matmul_algo_get_heuristic(
                _handle(), self._desc, self._first, self._second, self._out, self._out,
                preference, limit, results.ctypes.data, found.ctypes.data,
            )  # fmt: skip
        except LtError:
            return []
        finally:
            lt.matmul_preference_destroy(preference)
        raw = results.view(np.uint8).reshape(limit, -1)[: int(found[0])]
        return [row[:ALGORITHM_BYTES].tobytes() for row in raw]

    def _neighbours(self, algorithm: bytes) -> Iterator[bytes]:
        """Algorithms that differ in one setting and that cuBLASLt says it can run here."""
        for changes in NEIGHBOURS:
            changed = np.frombuffer(algorithm, dtype=np.uint8).copy()
            try:
                for attribute, value in changes.items():
                    _set(lt.matmul_algo_config_set_attribute, changed.ctypes.data, attribute, value)
            except LtError:  # this algorithm has no such setting
                continue
            if self._runs(changed):
                yield changed.tobytes()

    def _runs(self, algorithm: NDArray[np.uint8]) -> bool:
        result = np.zeros(1, dtype=lt.matmul_heuristic_result_dtype)
        try:
            lt.matmul_algo_check(
                _handle(), self._desc, self._first, self._second, self._out, self._out,
                algorithm.ctypes.data, result.ctypes.data,
            )  # fmt: skip
        except LtError:
            return False
        return int(result["workspace_size"][0]) <= self.workspace_bytes

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
