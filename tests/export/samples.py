"""Two sibling kernels (one tile, one of them stream-K), as emitted, and problems they were tuned for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.emit.gemm3x import HOST_HEADER, Gemm3x
from cutlass_tuner.export.header import Exported, write
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned
from cutlass_tuner.records import (
    Config,
    Contract,
    Environment,
    KernelConfig,
    LaunchConfig,
    Problem,
    Tolerance,
)

CONTRACT = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
TOLERANCE = Tolerance(output_roundoff=2.0**-11, tiny=2.0**-25, accumulator_roundoff=2.0**-24, spread=4.0)
PROVENANCE = Provenance(
    environment=Environment(
        gpu="NVIDIA H200",
        arch="sm_90a",
        sm_count=132,
        driver="580.82",
        cuda="13.0",
        compiler="nvcc 13.0.88",
        cublas="13.0.2",
        torch="2.13.0",
        cutlass="4.2.0",
        flags=(
            *("-std=c++17", "-O3", "--expt-relaxed-constexpr"),
            *("-DNDEBUG", "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED"),
            "-gencode=arch=compute_90a,code=sm_90a",
        ),
        tuner="0.1.0",
    ),
    l2="cold",
    study="decoder",
    date="2025-11-30",
)


def kernel(scheduler: str = "persistent", **knobs: str | int | bool) -> KernelConfig:
    default: dict[str, str | int | bool] = {
        "layout": "tn",
        "tile_m": 128,
        "tile_n": 64,
        "tile_k": 64,
        "cluster_m": 1,
        "cluster_n": 1,
        "schedule": "cooperative",
        "stages": 4,
        "epilogue": "tma",
        "scheduler": scheduler,
        "swap_ab": False,
    }
    return KernelConfig(family="tma_ws", knobs={**default, **knobs})


def problem(m: int, n: int, k: int, *, layout: str = "tn", batch: int = 1, count: int = 1) -> Problem:
    dims = {"m": m, "n": n, "k": k, "batch": batch}
    return Problem(op="hgemm", dims=dims, layout=layout, contract=CONTRACT, count=count)


def tuned(
    shape: Problem,
    config: KernelConfig,
    time_us: float = 10.0,
    *,
    torch: float | None = 1.1,
    cublaslt: float | None = 1.05,
    codes: tuple[int, ...] = (2, 1, 1, 0, 0),
) -> Tuned:
    launch = LaunchConfig(knobs={"swizzle": codes[0], "raster": "along_m", "splits": codes[2]})
    beats = torch is not None and all(ratio is None or ratio > 1.0 for ratio in (torch, cublaslt))
    return Tuned(shape, Config(kernel=config, launch=launch), codes, time_us, torch, cublaslt, beats)


def texts(*configs: KernelConfig) -> dict[str, KernelText]:
    """What the pipeline hands over: the emitter's own texts by kernel key."""
    emitter = Gemm3x()
    return {
        config.key: KernelText(
            config=config,
            symbol=emitter.symbol(config),
            type_definitions=emitter.type_definitions(config, CONTRACT),
            wrapper=emitter.kernel_wrapper(config),
            template_arguments=emitter.template_arguments(config),
        )
        for config in configs
    }


PERSISTENT, STREAM_K = kernel("persistent"), kernel("streamk")


@dataclass
class Writer:
    """`write` with the arguments that no test varies."""

    out_dir: Path

    def __call__(self, entries: list[Tuned], **options: object) -> Exported:
        kernels = {entry.kernel_key: entry.config.kernel for entry in entries}
        arguments: dict[str, object] = {
            "kernels": texts(*kernels.values()),
            "includes": Gemm3x().includes(),
            "host_header": HOST_HEADER.read_text(),
            "provenance": PROVENANCE,
            "tolerance": TOLERANCE,
            "out_dir": self.out_dir,
        }
        return write(entries, **{**arguments, **options})  # type: ignore[arg-type]


TWO_KERNELS = [
    tuned(problem(1024, 2048, 512), PERSISTENT, 12.5),
    tuned(problem(128, 256, 16384), STREAM_K, 20.25, torch=0.9, cublaslt=0.8, codes=(1, 0, 8, 0, 0)),
    tuned(problem(64, 256, 1024, batch=3), PERSISTENT, 5.0, torch=None, cublaslt=None),
]
