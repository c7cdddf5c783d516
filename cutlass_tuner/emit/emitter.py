"""What every emitter can do. Emitting is pure text: no file is read or written, no compiler is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cutlass_tuner.records import Contract, KernelConfig


class Emitter(Protocol):
    """Turns kernels of one family into C++.

    A *device source* holds the kernels themselves, one `extern "C" __global__` symbol each. A *host
    source* holds their types only and implements `abi.h`; kernel i of the sequence is index i of the
    library. Every kernel's text carries a `#line` naming its symbol, so a compiler's message names
    the kernel it is about.
    """

    @property
    def headers(self) -> tuple[Path, ...]:
        """Files of this package that the sources include: part of what a build depends on."""
        ...

    def symbol(self, kernel: KernelConfig) -> str: ...

    def batch_key(self, kernel: KernelConfig) -> str:
        """Kernels with equal keys share most of their template instantiations."""
        ...

    def asked(self, kernel: KernelConfig) -> dict[str, int | tuple[int, ...]]:
        """What the built kernel must say of itself: fields of ct_description and their values."""
        ...

    def device_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str: ...

    def host_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str: ...

    def includes(self) -> tuple[str, ...]:
        """Headers of CUTLASS that `type_definitions` needs, as written inside #include <>."""
        ...

    def type_definitions(self, kernel: KernelConfig, contract: Contract) -> str:
        """C++ that defines the kernel's types, the last of them `kernel_type(kernel)`."""
        ...

    def kernel_type(self, kernel: KernelConfig) -> str: ...

    def kernel_wrapper(self, kernel: KernelConfig) -> str:
        """The `extern "C" __global__` entry point around the kernel struct."""
        ...

    def template_arguments(self, kernel: KernelConfig) -> str:
        """Arguments of the host header's templates, e.g. of `cutlass_tuner::arguments<...>(call, launch)`."""
        ...
