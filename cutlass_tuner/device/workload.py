"""What a contest needs of an op on the device: operand sets, right answers, and baselines by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch

from cutlass_tuner.device.ring import Rotation
from cutlass_tuner.records import Evidence, Problem
from cutlass_tuner.wire import BaselineEntry

POISON = -1
"""All bits set: a NaN in fp16, bf16 and fp32 that no arithmetic produces."""

WORDS = {2: torch.int16, 4: torch.int32}
"""An integer type to see an element's bits through, by the element's bytes."""


class BaselineRefused(Exception):
    """A baseline cannot do this problem; the text, one line, says why."""


def refusal(error: Exception) -> BaselineRefused:
    """What a library's exception means for its entry. Raises where the CUDA context is gone with it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    if isinstance(error, torch.cuda.OutOfMemoryError):
        torch.cuda.empty_cache()
    text = str(error).strip()
    return BaselineRefused(text.splitlines()[0] if text else type(error).__name__)


def _in_place() -> None:
    """The output is where it belongs already."""


@dataclass(frozen=True)
class Binding:
    """An entry bound to one operand set. `enqueue` is what is timed; `deliver`, never timed, brings an
    output that the entry allocated by itself to the set's own."""

    enqueue: Callable[[], object]
    deliver: Callable[[], object] = _in_place

    def run(self) -> None:
        self.enqueue()
        self.deliver()


class OperandSet(Protocol):
    """The operands of one call, outputs included."""

    @property
    def pointers(self) -> tuple[int, ...]:
        """Device addresses in the ABI's order."""
        ...


Operands = TypeVar("Operands", bound=OperandSet)


@dataclass(frozen=True)
class Probe(Generic[Operands]):
    """Inputs that are run once, for what their answer tells. Its outputs are those of set 0."""

    operands: Operands
    scalar: float


Operands_contra = TypeVar("Operands_contra", bound=OperandSet, contravariant=True)


class Baseline(Protocol[Operands_contra]):
    """A library's function on one problem."""

    workspace_bytes: int

    def bind(self, operands: Operands_contra, scalar: float) -> Binding: ...


class Workload(Protocol[Operands]):
    """One problem on the device. Outputs and what surrounds them hold POISON until a launch writes them.

    `every_output` is False for a baseline, which owes the main output (the ABI's first) only.
    """

    problem: Problem
    dims: tuple[int, ...]
    """The ABI's dims, what follows the problem's own included."""
    scalar: float
    """The ABI's first scalar on the sets; a probe has one of its own."""
    sets: list[Operands]
    """The ring; set 0 is the one whose answer is known beforehand."""
    rotation: Rotation
    probes: Sequence[Probe[Operands]]
    bytes: int
    """Device memory that stays taken as long as the workload is kept."""

    def baseline(self, entry: BaselineEntry, stream: int) -> Baseline[Operands]:
        """Raises BaselineRefused where it cannot do the problem, or does not exist."""
        ...

    def poison(self, index: int = 0) -> None: ...

    def guard_touched(self, index: int) -> int:
        """Elements around the outputs of set `index` that were written."""
        ...

    def out_of_bound(self, every_output: bool = True) -> int:
        """Elements of the outputs of set 0 beyond the bound (a NaN is beyond it)."""
        ...

    def out_of_bound_of(self, index: int, every_output: bool = True) -> int:
        """As `out_of_bound`, for any set: its answer is computed for this."""
        ...

    def evidence(
        self,
        run: Callable[[], object],
        probing: Sequence[Callable[[], object]],
        repeat: bool,
        every_output: bool,
    ) -> Evidence:
        """Run an entry on set 0 and on each probe, in the order of `probes`, and report its answers."""
        ...
