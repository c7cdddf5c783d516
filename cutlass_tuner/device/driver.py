"""The CUDA driver calls a kernel launch needs, through cuda-python, each checked."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver

FATAL = {
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_UNKNOWN",
}
"""Errors after which the context answers every call with the same error: only a new process helps."""


class DriverError(Exception):
    """A driver call failed. `name` is the CUresult's name; `fatal` says the context is gone."""

    def __init__(self, name: str, call: str) -> None:
        super().__init__(f"{call}: {name}")
        self.name = name
        self.fatal = name in FATAL


def checked(call: str, result: tuple[Any, ...]) -> Any:
    """The value of a cuda-python call, or a DriverError naming `call`."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(status.name, call)
    return values[0] if len(values) == 1 else tuple(values)


@dataclass(frozen=True)
class Function:
    """A kernel loaded from a cubin, its dynamic shared memory allowed."""

    handle: Any
    module: Any


def load_function(cubin: bytes, symbol: str, smem_bytes: int) -> Function:
    """Load one kernel. Raises DriverError (no such symbol, wrong architecture, too much smem)."""
    module = checked("cuModuleLoadData", driver.cuModuleLoadData(cubin))
    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    try:
        handle = checked("cuModuleGetFunction", driver.cuModuleGetFunction(module, symbol.encode()))
        allowed = driver.cuFuncSetAttribute(handle, most, smem_bytes)
        checked("cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)", allowed)
    except DriverError:
        driver.cuModuleUnload(module)
        raise
    return Function(handle, module)


def unload(function: Function) -> None:
    checked("cuModuleUnload", driver.cuModuleUnload(function.module))


def _cluster_attribute(cluster: tuple[int, int, int]) -> Any:
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster
    return attribute


def launch_config(
    grid: tuple[int, int, int],
    threads: int,
    smem_bytes: int,
    stream: int,
    cluster: tuple[int, int, int] = (1, 1, 1),
) -> Any:
    """A CUlaunchConfig. `grid` counts CTAs; the cluster attribute is set even for 1x1x1, because
    CUTLASS's kernels read their rank in the cluster."""
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = smem_bytes
    config.hStream = driver.CUstream(stream)
    config.attrs = [_cluster_attribute(cluster)]
    config.numAttrs = 1
    return config


def max_active_clusters(
    function: Function, threads: int, smem_bytes: int, cluster: tuple[int, int, int]
) -> int:
    """How many clusters of this kernel fit on the card at once (0 when the driver cannot tell)."""
    config = launch_config(cluster, threads, smem_bytes, 0, cluster)
    status, count = driver.cuOccupancyMaxActiveClusters(function.handle, config)
    return int(count) if status == driver.CUresult.CUDA_SUCCESS else 0


class Launch:
    """One launch, ready to be enqueued again and again: config, function and its one argument.

    The argument lives in `argument` (a ctypes object) for as long as this object does; the driver
    copies it at launch and at graph capture.
    """

    def __init__(self, config: Any, function: Function, argument_address: int, keep: object) -> None:
        self._config = config
        self._handle = function.handle
        self._keep = keep
        self._parameters = (ctypes.c_void_p * 1)(argument_address)
        self._address = ctypes.addressof(self._parameters)

    def __call__(self) -> None:
        status = driver.cuLaunchKernelEx(self._config, self._handle, self._address, 0)[0]
        if status != driver.CUresult.CUDA_SUCCESS:
            raise DriverError(status.name, "cuLaunchKernelEx")
