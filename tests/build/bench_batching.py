"""What batching saves: kernels per CPU-minute of one translation unit against one unit a kernel.

    nice python tests/build/bench_batching.py

Six kernels that share tile and schedule (three clusters, two schedulers), an empty cache for each way,
one compiler at a time. Prints CPU seconds of nvcc and g++ together, and cubin sizes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from cutlass_tuner.build import toolchain
from cutlass_tuner.build.batches import batches
from cutlass_tuner.build.builder import Builder
from cutlass_tuner.build.cache import Cache
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.records import Build, Contract, KernelConfig

CONTRACT = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
EMITTER = EMITTERS["gemm3x"]


def siblings() -> list[KernelConfig]:
    shared = {"layout": "tn", "tile_m": 128, "tile_n": 128, "tile_k": 64, "schedule": "cooperative"}
    shared |= {"stages": 6, "epilogue": "tma", "swap_ab": False}
    return [
        KernelConfig(family="tma_ws", knobs=shared | {"cluster_m": m, "cluster_n": n, "scheduler": scheduler})
        for (m, n), scheduler in product(((1, 1), (2, 1), (1, 2)), ("persistent", "streamk"))
    ]


def build(tools: Toolchain, parts: Sequence[Sequence[KernelConfig]]) -> list[Build]:
    with tempfile.TemporaryDirectory() as root:
        builder = Builder(tools, Cache(Path(root)), "sm_90a", 600, EMITTER, CONTRACT)
        outcomes = [outcome for part in parts for outcome in builder.build(part)]
    assert all(isinstance(outcome, Build) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Build)]


def main() -> None:
    tools = toolchain.find()
    assert isinstance(tools, Toolchain), tools
    kernels = siblings()
    print(f"{tools.compiler}, CUTLASS {tools.cutlass}, {len(kernels)} kernels")
    rates = {}
    ways = {"one unit": batches(kernels, EMITTER, 6), "a unit each": [[kernel] for kernel in kernels]}
    for name, parts in ways.items():
        built = build(tools, parts)
        cpu_s = sum(each.compile_s for each in built)
        rates[name] = 60 * len(built) / cpu_s
        size = sum(each.cubin_bytes // each.batch_size for each in built)
        print(f"{name}: {cpu_s:.1f} CPU s, {rates[name]:.2f} kernels per CPU-minute, {size} bytes of cubin")
    print(f"ratio {rates['one unit'] / rates['a unit each']:.2f}")


if __name__ == "__main__":
    main()
