"""A toolchain whose nvcc is `fake_nvcc.py` (and whose g++ is real), and kernels without CUTLASS."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner import abi
from cutlass_tuner.build.builder import Builder
from cutlass_tuner.build.cache import Cache
from cutlass_tuner.build.toolchain import Cutlass, Tool, Toolchain, find_gxx
from cutlass_tuner.records import Contract, KernelConfig

CONTRACT = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
PARAMS_BYTES = 256

_EXPORTS = """\
int32_t ct_abi_version() { return CT_ABI_VERSION; }
int32_t ct_kernel_count() { return sizeof(kernels) / sizeof(kernels[0]); }
char const* ct_kernel_symbol(int32_t kernel) { return kernels[kernel].symbol; }
int32_t ct_describe(int32_t kernel, ct_description* out) { *out = kernels[kernel].description; return 0; }
int32_t ct_make_plan(int32_t, ct_call const*, ct_plan*) { return 1; }
int32_t ct_fill_params(int32_t, ct_call const*, void*) { return 1; }
"""


def kernel(number: int, mode: str = "good", stages: int = 4) -> KernelConfig:
    return KernelConfig(family="fake", knobs={"number": number, "mode": mode, "stages": stages})


@dataclass(frozen=True)
class FakeSources:
    """An emitter whose kernels do what their "mode" knob says."""

    headers: tuple[Path, ...] = (abi.HEADER,)

    def symbol(self, kernel: KernelConfig) -> str:
        return f"cutlass_fake_{kernel.digest}"

    def batch_key(self, kernel: KernelConfig) -> str:
        return str(kernel.knobs["stages"])

    def asked(self, kernel: KernelConfig) -> dict[str, int | tuple[int, ...]]:
        stages = kernel.knobs["stages"]
        assert isinstance(stages, int)
        return {"stages": stages, "tile": (64, 64, 64)}

    def device_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str:
        del contract
        lines = (f"KERNEL {self.symbol(k)} {PARAMS_BYTES} {k.knobs['mode']}\n" for k in kernels)
        return "".join(lines)

    def host_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str:
        rows, broken = "", ""
        for each in kernels:
            smem = 300_000 if each.knobs["mode"] == "large" else 4096
            stages = 1 if each.knobs["mode"] == "other" else each.knobs["stages"]
            rows += (
                f'{{"{self.symbol(each)}", {{{PARAMS_BYTES}, 64, 128, {smem}, {stages}, {{64, 64, 64}}}}}},\n'
            )
            if each.knobs["mode"] == "hostbad":
                broken += f'#line 1 "{self.symbol(each)}"\nstatic_assert(sizeof(int) == 0, "host says no");\n'
            if each.knobs["mode"] == "crash":
                broken += "__attribute__((constructor)) static void crash() { __builtin_trap(); }\n"
        table = (
            f"struct Row {{ char const* symbol; ct_description description; }} kernels[] = {{\n{rows}}};\n"
        )
        visible = "#pragma GCC visibility push(default)"
        return f'// {contract.accumulator}\n{visible}\n#include "abi.h"\n{table}{_EXPORTS}{broken}'


def toolchain(folder: Path) -> Toolchain:
    """With an nvcc in `folder` that counts its calls there."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "fake_nvcc.py"
    if not script.exists():
        shutil.copy(Path(__file__).with_name("fake_nvcc.py"), script)
        nvcc = folder / "nvcc"
        nvcc.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        nvcc.chmod(0o755)
    gxx = find_gxx()
    assert isinstance(gxx, Tool), gxx
    headers = Cutlass(folder, "4.2.0", "0123", "test")
    return Toolchain(Tool(folder / "nvcc", "13.0.88", "test"), gxx, headers, cuda_include=())


def builder(folder: Path, timeout_s: float = 60, sources: FakeSources | None = None) -> Builder:
    return Builder(
        toolchain(folder / "cuda"),
        Cache(folder / "cache"),
        "sm_90a",
        timeout_s,
        sources or FakeSources(),
        CONTRACT,
    )


def calls(folder: Path) -> list[list[str]]:
    """The symbols of each nvcc call so far."""
    log = folder / "cuda" / "calls"
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []
