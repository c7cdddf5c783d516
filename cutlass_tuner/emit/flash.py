"""Attention kernels of our own on CUTLASS (template "flash"): text for a batch of them."""

from __future__ import annotations

from pathlib import Path

from cutlass_tuner import abi
from cutlass_tuner.emit import knobs
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, KernelConfig

_FOLDER = Path(__file__).parent
_DEVICE = ("traits.h", "tensors.h", "softmax.h", "producer.h", "consumer.h", "kernel.h")
_HOST = ("host.h", "library.h")
_SHARED = ("host_runtime.h", "host_library.h", "host_exports.h")
ELEMENTS = {"f16": "kF16", "bf16": "kBF16"}
HOST_HEADERS = tuple(_FOLDER / "flash" / name for name in ("traits.h", "host.h"))
"""The hand-written C++ between a call and a kernel's Params; an exporter ships these very files."""
DEVICE_HEADERS = tuple(_FOLDER / "flash" / name for name in _DEVICE)
"""The kernels themselves; `HOST_HEADERS` share traits.h."""
GROUP_ROWS = 64
MASKS = ("full", "causal")
COUNTS = ("head_dim", "groups", "tile_kv", "stages", "q_stages", "blocks_per_sm")
FLAGS = ("overlap", "pingpong", "lazy_rescale")


class Flash:
    """The part of the "attention" emitter that knows template "flash"."""

    @property
    def headers(self) -> tuple[Path, ...]:
        """What the texts include, of this package."""
        ours = (*DEVICE_HEADERS, *(_FOLDER / "flash" / name for name in _HOST))
        return (abi.HEADER, *(_FOLDER / name for name in _SHARED), *ours)

    def symbol(self, kernel: KernelConfig) -> str:
        # ptxas has treated kernels with "cutlass" in their name differently: all of ours have it.
        return f"cutlass_tuner_attention_{kernel.digest}"

    def batch_key(self, kernel: KernelConfig) -> str:
        """Kernels of equal operand types share tensor core instructions and layouts, but not their bodies."""
        asked = kernel.knobs
        return f"flash:{asked['mask']}:{asked['head_dim']}:{asked['tile_kv']}"

    def asked(self, kernel: KernelConfig) -> dict[str, int | tuple[int, ...]]:
        """What the built kernel must say of itself: fields of ct_description and their values."""
        tile = (
            knobs.count(kernel, "tile_q"),
            knobs.count(kernel, "tile_kv"),
            knobs.count(kernel, "head_dim"),
        )
        return {"tile": tile, "cluster": (1, 1, 1), "stages": knobs.count(kernel, "stages")}

    def device_includes(self) -> tuple[str, ...]:
        return ('#include "emit/flash/kernel.h"',)

    def host_includes(self) -> tuple[str, ...]:
        return ('#include "emit/flash/library.h"',)

    def device_text(self, kernel: KernelConfig, contract: Contract) -> str:
        """The kernel's knobs and its `extern "C" __global__` entry point."""
        name, kind = self.symbol(kernel), self.kernel_type(kernel)
        return (
            f"{self.host_text(kernel, contract)}"
            f'extern "C" __global__ void __launch_bounds__({kind}::kThreads, {kind}::kBlocksPerSM)\n'
            f"{name}(__grid_constant__ cutlass_tuner::flash::Params const params) {{\n"
            f"  extern __shared__ __align__(1024) char smem[];\n"
            f"  cutlass_tuner::flash::attention<{kind}>(params, smem);\n"
            f"}}\n"
        )

    def host_text(self, kernel: KernelConfig, contract: Contract) -> str:
        """The kernel's knobs as a C++ type. Raises UserError for what this template cannot be."""
        kind = f"cutlass_tuner::flash::Knobs<{_arguments(kernel, contract)}>"
        return (
            f'// {kernel.key}\n#line 1 "{self.symbol(kernel)}"\nusing {self.kernel_type(kernel)} = {kind};\n'
        )

    def host_row(self, kernel: KernelConfig, contract: Contract) -> str:
        """The kernel's line in a host library's table."""
        return f'    flash::library_kernel<{self.kernel_type(kernel)}>("{self.symbol(kernel)}"),\n'

    def kernel_type(self, kernel: KernelConfig) -> str:
        return f"{self.symbol(kernel)}_t"


def _arguments(kernel: KernelConfig, contract: Contract) -> str:
    """Template arguments of flash::Knobs, in its order."""
    elements = {contract.elements[name] for name in "qkvo"}
    if len(elements) != 1 or not elements <= ELEMENTS.keys() or contract.accumulator != "f32":
        said = ", ".join(sorted(elements))
        raise UserError(f"element types {said}: template flash takes one of {', '.join(ELEMENTS)}, f32 sums")
    counts = {name: knobs.count(kernel, name) for name in COUNTS}
    if kernel.knobs["tile_q"] != GROUP_ROWS * counts["groups"]:
        raise UserError(f"knob tile_q of {kernel.key}: template flash computes {GROUP_ROWS} rows a group")
    numbers = [f"cutlass_tuner::flash::Element::{ELEMENTS[elements.pop()]}", str(counts.pop("head_dim"))]
    numbers += [_cpp(knobs.word(kernel, "mask", MASKS) == "causal"), *map(str, counts.values())]
    numbers += [_cpp(knobs.flag(kernel, name)) for name in FLAGS]
    return ", ".join([*numbers, str(knobs.count(kernel, "exp_fma", least=0))])


def _cpp(flag: bool) -> str:
    return "true" if flag else "false"
