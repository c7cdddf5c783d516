"""Attention kernels of CUTLASS's Hopper FMHA example (knob `template` = "example88"), as parts of a source.

The example's collectives are used as they are; `example88_kernel.h` says what is laid around them. What the
example does wrong for some knobs is refused here, so that no such kernel is ever built.
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
    "example88_fusion.h",
    "example88_kernel.h",
    "example88_host.h",
    "example88_library.h",
)
_ELEMENTS = {"f16": "cutlass::half_t", "bf16": "cutlass::bfloat16_t"}
_SCHEDULES = ("cooperative", "tma")
_MASKS = ("full", "causal")
_NAMESPACE = "cutlass_tuner::example88"


@dataclass(frozen=True)
class _Knobs:
    """A kernel's knobs, checked. `tile` is rows of Q, rows of K and V, head dim; `groups` MMA warp groups."""

    schedule: str
    causal: bool
    tile: tuple[int, int, int]
    groups: int
    stages: int
    q_stages: int
    separate_q: bool
    locked: bool
    persistent: bool
    blocks_per_sm: int
    cluster_m: int


class Example88:
    """One of the templates that `attention.Attention` puts together; see there what each method promises."""

    @property
    def headers(self) -> tuple[Path, ...]:
        return (abi.HEADER, *(_FOLDER / name for name in _HEADERS))

    def symbol(self, kernel: KernelConfig) -> str:
        return f"cutlass_tuner_attention_{kernel.digest}"

    def batch_key(self, kernel: KernelConfig) -> str:
        """Tile, schedule and mask decide which mainloop is instantiated; of the rest little is shared."""
        read = _read(kernel)
        tile = "x".join(str(extent) for extent in read.tile)
        return f"example88:{read.schedule}:{tile}:{read.groups}:{'causal' if read.causal else 'full'}"

    def asked(self, kernel: KernelConfig) -> dict[str, int | tuple[int, ...]]:
        read = _read(kernel)
        cluster = read.cluster_m if read.schedule == "tma" else 1
        return {"tile": read.tile, "cluster": (cluster, 1, 1), "stages": read.stages}

    def device_includes(self) -> tuple[str, ...]:
        return ('#include "emit/example88_kernel.h"',)

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
        """The shim stands before anything of CUTLASS, so these go before another template's."""
        return ('#include "emit/host_shim.h"', '#include "emit/example88_library.h"')

    def host_text(self, kernel: KernelConfig, contract: Contract) -> str:
        return self._types(kernel, contract)

    def host_row(self, kernel: KernelConfig, contract: Contract) -> str:
        return f'    example88::library_kernel<{self._struct(kernel)}>("{self.symbol(kernel)}"),\n'

    def _struct(self, kernel: KernelConfig) -> str:
        return f"{self.symbol(kernel)}_t"

    def _types(self, kernel: KernelConfig, contract: Contract) -> str:
        """`#line` makes a compiler say the symbol where it would say the file."""
        read = _read(kernel)
        template = "Cooperative" if read.schedule == "cooperative" else "Tma"
        tile = ", ".join(f"Int<{extent}>" for extent in read.tile)
        options = "".join(f",\n    Option<Tag::{tag}, {value}>" for tag, value in _options(read).items())
        return (
            f'// {kernel.key}\n#line 1 "{self.symbol(kernel)}"\n'
            f"namespace {_NAMESPACE} {{\n"
            f"struct {self._struct(kernel)} : {template}<\n"
            f"    {_element(contract)}, cute::Shape<{tile}>, {_fusion(read)}{options}>::Kernel {{}};\n"
            f"}}  // namespace {_NAMESPACE}\n"
            f"using {_NAMESPACE}::{self._struct(kernel)};\n"
        )


