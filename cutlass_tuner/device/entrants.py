"""One contest entry made runnable: how to enqueue it on any operand set, and how it is described."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import torch

from cutlass_tuner import abi
from cutlass_tuner.device import kernel, library
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


class LibraryEntrant:
    """An exported header's own dispatch and launch, compiled to a shared library."""

    every_output = True

    def __init__(self, entry: LibraryEntry, workload: AnyWorkload, stream: int) -> None:
        self.name, self.deterministic, self.workload = entry.name, False, workload
        self.readback: Readback | None = None
        self._stream = stream
        self._run, size = library.calls(entry.path, workload.problem, workload.dims)
        self.workspace_bytes = size
        self._workspace = Workspace(size)

    def bind(self, sets: Sequence[OperandSet], scalar: float) -> list[Binding]:
        return [Binding(partial(self._enqueue, operands, scalar)) for operands in sets]

    def _enqueue(self, operands: OperandSet, scalar: float) -> None:
        status = self._run(operands.pointers, scalar, self._workspace.address, self._stream)
        if status != 0:
            raise library.LibraryError(f"run returns status {status} for {self.workload.problem.key}")

    def guard_touched(self) -> int:
        return self._workspace.guard_touched()


def entrant(entry: KernelEntry | BaselineEntry | LibraryEntry, workload: AnyWorkload, stream: int) -> Entrant:
    """Raises what the entry's loader raises: PlanRefused, BaselineRefused, LibraryError, OSError..."""
    if isinstance(entry, KernelEntry):
        return KernelEntrant(entry, workload, stream)
    if isinstance(entry, BaselineEntry):
        return BaselineEntrant(entry, workload, stream)
    return LibraryEntrant(entry, workload, stream)
