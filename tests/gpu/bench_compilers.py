"""nvcc against NVRTC: the same kernels, built by both, timed against each other as finals are.

    python tests/gpu/bench_compilers.py

A ratio above 1 says that nvcc's build is the faster one; "95 %" is the interval of its median. About a minute
of compiling on 8 cores, where nothing is in the cache, and 15 s of measuring.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tabulate import tabulate

from cutlass_tuner import statistics
from cutlass_tuner.ops import registry
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.options import ToolchainOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.pipeline.finals import SAMPLE_US, USUAL
from cutlass_tuner.records import Build, KernelConfig, Problem, Scalar
from cutlass_tuner.space import Space
from cutlass_tuner.wire import ContestResult, KernelEntry, Timed

ARCH = "sm_90a"
NVCC, NVRTC = ToolchainOptions(compiler="nvcc"), ToolchainOptions(compiler="nvrtc")
SIZES = (512, 2048, 8192)
ROUNDS = 41
KERNELS: Mapping[str, Mapping[str, Scalar]] = {
    "cooperative 128x128x64": {},
    "pingpong 128x128x64": {"schedule": "pingpong", "stages": 5},
    "plain 64x64x64": {"schedule": "plain", "tile_m": 64, "tile_n": 64, "cluster_m": 1, "stages": 6},
}


def main() -> None:
    began = time.monotonic()
    op = registry.op("hgemm")
    space = Space.of(op.name, ARCH)
    kernels = [space.effective(space.kernel(**k), op.nominal_device(ARCH)) for k in KERNELS.values()]
    with ThreadPoolExecutor() as threads:
        both = [threads.submit(built, op, kernel, by) for by in (NVCC, NVRTC) for kernel in kernels]
        builds = [one.result() for one in both]
    print(f"[{time.monotonic() - began:.1f} s] built", flush=True)
    rows = []
    with Bench(op, "cold", 0, setup.child_log()) as bench:
        for name, nvcc, nvrtc in zip(KERNELS, builds, builds[len(kernels) :], strict=False):
            for size in SIZES:
                problem = op.problem((size, size, size), "tn")
                rows.append({"kernel": name} | row(bench, problem, nvcc, nvrtc))
    print(tabulate(rows, headers="keys", floatfmt=".3f"), flush=True)


def built(op: Op, kernel: KernelConfig, by: ToolchainOptions) -> Build:
    (outcome,) = setup.builder(setup.toolchain(by), ARCH, op, by).build([kernel])
    if not isinstance(outcome, Build):
        raise SystemExit(f"{by.compiler} does not build {kernel.key}: {outcome.reason}\n{outcome.detail}")
    return outcome


def row(bench: Bench, problem: Problem, nvcc: Build, nvrtc: Build) -> dict[str, object]:
    launch = Space.of(bench.op.name, ARCH).launch()
    entries: list[KernelEntry] = [
        bench.kernel_entry(build, launch).model_copy(update={"name": name})
        for name, build in (("nvcc", nvcc), ("nvrtc", nvrtc))
    ]
    result = bench.contest(problem, entries, ROUNDS, sample_us=SAMPLE_US, steady_s=USUAL.steady_s)
    if not isinstance(result, ContestResult):
        raise SystemExit(f"{problem.label}: {result.reason}\n{result.detail}")
    a, b = result.entries
    if not (isinstance(a, Timed) and isinstance(b, Timed)):
        raise SystemExit(f"{problem.label}: {a} {b}")
    pair = statistics.paired(a.samples_us, b.samples_us)
    assert pair is not None
    return {
        "problem": problem.label,
        "nvcc us": statistics.median_us(a.samples_us),
        "nvrtc us": statistics.median_us(b.samples_us),
        "ratio": pair.ratio,
        "95 %": f"{pair.low:.3f}-{pair.high:.3f}",
    }


if __name__ == "__main__":
    main()
