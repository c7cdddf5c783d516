"""Events of a made-up study, short to write in tests."""

from __future__ import annotations

from cutlass_tuner.events import KernelBuilt, KernelFailed, KernelTold, Measured, RunFailed, StudyHeader
from cutlass_tuner.records import (
    Build,
    Contract,
    DeviceFacts,
    Environment,
    Evidence,
    Failure,
    KernelConfig,
    LaunchConfig,
    Measurement,
    Problem,
    Proposal,
    Readback,
    Verdict,
)

CONTRACT = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")


def problem(m: int = 64, count: int = 1, name: str = "", contract: Contract = CONTRACT) -> Problem:
    dims = {"m": m, "n": 64, "k": 64, "batch": 1}
    return Problem(op="hgemm", dims=dims, layout="tn", contract=contract, count=count, name=name)


P1, P2, P3 = problem(64), problem(128), problem(256)


def header(name: str = "s", **environment: object) -> StudyHeader:
    values: dict[str, object] = {
        "gpu": "NVIDIA H200",
        "arch": "sm_90a",
        "sm_count": 132,
        "driver": "580.1",
        "cuda": "13.0",
        "compiler": "nvcc 13.0.88",
        "cublas": "13.1",
        "torch": "2.13",
        "cutlass": "4.2.0",
        "flags": ("-O3", "-DNDEBUG"),
        "tuner": "0.1.0",
    } | environment
    device = DeviceFacts(
        name="NVIDIA H200", arch="sm_90", sm_count=132, memory_bytes=1, l2_bytes=1, smem_per_block_bytes=1,
        driver="580.1", clock_mhz=1980,
    )  # fmt: skip
    return StudyHeader(
        name=name, op="hgemm", family="tma_ws", environment=Environment.model_validate(values), device=device,
        space_digest="0123456789abcdef", l2="cold", created="2026-01-01",
    )  # fmt: skip


def kernel(tile: int = 128) -> KernelConfig:
    return KernelConfig(family="tma_ws", knobs={"tile_m": tile})


def launch(swizzle: int = 1) -> LaunchConfig:
    return LaunchConfig(knobs={"swizzle": swizzle})


def proposal(tile: int = 128) -> Proposal:
    return Proposal(kernel=kernel(tile), source="sampler")


def built(tile: int = 128, at_s: float = 0.0) -> KernelBuilt:
    build = Build(
        kernel=kernel(tile), symbol="s", cubin="c", host_library="h", index=0, registers=1, spill_bytes=0,
        smem_bytes=1, threads=128, stages=2, params_bytes=1, cubin_bytes=1, compile_s=1.0, batch_size=1,
        cached=False,
    )  # fmt: skip
    return KernelBuilt(proposal=proposal(tile), build=build, at_s=at_s)


def build_failed(tile: int = 128, *, lasting: bool = True, at_s: float = 0.0) -> KernelFailed:
    failure = Failure(stage="build", reason="no", lasting=lasting)
    return KernelFailed(proposal=proposal(tile), failure=failure, at_s=at_s)


def told(tile: int = 128, at_s: float = 0.0, **log_ratio: float) -> KernelTold:
    return KernelTold(kernel=kernel(tile), log_ratio=log_ratio, at_s=at_s)


def measured(
    tile: int = 128,
    swizzle: int = 1,
    *,
    on: Problem = P1,
    us: tuple[float, ...] = (10.0, 10.0, 10.0),
    reference_us: tuple[float, ...] = (10.0, 10.0, 10.0),
    passed: bool = True,
    at_s: float = 0.0,
) -> Measured:
    measurement = Measurement(
        kernel=kernel(tile), launch=launch(swizzle), problem=on.key, reference="torch", samples_us=us,
        reference_us=reference_us, launches_per_sample=20, l2="cold",
        readback=Readback(
            grid=(1, 1, 1), cluster=(1, 1, 1), threads=384, smem_bytes=1, stages=3, workspace_bytes=0,
            zeroed_bytes=0,
        ),
        evidence=Evidence(
            elements=1, unwritten=0, nonfinite=0, guard_touched=0, error_over_bound=0.1, max_abs_error=0.1,
            exact_mismatches=0,
        ),
        verdict=Verdict(passed=passed, reasons=() if passed else ("wrong",)),
    )  # fmt: skip
    return Measured(measurement=measurement, at_s=at_s)


def run_failed(
    tile: int = 128, swizzle: int | None = 1, on: Problem = P1, stage: str = "worker", at_s: float = 0.0
) -> RunFailed:
    failure = Failure.model_validate({"stage": stage, "reason": "no answer in 20 s"})
    chosen = None if swizzle is None else launch(swizzle)
    return RunFailed(kernel=kernel(tile), launch=chosen, problem=on.key, failure=failure, at_s=at_s)
