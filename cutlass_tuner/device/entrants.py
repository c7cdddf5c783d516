"""One contest entry made runnable: how to enqueue it on any operand set, and how it is described."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import torch

from cutlass_tuner import abi
from cutlass_tuner.device import kernel
from cutlass_tuner.device.gemm import Gemm
from cutlass_tuner.device.gemm_operands import Operands
from cutlass_tuner.device.workload import Binding, OperandSet, Workload
from cutlass_tuner.records import Readback
from cutlass_tuner.wire import BaselineEntry, KernelEntry, LibraryEntry

GUARD_BYTES, GUARD = 256, 0xA5
AnyWorkload = Workload[Any]


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
    workload: AnyWorkload
    every_output: bool
    """Whether it writes every output of the op, or the main one only."""

    def bind(self, sets: Sequence[Any], scalar: float) -> list[Binding]: ...

    def guard_touched(self) -> int:
        """Bytes behind the workspace that were written; 0 where the workspace is not ours to guard."""
        ...


class KernelEntrant:
    """A kernel of ours on one problem with one launch configuration."""

    every_output = True

    def __init__(self, entry: KernelEntry, workload: AnyWorkload, stream: int) -> None:
        self.name, self.deterministic, self.workload = entry.name, entry.deterministic, workload
        self._stream, self._codes = stream, entry.launch_codes
        self._kernel = kernel.load(entry)
        self._plan = self._kernel.plan(self._call(workload.sets[0], workload.scalar))
        self.workspace_bytes = int(self._plan.workspace_bytes)
        self.readback: Readback | None = self._kernel.readback(self._plan)
        self._workspace = Workspace(self.workspace_bytes)

    def _call(self, operands: OperandSet, scalar: float) -> abi.Call:
        return self._kernel.call(self.workload.dims, operands.pointers, scalar, self._codes)

    def bind(self, sets: Sequence[Any], scalar: float) -> list[Binding]:
        calls = [self._call(operands, scalar) for operands in sets]
        for call in calls:
            call.workspace = self._workspace.address
        return [Binding(enqueue) for enqueue in self._kernel.bind(calls, self._plan, self._stream)]

    def guard_touched(self) -> int:
        return self._workspace.guard_touched()


class BaselineEntrant:
    """A library's function, as the workload knows it by the entry's name."""

    every_output = False

    def __init__(self, entry: BaselineEntry, workload: AnyWorkload, stream: int) -> None:
        self.name, self.deterministic, self.workload = entry.name, False, workload
        self.readback: Readback | None = None
        self._baseline = workload.baseline(entry, stream)
        self.workspace_bytes = self._baseline.workspace_bytes

    def bind(self, sets: Sequence[Any], scalar: float) -> list[Binding]:
        return [self._baseline.bind(operands, scalar) for operands in sets]

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
    """A GEMM header's own dispatch and launch, compiled to a shared library."""

    every_output = True

    def __init__(self, entry: LibraryEntry, gemm: Gemm, stream: int) -> None:
        self.name, self.deterministic = entry.name, False
        self.workload: AnyWorkload = gemm
        self.readback: Readback | None = None
        self._stream = stream
        self._library = _shared_library(entry.path)
        self._dims, self._key = gemm.dims, gemm.problem.key
        self._layout = gemm.problem.layout.encode()
        size = int(self._library.ct_export_workspace(*gemm.dims, self._layout))
        if size < 0:
            raise LibraryError(f"{entry.path}: workspace_size answers {size} for {gemm.problem.key}")
        self.workspace_bytes = size
        self._workspace = Workspace(size)

    def bind(self, sets: Sequence[Operands], scalar: float) -> list[Binding]:
        return [self._bound(operands, scalar) for operands in sets]

    def guard_touched(self) -> int:
        return self._workspace.guard_touched()

    def _bound(self, operands: Operands, alpha: float) -> Binding:
        a, b, d = operands.pointers

        def enqueue() -> None:
            status = self._library.ct_export_run(
                *self._dims, self._layout, a, b, d, alpha, self._workspace.address, self._stream
            )
            if status != 0:
                raise LibraryError(f"run returns status {status} for {self._key}")

        return Binding(enqueue)


def entrant(entry: KernelEntry | BaselineEntry | LibraryEntry, workload: AnyWorkload, stream: int) -> Entrant:
    """Raises what the entry's loader raises: PlanRefused, BaselineRefused, LibraryError, OSError..."""
    if isinstance(entry, KernelEntry):
        return KernelEntrant(entry, workload, stream)
    if isinstance(entry, BaselineEntry):
        return BaselineEntrant(entry, workload, stream)
    if not isinstance(workload, Gemm):
        raise LibraryError(f"{entry.path}: exported libraries are measured for GEMMs only")
    return LibraryEntrant(entry, workload, stream)
