"""Can this machine tune? Judges the facts of `machine.survey`, one finding a line, each with what to do.

A problem keeps `tune` from running or from being right; a note is worth knowing and stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cutlass_tuner.build.toolchain import Cutlass, Tool
from cutlass_tuner.machine import CacheState, Driver, GpuState, Machine, TorchBuild

Status = Literal["ok", "note", "problem"]

TUNABLE = {"sm_90": "sm_90a"}
"""Architectures that a shipped space can be measured on, and nvcc's name for their full feature set."""

LEAST_FREE_BYTES = 4 << 30
"""Inputs, reference and two L2's worth of rotated buffers of a mid-sized problem."""


@dataclass(frozen=True)
class Finding:
    """One line of the report. `advice` is empty where there is nothing to do."""

    status: Status
    name: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Report:
    """The printed report, and whether `tune` can run here."""

    text: str
    can_tune: bool


def report(findings: list[Finding]) -> Report:
    """The findings as aligned lines and a last line that sums them up."""
    lines = [
        f"{one.status:<8} {one.name:<12} {one.text}{'; ' + one.advice if one.advice else ''}"
        for one in findings
    ]
    problems = [one.name for one in findings if one.status == "problem"]
    if not problems:
        return Report("\n".join([*lines, "tune can run here"]), can_tune=True)
    to_build = {"nvcc", "g++", "CUTLASS", "CUDA headers", "cache"}
    hint = (
        ""
        if to_build & set(problems)
        else "; `cutlass-tuner build --op hgemm --arch sm_90a` works without them"
    )
    return Report("\n".join([*lines, f"tune cannot run here: {', '.join(problems)}{hint}"]), can_tune=False)


def examine(machine: Machine) -> list[Finding]:
    """All findings, in the order of a trial: GPU, driver, compilers, libraries, cache."""
    return [
        *_gpu(machine),
        _driver(machine),
        _nvcc(machine.nvcc),
        _gxx(machine.gxx),
        _cutlass(machine.cutlass),
        *_toolkit(machine),
        _cuda_python(machine),
        _torch(machine.torch, machine.driver),
        _cublas(machine.cublas),
        _build_jobs(machine),
        _cache(machine.cache),
    ]


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _gpu(machine: Machine) -> Iterator[Finding]:
    gpus = machine.driver.gpus if isinstance(machine.driver, Driver) else ()
    if not gpus:
        yield Finding(
            "problem",
            "GPU",
            "none",
            "tune measures on a Hopper GPU (sm_90); build compiles for one without it",
        )
        return
    chosen = next((gpu for gpu in gpus if gpu.index == machine.gpu), None)
    if chosen is None:
        last = len(gpus) - 1
        yield Finding(
            "problem", "GPU", f"--gpu {machine.gpu} does not exist", f"give an index from 0 to {last}"
        )
        return
    name = f"{chosen.index}: {chosen.name}, {chosen.arch}"
    if chosen.arch in TUNABLE:
        yield Finding("ok", "GPU", name)
    else:
        yield Finding(
            "problem",
            "GPU",
            name,
            f"kernels are shipped for {', '.join(TUNABLE)}; choose such a GPU with --gpu",
        )
    yield _memory(chosen)
    yield _clocks(chosen)
    if chosen.processes:
        pids = ", ".join(str(pid) for pid in chosen.processes)
        yield Finding(
            "note", "others", f"processes {pids} use this GPU", "stop them: they disturb every measurement"
        )


def _memory(gpu: GpuState) -> Finding:
    text = f"{_gib(gpu.free_bytes)} free of {_gib(gpu.memory_bytes)}"
    if gpu.free_bytes >= LEAST_FREE_BYTES:
        return Finding("ok", "GPU memory", text)
    return Finding("problem", "GPU memory", text, f"free at least {_gib(LEAST_FREE_BYTES)}")


def _clocks(gpu: GpuState) -> Finding:
    known = [
        "" if gpu.sm_clock_mhz is None else f"SM {gpu.sm_clock_mhz} MHz now",
        "" if gpu.max_sm_clock_mhz is None else f"{gpu.max_sm_clock_mhz} MHz at most",
        "" if gpu.power_w is None else f"{gpu.power_w:.0f} W",
        "" if gpu.temperature_c is None else f"{gpu.temperature_c} °C",
    ]
    text = ", ".join(part for part in known if part) or "not reported by this GPU"
    if not gpu.throttle:
        return Finding("ok", "clocks", text)
    return Finding(
        "note",
        "clocks",
        f"{text}, held down by {', '.join(gpu.throttle)}",
        "let the card cool, or look at its power and clock limits",
    )


