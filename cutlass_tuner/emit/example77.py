"""Attention kernels of CUTLASS's Blackwell FMHA example (family "attention_sm100"), as parts of a source.

The example's collectives are used as they are; `example77_kernel.h` says what is laid around them. What they
cannot do is refused here, so that no such kernel is ever built.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner import abi
from cutlass_tuner.emit import knobs
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, KernelConfig

_FOLDER = Path(__file__).parent
_HEADERS = (
    "host_shim.h",
    "host_runtime.h",
    "host_library.h",
    "host_exports.h",
    "example77_mask.h",
    "example77_kernel.h",
    "example77_host.h",
    "example77_library.h",
)
_ELEMENTS = {"f16": "cutlass::half_t", "bf16": "cutlass::bfloat16_t"}
_MASKS = {"full": "Full", "causal": "Causal"}
_SCHEDULERS = {
    "persistent": "PersistentTileScheduler",
    "individual": "IndividualTileScheduler",
    "causal_persistent": "CausalPersistentTileScheduler",
    "causal_individual": "CausalIndividualTileScheduler",
}
_NAMESPACE = "cutlass_tuner::example77"
_TILE_Q, _KV_STAGES = 256, 3
"""Fixed in the example's mainloop: 128 rows a softmax warp group, a thread each, and StageCountKV."""
_TILES_KV = (64, 128)
"""P is stored to tensor memory 32 columns at a time, two keys a column; S has 128 columns of it."""
_HEAD_DIMS = (64, 128)
_REGISTERS = 512
"""A thread's of the four warp groups together."""
_STEP, _LEAST, _AT_LAUNCH, _MOST = 8, 24, 128, 256
"""What setmaxnreg takes; who gives registers up must ask for fewer than the launch gave."""


@dataclass(frozen=True)
class _Knobs:
    """A kernel's knobs, checked. `tile` is rows of Q, rows of K and V, head dim."""

    tile: tuple[int, int, int]
    mask: str
    scheduler: str
    softmax_registers: int
    correction_registers: int


class Example77:
    """One of the templates that `attention.Attention` puts together; see there what each method promises."""

    @property
    def headers(self) -> tuple[Path, ...]:
        return (abi.HEADER, *(_FOLDER / name for name in _HEADERS))

    def symbol(self, kernel: KernelConfig) -> str:
        return f"cutlass_tuner_attention_{kernel.digest}"

    def batch_key(self, kernel: KernelConfig) -> str:
        """Tile and mask decide which mainloop is instantiated."""
        read = _read(kernel)
        return f"example77:{'x'.join(str(extent) for extent in read.tile)}:{read.mask}"

    def asked(self, kernel: KernelConfig) -> dict[str, int | tuple[int, ...]]:
        return {"tile": _read(kernel).tile, "cluster": (1, 1, 1), "stages": _KV_STAGES}

    def device_includes(self) -> tuple[str, ...]:
        return ('#include "emit/example77_kernel.h"',)

    def device_text(self, kernel: KernelConfig, contract: Contract) -> str:
        struct = self._struct(kernel)
        return (
            f"{self._types(kernel, contract)}"
            f'extern "C" __global__ void\n'
            f"__launch_bounds__({struct}::MaxThreadsPerBlock, {struct}::MinBlocksPerMultiprocessor)\n"
            f"{self.symbol(kernel)}(CUTLASS_GRID_CONSTANT typename {struct}::Params const params) {{\n"
            f"  extern __shared__ __align__(1024) char smem[];\n"
            f"  {struct}{{}}(params, smem);\n"
            f"}}\n"
        )

    def host_includes(self) -> tuple[str, ...]:
        """The shim stands before anything of CUTLASS."""
        return ('#include "emit/host_shim.h"', '#include "emit/example77_library.h"')

    def host_text(self, kernel: KernelConfig, contract: Contract) -> str:
        return self._types(kernel, contract)

    def host_row(self, kernel: KernelConfig, contract: Contract) -> str:
        return f'    example77::library_kernel<{self._struct(kernel)}>("{self.symbol(kernel)}"),\n'

    def _struct(self, kernel: KernelConfig) -> str:
        return f"{self.symbol(kernel)}_t"

    def _types(self, kernel: KernelConfig, contract: Contract) -> str:
        """`#line` makes a compiler say the symbol where it would say the file."""
        read = _read(kernel)
        tile = ", ".join(f"Int<{extent}>" for extent in read.tile)
        registers = f"{read.softmax_registers}, {read.correction_registers}"
        return (
            f'// {kernel.key}\n#line 1 "{self.symbol(kernel)}"\n'
            f"namespace {_NAMESPACE} {{\n"
            f"struct {self._struct(kernel)} : Forward<\n"
            f"    {_element(contract)}, cute::Shape<{tile}>, {_MASKS[read.mask]},\n"
            f"    {_SCHEDULERS[read.scheduler]}, {registers}>::Kernel {{}};\n"
            f"}}  // namespace {_NAMESPACE}\n"
            f"using {_NAMESPACE}::{self._struct(kernel)};\n"
        )


