"""What this machine has: GPUs, driver, compilers, libraries. Facts only, no judgement, and no CUDA context.

The driver is asked through NVML (nvidia-ml-py), which leaves the GPU alone; what is missing is None, or a
text that says why. `doctor` judges these facts.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from cutlass_tuner.build.pool import available_memory, default_jobs
from cutlass_tuner.build.toolchain import Cutlass, Tool, find, find_cutlass, find_gxx, find_nvcc
from cutlass_tuner.options import ToolchainOptions
from cutlass_tuner.records import Failure
from cutlass_tuner.settings import settings

# NVML's clock event reasons that slow a kernel down (nvml.h, nvmlClocksEventReason*); idle is none of them.
_THROTTLE = {
    0x02: "application clocks",
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
    0x100: "display clocks",
}


# These two headers refuse each other, or the compiler, where packages of several CUDA versions are mixed.
TRIAL = (
    "#include <cuda_runtime.h>\n#include <cuda/std/utility>\n__global__ void trial(int* out) { *out = 1; }\n"
)

Found = TypeVar("Found")


@dataclass(frozen=True)
class GpuState:
    """One GPU as NVML sees it now. Bytes, MHz, watts, degrees; `processes` are others' process ids.

    A value that this GPU or driver does not report is None.
    """

    index: int
    name: str
    arch: str
    memory_bytes: int
    free_bytes: int
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle: tuple[str, ...] = ()
    processes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Driver:
    """The driver's version, the newest CUDA it supports, and its GPUs in nvidia-smi's order."""

    version: str
    cuda: tuple[int, int]
    gpus: tuple[GpuState, ...]


@dataclass(frozen=True)
class TorchBuild:
    """`cuda` is the CUDA version torch was built for, None for a CPU build."""

    version: str
    cuda: str | None


@dataclass(frozen=True)
class CacheState:
    """The folder of built kernels: how many files and bytes are under it now, and why none can be added."""

    folder: str
    files: int
    size_bytes: int
    unwritable: str = ""


@dataclass(frozen=True)
class Machine:
    """Everything `doctor` looks at. Where something could not be had, a text says why instead.

    `jobs` is how many compilers a tune without --jobs runs at once.
    """

    gpu: int
    python: str
    cores: int
    free_memory_bytes: int
    jobs: int
    driver: Driver | str
    nvcc: Tool | str
    gxx: Tool | str
    cutlass: Cutlass | str
    toolkit: tuple[Path, ...] | str
    cuda_python: str | None
    cuda_core: str | None
    nvmath: str | None
    torch: TorchBuild | str
    cublas: str | None
    cache: CacheState


def survey(toolchain: ToolchainOptions, gpu: int) -> Machine:
    """Look at everything once. Takes a few seconds, most of them torch's import."""
    torch = torch_build()  # before cuBLAS: the library that torch loads is the one that counts
    return Machine(
        gpu=gpu,
        python=platform.python_version(),
        cores=len(os.sched_getaffinity(0)),
        free_memory_bytes=available_memory(),
        jobs=default_jobs(),
        driver=driver(),
        nvcc=_or_reason(find_nvcc(toolchain.nvcc)),
        gxx=_or_reason(find_gxx()),
        cutlass=_cutlass(toolchain.cutlass),
        toolkit=_toolkit(toolchain),
        cuda_python=_package("cuda-python"),
        cuda_core=_package("cuda-core"),
        nvmath=_package("nvmath-python"),
        torch=torch,
        cublas=_cublas(),
        cache=cache(settings().cache_dir),
    )


def driver() -> Driver | str:
    """The NVIDIA driver and its GPUs through NVML, or why there is none."""
    try:
        import pynvml
    except ImportError:
        return "the package nvidia-ml-py is missing"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return str(error)
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        return Driver(
            version=str(pynvml.nvmlSystemGetDriverVersion()),
            cuda=(cuda // 1000, cuda % 1000 // 10),
            gpus=tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())),
        )
    except pynvml.NVMLError as error:
        return str(error)
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: ModuleType, index: int) -> GpuState:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)

    def optional(function: str, *arguments: object) -> Any:
        """Many of NVML's questions are refused on some GPUs, in containers, or under MIG."""
        try:
            return getattr(nvml, function)(handle, *arguments)
        except nvml.NVMLError:
            return None

    milliwatts = optional("nvmlDeviceGetPowerUsage")
    reasons = optional("nvmlDeviceGetCurrentClocksEventReasons") or 0
    return GpuState(
        index=index,
        name=str(nvml.nvmlDeviceGetName(handle)),
        arch=f"sm_{major}{minor}",
        memory_bytes=int(memory.total),
        free_bytes=int(memory.free),
        sm_clock_mhz=optional("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        max_sm_clock_mhz=optional("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        power_w=None if milliwatts is None else milliwatts / 1000,
        temperature_c=optional("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        throttle=throttle_names(reasons),
        processes=tuple(int(one.pid) for one in optional("nvmlDeviceGetComputeRunningProcesses") or ()),
    )


def throttle_names(reasons: int) -> tuple[str, ...]:
    """The names of NVML's clock event bits, without idle."""
    return tuple(name for bit, name in _THROTTLE.items() if reasons & bit)


def torch_build() -> TorchBuild | str:
    """The torch installed here, or why it cannot be imported."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return " ".join(str(error).split())
    return TorchBuild(version=str(torch.__version__), cuda=torch.version.cuda)


def _or_reason(found: Found | Failure) -> Found | str:
    return found.reason if isinstance(found, Failure) else found


def _cutlass(folder: Path | None) -> Cutlass | str:
    try:
        return find_cutlass(folder)
    except ImportError as error:
        return str(error)


def _toolkit(toolchain: ToolchainOptions) -> tuple[Path, ...] | str:
    """The toolkit's header folders if a trial kernel compiles with them, else what keeps it from that."""
    try:
        found = find(toolchain.nvcc, toolchain.cutlass)
    except ImportError as error:
        return str(error)
    if isinstance(found, Failure):
        return found.reason
    with tempfile.TemporaryDirectory() as scratch:
        source, cubin = Path(scratch, "trial.cu"), Path(scratch, "trial.cubin")
        source.write_text(TRIAL)
        command = found.device_command(source, cubin, "sm_90a")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode == 0:
        return found.cuda_include
    said = [line.strip() for line in done.stderr.splitlines() if "error" in line] or ["it said nothing"]
    return f"{found.nvcc.path} compiles no trial kernel with {found.cuda_include[0]}: {said[0]}"


def _package(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cublas() -> str | None:
    """The version of the cuBLASLt this process would load, asked of the library itself."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library = ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
    except (ImportError, OSError, RuntimeError):
        return None
    number = ctypes.c_int()
    parts: list[str] = []
    for part in range(3):  # libraryPropertyType: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        library.cublasLtGetProperty(part, ctypes.byref(number))
        parts.append(str(number.value))
    return ".".join(parts)


def cache(folder: Path) -> CacheState:
    """What is in the cache folder, and whether kernels can be added: tried by writing there."""
    try:
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    except OSError as error:
        return CacheState(str(folder), 0, 0, _why(error))
    return CacheState(str(folder), len(sizes), sum(sizes), _unwritable(folder))


def _unwritable(folder: Path) -> str:
    """Why nothing can be written there, "" if it can. Tried with a file that is gone at once; a folder that
    is not there yet is not made, but its nearest parent tried."""
    while not os.path.lexists(folder):
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"written")
    except OSError as error:
        return _why(error)
    return ""


def _why(error: OSError) -> str:
    return error.strerror or str(error)