def _driver(machine: Machine) -> Finding:
    driver = machine.driver
    if isinstance(driver, str):
        return Finding(
            "problem", "driver", driver, "install the NVIDIA driver, or use a container that has it"
        )
    text = f"{driver.version}, CUDA {driver.cuda[0]}.{driver.cuda[1]}"
    needed = int(machine.nvcc.version.split(".")[0]) if isinstance(machine.nvcc, Tool) else 0
    # Within one major version a driver runs what a newer minor toolkit compiled; across majors it does not.
    if driver.cuda[0] < needed:
        return Finding("problem", "driver", text, f"nvcc makes kernels for CUDA {needed}: update the driver")
    return Finding("ok", "driver", text)


def _nvcc(nvcc: Tool | str) -> Finding:
    """What is missing says itself what to do: build.toolchain words it, for every command."""
    if isinstance(nvcc, str):
        return Finding("problem", "nvcc", nvcc)
    return Finding("ok", "nvcc", f"{nvcc.version}, {nvcc.path}, found through {nvcc.origin}")


def _gxx(gxx: Tool | str) -> Finding:
    if isinstance(gxx, str):
        return Finding("problem", "g++", gxx)
    return Finding("ok", "g++", f"{gxx.version}, {gxx.path}, found through {gxx.origin}")


def _cutlass(cutlass: Cutlass | str) -> Finding:
    if isinstance(cutlass, str):
        return Finding(
            "problem", "CUTLASS", cutlass, "pip install nvidia-cutlass==4.2.*, or give --cutlass DIR"
        )
    return Finding("ok", "CUTLASS", f"{cutlass.version}, {cutlass.root}, from {cutlass.origin}")


def _toolkit(machine: Machine) -> Iterator[Finding]:
    """Only where the compilers are there: without them their own lines say enough."""
    if isinstance(machine.nvcc, str) or isinstance(machine.gxx, str) or isinstance(machine.cutlass, str):
        return
    if isinstance(machine.toolkit, str):
        advice = "install compiler and headers of one CUDA version, or give another --nvcc PATH"
        yield Finding("problem", "CUDA headers", machine.toolkit, advice)
    else:
        yield Finding("ok", "CUDA headers", str(machine.toolkit[0]))


def _cuda_python(machine: Machine) -> Finding:
    versions = {
        "cuda-python": machine.cuda_python,
        "cuda-core": machine.cuda_core,
        "nvmath-python": machine.nvmath,
    }
    text = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Finding("problem", "cuda-python", text, f"pip install {' '.join(missing)}")
    if int(str(machine.cuda_python).split(".")[0]) < 13:
        return Finding("problem", "cuda-python", text, "pip install 'cuda-python>=13'")
    return Finding("ok", "cuda-python", text)


def _torch(torch: TorchBuild | str, driver: Driver | str) -> Finding:
    again = "install a build of torch for this driver's CUDA"
    if isinstance(torch, str):
        return Finding("problem", "torch", torch, again)
    if torch.cuda is None:
        return Finding(
            "problem", "torch", f"{torch.version} is a CPU build: it cannot check or time a kernel", again
        )
    text = f"{torch.version} for CUDA {torch.cuda}"
    if isinstance(driver, Driver) and int(torch.cuda.split(".")[0]) > driver.cuda[0]:
        return Finding("problem", "torch", f"{text}, newer than the driver's CUDA {driver.cuda[0]}", again)
    return Finding("ok", "torch", text)


def _cublas(cublas: str | None) -> Finding:
    if cublas is None:
        return Finding("problem", "cuBLAS", "no cublasLt library", "it comes with a CUDA build of torch")
    return Finding("ok", "cuBLAS", cublas)


def _cache(cache: CacheState) -> Finding:
    if cache.unwritable:
        text = f"{cache.folder}: cannot be written ({cache.unwritable})"
        return Finding("problem", "cache", text, "set CUTLASS_TUNER_CACHE to a folder that can")
    return Finding("ok", "cache", f"{cache.folder}: {cache.files} files, {_gib(cache.size_bytes)}")


def _build_jobs(machine: Machine) -> Finding:
    compilers = "1 compiler" if machine.jobs == 1 else f"{machine.jobs} compilers"
    text = f"{machine.cores} cores, {_gib(machine.free_memory_bytes)} memory free: {compilers} at once"
    if machine.jobs >= 8:
        return Finding("ok", "host", text)
    return Finding("note", "host", text, "searching is limited by building; a budget over 10m finds more")
