"""Doctor's judgement over planted facts: each one wrong thing is one finding, with what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutlass_tuner.build.toolchain import Cutlass, Tool
from cutlass_tuner.doctor import Finding, examine, report
from cutlass_tuner.machine import CacheState, Driver, GpuState, Machine, TorchBuild, cache, throttle_names

GIB = 2**30
H200 = GpuState(
    index=0,
    name="NVIDIA H200",
    arch="sm_90",
    memory_bytes=140 * GIB,
    free_bytes=139 * GIB,
    sm_clock_mhz=345,
    max_sm_clock_mhz=1980,
    power_w=76.4,
    temperature_c=30,
)
HEALTHY = Machine(
    gpu=0,
    python="3.11.7",
    cores=16,
    free_memory_bytes=128 * GIB,
    jobs=15,
    driver=Driver("580.95.05", (13, 0), (H200,)),
    nvcc=Tool(Path("/cuda/bin/nvcc"), "13.0.88", "CUDA_HOME"),
    gxx=Tool(Path("/usr/bin/g++"), "12.2.0", "PATH"),
    cutlass=Cutlass(Path("/site/source"), "4.2.0", "0123", "nvidia-cutlass"),
    toolkit=(Path("/cuda/include"),),
    cuda_python="13.4.4",
    cuda_core="1.2.2",
    nvmath="1.0.0",
    torch=TorchBuild("2.13.0", "13.0"),
    cublas="13.1.0",
    cache=CacheState("/home/me/.cache/cutlass-tuner", 12, 3 * GIB),
)


def finding(machine: Machine, name: str) -> Finding:
    (found,) = [one for one in examine(machine) if one.name == name]
    return found


def with_gpu(**changes: Any) -> Machine:
    return replace(HEALTHY, driver=Driver("580.95.05", (13, 0), (replace(H200, **changes),)))


def test_a_healthy_machine_can_tune() -> None:
    findings = examine(HEALTHY)
    assert {one.status for one in findings} == {"ok"}
    assert all(one.advice == "" for one in findings)
    told = report(findings)
    assert told.can_tune
    assert told.text.splitlines() == [
        "ok       GPU          0: NVIDIA H200, sm_90",
        "ok       GPU memory   139.0 GiB free of 140.0 GiB",
        "ok       clocks       SM 345 MHz now, 1980 MHz at most, 76 W, 30 °C",
        "ok       driver       580.95.05, CUDA 13.0",
        "ok       nvcc         13.0.88, /cuda/bin/nvcc, found through CUDA_HOME",
        "ok       g++          12.2.0, /usr/bin/g++, found through PATH",
        "ok       CUTLASS      4.2.0, /site/source, from nvidia-cutlass",
        "ok       CUDA headers /cuda/include",
        "ok       cuda-python  cuda-python 13.4.4, cuda-core 1.2.2, nvmath-python 1.0.0",
        "ok       torch        2.13.0 for CUDA 13.0",
        "ok       cuBLAS       13.1.0",
        "ok       host         16 cores, 128.0 GiB memory free: 15 compilers at once",
        "ok       cache        /home/me/.cache/cutlass-tuner: 12 files, 3.0 GiB",
        "tune can run here",
    ]


@pytest.mark.parametrize(
    ("machine", "name", "text", "advice"),
    [
        (
            replace(HEALTHY, driver="NVML Shared Library Not Found"),
            "driver",
            "NVML Shared",
            "install the NVIDIA",
        ),
        (
            replace(HEALTHY, driver="NVML Shared Library Not Found"),
            "GPU",
            "none",
            "build compiles for one without",
        ),
        (
            replace(HEALTHY, driver=Driver("580", (13, 0), ())),
            "GPU",
            "none",
            "build compiles for one without",
        ),
        (replace(HEALTHY, gpu=1), "GPU", "--gpu 1 does not exist", "an index from 0 to 0"),
        (with_gpu(arch="sm_80", name="NVIDIA A100"), "GPU", "0: NVIDIA A100, sm_80", "shipped for sm_90"),
        (with_gpu(free_bytes=3 * GIB), "GPU memory", "3.0 GiB free", "free at least 4.0 GiB"),
        (
            replace(HEALTHY, driver=Driver("570", (12, 8), (H200,))),
            "driver",
            "570, CUDA 12.8",
            "CUDA 13: update",
        ),
        (replace(HEALTHY, nvcc="no nvcc; install it"), "nvcc", "no nvcc; install it", ""),
        (replace(HEALTHY, gxx="no g++; install it"), "g++", "no g++; install it", ""),
        (replace(HEALTHY, cutlass="no version.h"), "CUTLASS", "no version.h", "pip install nvidia-cutlass"),
        (
            replace(HEALTHY, toolkit="no cuda_runtime.h"),
            "CUDA headers",
            "no cuda_runtime.h",
            "of one CUDA version",
        ),
        (replace(HEALTHY, cuda_python="12.9.0"), "cuda-python", "12.9.0", "'cuda-python>=13'"),
        (replace(HEALTHY, cuda_core=None), "cuda-python", "cuda-core missing", "pip install cuda-core"),
        (replace(HEALTHY, nvmath=None), "cuda-python", "nvmath-python missing", "pip install nvmath-python"),
        (replace(HEALTHY, torch="No module named 'torch'"), "torch", "No module", "install a build of torch"),
        (
            replace(HEALTHY, torch=TorchBuild("2.13.0+cpu", None)),
            "torch",
            "is a CPU build",
            "install a build",
        ),
        (
            replace(HEALTHY, torch=TorchBuild("3.0", "14.1")),
            "torch",
            "newer than the driver's CUDA 13",
            "install",
        ),
        (replace(HEALTHY, cublas=None), "cuBLAS", "no cublasLt library", "CUDA build of torch"),
        (
            replace(HEALTHY, cache=CacheState("/ro", 0, 0, "Read-only file system")),
            "cache",
            "/ro: cannot be written (Read-only file system)",
            "set CUTLASS_TUNER_CACHE",
        ),
    ],
)
def test_one_wrong_thing_is_a_problem(machine: Machine, name: str, text: str, advice: str) -> None:
    found = finding(machine, name)
    assert found.status == "problem"
    assert text in found.text
    assert advice in found.advice
    told = report(examine(machine))
    assert not told.can_tune
    assert name in told.text.splitlines()[-1]


@pytest.mark.parametrize(
    ("machine", "name", "text"),
    [
        (
            with_gpu(throttle=("power cap", "hardware thermal")),
            "clocks",
            "held down by power cap, hardware thermal",
        ),
        (with_gpu(processes=(41, 42)), "others", "processes 41, 42 use this GPU"),
        (replace(HEALTHY, cores=2, jobs=1), "host", "2 cores, 128.0 GiB memory free: 1 compiler at once"),
        (replace(HEALTHY, free_memory_bytes=7 * GIB, jobs=2), "host", "7.0 GiB memory free: 2 compilers"),
    ],
)
def test_a_note_stops_nothing(machine: Machine, name: str, text: str) -> None:
    found = finding(machine, name)
    assert found.status == "note"
    assert text in found.text
    assert found.advice
    assert report(examine(machine)).can_tune


def test_without_a_gpu_build_is_named_unless_it_cannot_run_either() -> None:
    bare = replace(HEALTHY, driver="NVML Shared Library Not Found")
    assert "`cutlass-tuner build --op hgemm --arch sm_90a`" in report(examine(bare)).text
    assert "cutlass-tuner build" not in report(examine(replace(bare, nvcc="none"))).text
    full = replace(bare, cache=CacheState("/full", 0, 0, "No space left on device"))
    assert "cutlass-tuner build" not in report(examine(full)).text


def test_the_cache_is_really_written_to_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "kernel").write_bytes(b"1234")
    assert cache(tmp_path) == CacheState(str(tmp_path), 1, 4)
    assert cache(tmp_path / "not" / "yet") == CacheState(str(tmp_path / "not" / "yet"), 0, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["kernel"]
    for place in (tmp_path / "kernel", tmp_path / "kernel" / "below"):
        assert cache(place).unwritable == "Not a directory"
    assert cache(Path("/proc/cache")).unwritable  # refused even to root


def test_a_gpu_that_reports_nothing_is_still_described() -> None:
    silent = with_gpu(sm_clock_mhz=None, max_sm_clock_mhz=None, power_w=None, temperature_c=None)
    assert finding(silent, "clocks") == Finding("ok", "clocks", "not reported by this GPU")


def test_the_gpu_asked_for_is_the_one_judged() -> None:
    two = (replace(H200, arch="sm_80"), replace(H200, index=1, free_bytes=50 * GIB))
    second = replace(HEALTHY, gpu=1, driver=Driver("580", (13, 0), two))
    assert finding(second, "GPU").text.startswith("1: ")
    assert finding(second, "GPU memory").text.startswith("50.0 GiB")
    assert report(examine(second)).can_tune


def test_nvmls_clock_reasons() -> None:
    """The bits of nvml.h; 1 is idle, which slows no kernel down."""
    assert throttle_names(0x01) == ()
    assert throttle_names(0x04 | 0x40) == ("power cap", "hardware thermal")
