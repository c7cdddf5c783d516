"""nvcc and NVRTC on the same kernel: CPU seconds of the device part, bytes of cubin, registers.

nice python tests/build/bench_compilers.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Event

from cutlass_tuner.build import nvrtc, ptxas, toolchain
from cutlass_tuner.build.nvcc import Nvcc
from cutlass_tuner.build.process import run_together
from cutlass_tuner.build.sources import DeviceCompiler
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.records import Contract, KernelConfig

CONTRACT = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
KERNEL = KernelConfig(
    family="tma_ws",
    knobs={
        "layout": "tn",
        "tile_m": 64,
        "tile_n": 64,
        "tile_k": 64,
        "cluster_m": 1,
        "cluster_n": 1,
        "schedule": "plain",
        "stages": 6,
        "epilogue": "tma",
        "scheduler": "persistent",
        "swap_ab": False,
    },
)


def main() -> None:
    tools = toolchain.find()
    assert isinstance(tools, Toolchain), tools
    other = nvrtc.find(tools)
    assert isinstance(other, nvrtc.Nvrtc), other
    compilers: tuple[DeviceCompiler, ...] = (Nvcc(tools), other)
    for compiler in compilers:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source, cubin = folder / "device.cu", folder / "kernels.cubin"
            source.write_text(EMITTERS["gemm3x"].device_source([KERNEL], CONTRACT))
            [ended] = run_together([compiler.command(source, cubin, "sm_90a")], folder, 600, Event())
            assert ended.ok, ended.log
            [report] = ptxas.reports(ended.log).values()
            print(
                f"{compiler.version}: {ended.cpu_s:.1f} CPU s, {cubin.stat().st_size} bytes, "
                f"{report.registers} registers, {report.spill_bytes} bytes spilled"
            )


if __name__ == "__main__":
    main()
