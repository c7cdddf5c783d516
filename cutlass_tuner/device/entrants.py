"""One contest entry made runnable: how to enqueue it on any operand set, and how it is described."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import torch

from cutlass_tuner import abi
from cutlass_tuner.device import cublaslt, kernel, torch_matmul
from cutlass_tuner.device.gemm import Gemm, Operands
from cutlass_tuner.records import Readback
from cutlass_tuner.wire import BaselineEntry, KernelEntry, LibraryEntry

LT_WORKSPACE_BYTES = 32 << 20
GUARD_BYTES, GUARD = 256, 0xA5
Enqueue = Callable[[], object]


class Workspace:
    """Device memory of `size` bytes with a guard behind it. Never empty: a kernel without a workspace
    still gets a valid pointer."""

    def __init__(self, size: int) -> None:
        self._size = (size + GUARD_BYTES - 1) // GUARD_BYTES * GUARD_BYTES
        self._bytes = torch.full((self._size + GUARD_BYTES,), GUARD, dtype=torch.uint8, device="cuda")
        self.address = self._bytes.data_ptr()

    def guard_touched(self) -> int:
        return int((self._bytes[self._size :] != GUARD).sum().item())


class Entrant(Protocol):
    """What the contest needs of an entry. `bind` may be called for every set of the ring."""

    name: str
    deterministic: bool
    readback: Readback | None
    workspace_bytes: int
    gemm: Gemm

    def bind(self, sets: Sequence[Operands], alpha: float) -> list[Enqueue]: ...

    def guard_touched(self) -> int:
        """Bytes behind the workspace that were written; 0 where the workspace is not ours to guard."""
        ...


class KernelEntrant:
    """A kernel of ours on one problem with one launch configuration."""

    def __init__(self, entry: KernelEntry, gemm: Gemm, stream: int) -> None:
        self.name, self.deterministic, self.gemm = entry.name, entry.deterministic, gemm
        self._stream, self._codes = stream, entry.launch_codes
        self._kernel = kernel.load(entry)
        self._plan = self._kernel.plan(self._call(gemm.sets[0], 1.0))
        self.workspace_bytes = int(self._plan.workspace_bytes)
        self.readback: Readback | None = self._kernel.readback(self._plan)
        self._workspace = Workspace(self.workspace_bytes)

    def _call(self, operands: Operands, alpha: float) -> abi.Call:
        return self._kernel.call(self.gemm.dims, operands.pointers, alpha, self._codes)

    def bind(self, sets: Sequence[Operands], alpha: float) -> list[Enqueue]:
        calls = [self._call(operands, alpha) for operands in sets]
        for call in calls:
            call.workspace = self._workspace.address
        return list(self._kernel.bind(calls, self._plan, self._stream))

    def guard_touched(self) -> int:
        return self._workspace.guard_touched()


class BaselineEntrant:
    """torch.matmul, or cuBLASLt with the heuristic's first choice or a given algorithm."""

    def __init__(self, entry: BaselineEntry, gemm: Gemm, stream: int) -> None:
        self.name, self.deterministic, self.gemm = entry.name, False, gemm
        self.readback: Readback | None = None
        self._layout, self._stream = entry.layout, stream
        self._lt: cublaslt.LtMatmul | None = None
        self.workspace_bytes = torch_matmul.HOPPER_WORKSPACE_BYTES
        if not entry.name.startswith("torch"):
            self.workspace_bytes = LT_WORKSPACE_BYTES
            self._lt = cublaslt.LtMatmul(gemm.problem, entry.layout, LT_WORKSPACE_BYTES)
            self._algorithm = bytes.fromhex(entry.algorithm) or self._lt.first_choice()

    def bind(self, sets: Sequence[Operands], alpha: float) -> list[Enqueue]:
        if self._lt is None:
            return [torch_matmul.bind(operands, self._layout, alpha) for operands in sets]
        return [self._lt.bind(operands, self._algorithm, alpha, self._stream) for operands in sets]

    def guard_touched(self) -> int:
        return 0


@cache
def _shared_library(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    dims = [ctypes.c_int64] * 4
    library.ct_export_workspace.argtypes = [*dims, ctypes.c_char_p]
    library.ct_export_workspace.restype = ctypes.c_longlong
    library.ct_export_run.argtypes = [
        *dims, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    return library


class LibraryError(Exception):
    """The exported library refuses the problem; the text names its status."""


class LibraryEntrant:
    """An exported header's own dispatch and launch, compiled to a shared library."""

    def __init__(self, entry: LibraryEntry, gemm: Gemm, stream: int) -> None:
        self.name, self.deterministic, self.gemm = entry.name, False, gemm
        self.readback: Readback | None = None
        self._stream = stream
        self._library = _shared_library(entry.path)
        self._layout = gemm.problem.layout.encode()
        size = int(self._library.ct_export_workspace(*gemm.dims, self._layout))
        if size < 0:
            raise LibraryError(f"{entry.path}: workspace_size answers {size} for {gemm.problem.key}")
        self.workspace_bytes = size
        self._workspace = Workspace(size)

    def bind(self, sets: Sequence[Operands], alpha: float) -> list[Enqueue]:
        return [self._bound(operands, alpha) for operands in sets]

    def guard_touched(self) -> int:
        return self._workspace.guard_touched()

    def _bound(self, operands: Operands, alpha: float) -> Enqueue:
        a, b, d = operands.pointers

        def enqueue() -> None:
            status = self._library.ct_export_run(
                *self.gemm.dims, self._layout, a, b, d, alpha, self._workspace.address, self._stream
            )
            if status != 0:
                raise LibraryError(f"run returns status {status} for {self.gemm.problem.key}")

        return enqueue


def entrant(entry: KernelEntry | BaselineEntry | LibraryEntry, gemm: Gemm, stream: int) -> Entrant:
    if isinstance(entry, KernelEntry):
        return KernelEntrant(entry, gemm, stream)
    if isinstance(entry, BaselineEntry):
        return BaselineEntrant(entry, gemm, stream)
    return LibraryEntrant(entry, gemm, stream)