def _read(kernel: KernelConfig) -> _Knobs:
    """The knobs of a kernel in effective form. Raises UserError on one that the example cannot do."""
    tile_q, tile_kv, head_dim = (knobs.count(kernel, name) for name in ("tile_q", "tile_kv", "head_dim"))
    read = _Knobs(
        schedule=knobs.word(kernel, "schedule", _SCHEDULES),
        causal=knobs.word(kernel, "mask", _MASKS) == "causal",
        tile=(tile_q, tile_kv, head_dim),
        groups=knobs.count(kernel, "groups"),
        stages=knobs.count(kernel, "stages"),
        q_stages=knobs.count(kernel, "q_stages"),
        separate_q=knobs.flag(kernel, "separate_q"),
        locked=knobs.flag(kernel, "locked"),
        persistent=knobs.flag(kernel, "persistent"),
        blocks_per_sm=knobs.count(kernel, "blocks_per_sm"),
        cluster_m=knobs.count(kernel, "cluster_m"),
    )
    if tile_kv % 16 != 0 or tile_kv > 256:
        raise _illegal(kernel, "tile_kv", "a multiple of 16 up to 256 is needed (K of the PV product)")
    if head_dim % 16 != 0 or head_dim > 256:
        raise _illegal(kernel, "head_dim", "a multiple of 16 up to 256 is needed (K of the QK product)")
    (_check_cooperative if read.schedule == "cooperative" else _check_tma)(kernel, read)
    return read


def _check_cooperative(kernel: KernelConfig, read: _Knobs) -> None:
    # One MMA warp group would be given 488 registers a thread by the example's arithmetic; the ISA has 256.
    if read.groups not in (2, 3):
        raise _illegal(kernel, "groups", "a cooperative kernel of example 88 has 2 or 3 MMA warp groups")
    if read.tile[0] % (64 * read.groups) != 0:
        raise _illegal(kernel, "tile_q", f"a multiple of 64 x groups = {64 * read.groups} is needed")
    if read.q_stages < read.groups:
        raise _illegal(kernel, "q_stages", f"every MMA warp group needs a Q tile: {read.groups} or more")
    # A tile's V is released only after the next tile's product with V was issued: K, V and the next K and V
    # share the ring, so two stages wait for each other for ever.
    if read.stages < 3:
        raise _illegal(kernel, "stages", "3 or more are needed; with 2 the example's mainloop hangs")


def _check_tma(kernel: KernelConfig, read: _Knobs) -> None:
    if read.groups != 1:
        raise _illegal(kernel, "groups", "schedule tma of example 88 has 1 warp group")
    if read.tile[0] != 64:
        raise _illegal(kernel, "tile_q", "schedule tma of example 88 has 64 rows")
    # The mainloop loads K and V in turn behind a prologue that fills every stage: an odd count would swap
    # them, and two leave nothing loaded ahead of the second tile's wait.
    if read.stages < 4 or read.stages % 2 != 0:
        raise _illegal(kernel, "stages", "schedule tma of example 88 needs an even number, 4 or more")


def _illegal(kernel: KernelConfig, name: str, needed: str) -> UserError:
    return UserError(f"knob {name} = {kernel.knobs[name]!r} of {kernel.key}: {needed}")


def _options(read: _Knobs) -> dict[str, str]:
    """The example's own option tags that this schedule reads, and their values."""
    options = {"kStagesKV": f"Int<{read.stages}>", "kStagesQ": f"Int<{read.q_stages}>"}
    if read.schedule == "tma":
        return {
            **options,
            "kBlocksPerSM": f"Int<{read.blocks_per_sm}>",
            "kClusterM": f"Int<{read.cluster_m}>",
        }
    return {
        **options,
        "kNumMmaWarpGroups": f"Int<{read.groups}>",
        "kLoadsQSeparately": _truth(read.separate_q),
        "kIsMainloopLocked": _truth(read.locked),
        "kIsPersistent": _truth(read.persistent),
    }


def _truth(value: bool) -> str:
    return "cute::true_type" if value else "cute::false_type"


def _fusion(read: _Knobs) -> str:
    if not read.causal:
        return "Full"
    return f"Causal<{read.cluster_m if read.schedule == 'tma' else 1}>"


def _element(contract: Contract) -> str:
    """The one element type of Q, K, V and O. fp8 is refused: the example reads its V transposed in memory."""
    types = {operand: contract.elements.get(operand) for operand in "qkvo"}
    element = types["q"]
    if element not in _ELEMENTS or set(types.values()) != {element}:
        seen = ", ".join(f"{operand} {name}" for operand, name in types.items())
        raise UserError(
            f"elements {seen}: template example88 takes one type for all four, {' or '.join(_ELEMENTS)}"
        )
    if contract.accumulator != "f32" or contract.elements.get("lse") != "f32":
        raise UserError(
            f"accumulator {contract.accumulator}, lse {contract.elements.get('lse')}: "
            "template example88 has f32 for both"
        )
    return _ELEMENTS[element]
