"""GEMM kernels of CUTLASS 3.x on Hopper (family "tma_ws"): device and host C++ for a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cutlass_tuner import abi
from cutlass_tuner.emit import gemm3x_operation
from cutlass_tuner.records import Contract, KernelConfig

_FOLDER = Path(__file__).parent
_HEADERS = (
    "host_shim.h",
    "host_runtime.h",
    "host_library.h",
    "host_exports.h",
    "gemm3x_host.h",
    "gemm3x_library.h",
)
HOST_HEADER = _FOLDER / "gemm3x_host.h"
"""The hand-written C++ between a call and a kernel's Params; an exporter ships this very file."""


class Gemm3x:
    """The emitter of family "tma_ws". See `emitter.Emitter` for what each method promises."""

    @property
    def headers(self) -> tuple[Path, ...]:
        return (abi.HEADER, *(_FOLDER / name for name in _HEADERS))

    def symbol(self, kernel: KernelConfig) -> str:
        # ptxas has treated kernels with "cutlass" in their name differently: all of ours have it.
        return f"cutlass_tuner_{kernel.family}_{kernel.digest}"

    def kernel_type(self, kernel: KernelConfig) -> str:
        return f"{self.symbol(kernel)}_t"

    def template_arguments(self, kernel: KernelConfig) -> str:
        swap_ab = gemm3x_operation.knobs(kernel).swap_ab
        return f"{self.kernel_type(kernel)}, {'true' if swap_ab else 'false'}"

    def batch_key(self, kernel: KernelConfig) -> str:
        """The tile and the schedule decide which mainloop is instantiated; operand order decides the
        copies into it. Cluster, stages, scheduler and epilogue cost a few seconds more, not a new body."""
        knobs = gemm3x_operation.knobs(kernel)
        tile = "x".join(str(extent) for extent in knobs.tile)
        return f"{knobs.layout}{'-swap' if knobs.swap_ab else ''}:{tile}:{knobs.schedule}"

    def asked(self, kernel: KernelConfig) -> dict[str, int | tuple[int, ...]]:
        knobs = gemm3x_operation.knobs(kernel)
        return {"tile": knobs.tile, "cluster": (*knobs.cluster, 1), "stages": knobs.stages}

    def includes(self) -> tuple[str, ...]:
        return gemm3x_operation.includes()

    def type_definitions(self, kernel: KernelConfig, contract: Contract) -> str:
        return gemm3x_operation.emit_types(kernel, contract, self.kernel_type(kernel))

    def kernel_wrapper(self, kernel: KernelConfig) -> str:
        name, struct = self.symbol(kernel), self.kernel_type(kernel)
        return (
            f'extern "C" __global__ void\n'
            f"__launch_bounds__({struct}::MaxThreadsPerBlock, {struct}::MinBlocksPerMultiprocessor)\n"
            f"{name}(CUTLASS_GRID_CONSTANT typename {struct}::Params const params) {{\n"
            f"  extern __shared__ char smem[];\n"
            f"  {struct}{{}}(params, smem);\n"
            f"}}\n"
        )

    def device_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str:
        parts = [_includes(self.includes())]
        for kernel in kernels:
            parts.append(self._marked_types(kernel, contract) + self.kernel_wrapper(kernel))
        return "\n".join(parts)

    def host_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str:
        rows = [
            f'    library_kernel<{self.template_arguments(kernel)}>("{self.symbol(kernel)}"),\n'
            for kernel in kernels
        ]
        return "\n".join(
            [
                '#include "emit/host_shim.h"',
                _includes(self.includes()) + '#include "emit/gemm3x_library.h"\n',
                *(self._marked_types(kernel, contract) for kernel in kernels),
                # the table is about all kernels: without this its lines would name the last one
                '#line 1 "host.cpp"\n'
                "namespace cutlass_tuner {\n"
                f"static constexpr LibraryKernel kKernels[] = {{\n{''.join(rows)}}};\n"
                "}  // namespace cutlass_tuner\n",
                '#include "emit/host_exports.h"\n',
            ]
        )

    def _marked_types(self, kernel: KernelConfig, contract: Contract) -> str:
        """`#line` makes a compiler say the symbol where it would say the file."""
        return f'// {kernel.key}\n#line 1 "{self.symbol(kernel)}"\n' + self.type_definitions(kernel, contract)


def _includes(names: Sequence[str]) -> str:
    return "".join(f"#include <{name}>\n" for name in names)
