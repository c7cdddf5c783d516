"""A kernel of ours: cubin and host library loaded, Params filled, ready to launch."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from cutlass_tuner import abi
from cutlass_tuner.device import driver
from cutlass_tuner.device.zero import zero_launch
from cutlass_tuner.records import Readback
from cutlass_tuner.wire import KernelEntry

LOADED_AT_ONCE = 512
PARAMS_ALIGN = 64


class PlanRefused(Exception):
    """The kernel's can_implement refuses this call."""


class Kernel:
    """One loaded kernel. Raises OSError for a bad host library, DriverError for a bad cubin."""

    def __init__(self, entry: KernelEntry) -> None:
        self._library = _host_library(entry.host_library)
        self._index = entry.index
        named = self._library.symbol(entry.index)
        if named != entry.symbol:
            raise OSError(f"{entry.host_library}: kernel {entry.index} is {named}, not {entry.symbol}")
        about = self._library.describe(entry.index)
        self.threads, self.smem_bytes, self.stages = about.threads, about.smem_bytes, about.stages
        self.cluster = (about.cluster[0], about.cluster[1], about.cluster[2])
        self._params_bytes, self._params_align = about.params_bytes, about.params_align
        self.function = driver.load_function(Path(entry.cubin).read_bytes(), entry.symbol, self.smem_bytes)
        self._clusters = driver.max_active_clusters(
            self.function, self.threads, self.smem_bytes, self.cluster
        )
        self._sm_count = torch.cuda.get_device_properties(0).multi_processor_count

    def call(
        self, dims: tuple[int, ...], pointers: tuple[int, ...], scalar: float, codes: tuple[int, ...]
    ) -> abi.Call:
        """A call without workspace, to be planned."""
        call = abi.Call()
        call.dims[: len(dims)] = dims
        call.pointers[: len(pointers)] = pointers
        call.scalars[0] = scalar
        call.launch[: len(codes)] = codes
        call.sm_count = self._sm_count
        call.max_active_clusters = self._clusters
        return call

    def plan(self, call: abi.Call) -> abi.Plan:
        plan = self._library.plan(self._index, call)
        if plan is None:
            raise PlanRefused("the kernel's can_implement refuses this problem and launch")
        return plan

    def readback(self, plan: abi.Plan) -> Readback:
        """What the filled Params say will run."""
        known = {1: "along_m", 2: "along_n"}
        return Readback(
            grid=(plan.grid[0], plan.grid[1], plan.grid[2]),
            cluster=self.cluster,
            threads=self.threads,
            smem_bytes=self.smem_bytes,
            stages=self.stages,
            workspace_bytes=plan.workspace_bytes,
            zeroed_bytes=plan.zero_bytes,
            swizzle=None if plan.swizzle < 0 else plan.swizzle,
            raster=known.get(plan.raster),
            splits=None if plan.splits < 0 else plan.splits,
        )

    def bind(self, calls: Sequence[abi.Call], plan: abi.Plan, stream: int) -> list[Callable[[], None]]:
        """For each call a function that enqueues all a caller must pay for: zeroing, then the kernel.

        The calls differ in pointers and scalars only, so one plan and one launch configuration serve
        them; a ring of operand sets has hundreds. Their Params live in one block.
        """
        align = max(self._params_align, PARAMS_ALIGN)
        size = (self._params_bytes + align - 1) // align * align
        storage = ctypes.create_string_buffer(size * len(calls) + align)
        base = (ctypes.addressof(storage) + align - 1) // align * align
        grid = (plan.grid[0], plan.grid[1], plan.grid[2])
        config = driver.launch_config(grid, self.threads, self.smem_bytes, stream, self.cluster)
        kernels = []
        for index, call in enumerate(calls):
            self._library.fill(self._index, call, base + index * size)
            kernels.append(driver.Launch(config, self.function, base + index * size, storage))
        if plan.zero_bytes == 0:
            return list(kernels)
        # The workspace is one for all calls: launches of a stream never overlap.
        zero = zero_launch(calls[0].workspace + plan.zero_offset, plan.zero_bytes, stream)
        return [_in_order(zero, kernel) for kernel in kernels]


def _in_order(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        second()

    return both


_File = tuple[str, int, int]
_libraries: dict[_File, abi.HostLibrary] = {}
_kernels: OrderedDict[tuple[_File, str], Kernel] = OrderedDict()


def _file(path: str) -> _File:
    """A file as it is now: one that was built again under the same name is another file."""
    status = Path(path).stat()
    return path, status.st_ino, status.st_mtime_ns


def _host_library(path: str) -> abi.HostLibrary:
    key = _file(path)
    if key not in _libraries:
        _libraries[key] = abi.HostLibrary(path)
    return _libraries[key]


def load(entry: KernelEntry) -> Kernel:
    """The kernel of this entry, loaded once; the least recently used are unloaded."""
    key = (_file(entry.cubin), entry.symbol)
    if key not in _kernels:
        _kernels[key] = Kernel(entry)
    _kernels.move_to_end(key)
    while len(_kernels) > LOADED_AT_ONCE:
        _, oldest = _kernels.popitem(last=False)
        driver.unload(oldest.function)
    return _kernels[key]