def _read(kernel: KernelConfig) -> _Knobs:
    """The knobs of a kernel in effective form. Raises UserError on one that the example cannot do."""
    tile_kv, head_dim = knobs.count(kernel, "tile_kv"), knobs.count(kernel, "head_dim")
    read = _Knobs(
        tile=(_TILE_Q, tile_kv, head_dim),
        mask=knobs.word(kernel, "mask", _MASKS),
        scheduler=knobs.word(kernel, "scheduler", _SCHEDULERS),
        softmax_registers=knobs.count(kernel, "softmax_registers"),
        correction_registers=knobs.count(kernel, "correction_registers"),
    )
    if tile_kv not in _TILES_KV:
        raise _illegal(kernel, "tile_kv", f"{_listed(_TILES_KV)} is needed (columns of tensor memory)")
    if head_dim not in _HEAD_DIMS:
        raise _illegal(
            kernel, "head_dim", f"{_listed(_HEAD_DIMS)} is needed (what example 77 has in 16 bits)"
        )
    _check_registers(kernel, read)
    return read


def _check_registers(kernel: KernelConfig, read: _Knobs) -> None:
    softmax, correction = read.softmax_registers, read.correction_registers
    if softmax % _STEP or not _AT_LAUNCH <= softmax < _MOST:
        raise _illegal(kernel, "softmax_registers", f"a multiple of {_STEP} from {_AT_LAUNCH} is needed")
    if correction % _STEP or not _LEAST <= correction < _AT_LAUNCH:
        raise _illegal(kernel, "correction_registers", f"a multiple of {_STEP} below {_AT_LAUNCH} is needed")
    others = _REGISTERS - 2 * softmax - correction
    if not _LEAST <= others < _AT_LAUNCH:
        raise _illegal(
            kernel,
            "softmax_registers",
            f"twice it and {correction} must leave {_LEAST} to {_AT_LAUNCH - _STEP} of {_REGISTERS}",
        )


def _listed(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))


def _illegal(kernel: KernelConfig, name: str, needed: str) -> UserError:
    return UserError(f"knob {name} = {kernel.knobs[name]!r} of {kernel.key}: {needed}")


def _element(contract: Contract) -> str:
    """The one element type of Q, K, V and O."""
    types = {operand: contract.elements.get(operand) for operand in "qkvo"}
    element = types["q"]
    if element not in _ELEMENTS or set(types.values()) != {element}:
        seen = ", ".join(f"{operand} {name}" for operand, name in types.items())
        raise UserError(f"elements {seen}: example 77 takes one type for all four, {' or '.join(_ELEMENTS)}")
    if contract.accumulator != "f32" or contract.elements.get("lse") != "f32":
        raise UserError(
            f"accumulator {contract.accumulator}, lse {contract.elements.get('lse')}: "
            "example 77 has f32 for both"
        )
    return _ELEMENTS[element]
