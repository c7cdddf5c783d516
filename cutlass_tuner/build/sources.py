"""What the build stage asks of the others: an emitter's text, and a compiler for its device part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cutlass_tuner.records import Contract, KernelConfig


class Sources(Protocol):
    """The part of an emitter that building needs. See `emit` for what the texts are."""

    @property
    def headers(self) -> tuple[Path, ...]:
        """The tuner's own C++ headers that the texts include."""
        ...

    def symbol(self, kernel: KernelConfig) -> str: ...

    def batch_key(self, kernel: KernelConfig) -> str: ...

    def asked(self, kernel: KernelConfig) -> Mapping[str, int | tuple[int, ...]]:
        """What the built kernel must say of itself: fields of ct_description and their values."""
        ...

    def device_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str: ...

    def host_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str: ...


class DeviceCompiler(Protocol):
    """Makes a cubin of a device source, as a command that can be killed and whose output is its log."""

    @property
    def version(self) -> str:
        """Name and version in one line, for a study's environment and the cache's key."""
        ...

    def flags(self, arch: str) -> tuple[str, ...]:
        """What shapes the machine code, without paths."""
        ...

    def command(self, source: Path, cubin: Path, arch: str) -> list[str]: ...
