"""Python's side of the host library's C ABI; the C++ side is `abi.h` beside this file.

Only struct layouts and prototypes: nothing is loaded here, so the parent (probing a fresh build)
and the child (filling Params for a launch) share one description.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

ABI_VERSION = 1
HEADER = Path(__file__).with_name("abi.h")
RASTERS = ("heuristic", "along_m", "along_n")
DECOMPOSITIONS = ("heuristic", "data_parallel", "split_k", "stream_k")
REDUCTIONS = ("deterministic", "nondeterministic")


class Description(ctypes.Structure):
    """ct_description."""

    _fields_ = [
        ("params_bytes", ctypes.c_int32),
        ("params_align", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("smem_bytes", ctypes.c_int32),
        ("stages", ctypes.c_int32),
        ("tile", ctypes.c_int32 * 3),
        ("cluster", ctypes.c_int32 * 3),
    ]


class Call(ctypes.Structure):
    """ct_call."""

    _fields_ = [
        ("dims", ctypes.c_int64 * 8),
        ("pointers", ctypes.c_uint64 * 8),
        ("scalars", ctypes.c_float * 4),
        ("launch", ctypes.c_int32 * 8),
        ("sm_count", ctypes.c_int32),
        ("max_active_clusters", ctypes.c_int32),
        ("workspace", ctypes.c_uint64),
    ]


class Plan(ctypes.Structure):
    """ct_plan."""

    _fields_ = [
        ("grid", ctypes.c_int32 * 3),
        ("swizzle", ctypes.c_int32),
        ("raster", ctypes.c_int32),
        ("splits", ctypes.c_int32),
        ("workspace_bytes", ctypes.c_int64),
        ("zero_offset", ctypes.c_int64),
        ("zero_bytes", ctypes.c_int64),
    ]


class HostLibrary:
    """A loaded host library. Raises OSError when it cannot be loaded or speaks another ABI."""

    def __init__(self, path: str) -> None:
        self._dll = ctypes.CDLL(path)
        version = self._dll.ct_abi_version()
        if version != ABI_VERSION:
            raise OSError(f"{path}: host library ABI {version}, this version speaks {ABI_VERSION}")
        self._dll.ct_kernel_symbol.restype = ctypes.c_char_p
        self.path = path
        self.count = int(self._dll.ct_kernel_count())

    def symbol(self, kernel: int) -> str:
        name: bytes = self._dll.ct_kernel_symbol(kernel)
        return name.decode()

    def describe(self, kernel: int) -> Description:
        out = Description()
        self._checked(self._dll.ct_describe(kernel, ctypes.byref(out)), kernel)
        return out

    def plan(self, kernel: int, call: Call) -> Plan | None:
        """What a launch would look like; None when the kernel's can_implement refuses the call."""
        out = Plan()
        status = self._checked(self._dll.ct_make_plan(kernel, ctypes.byref(call), ctypes.byref(out)), kernel)
        return out if status == 0 else None

    def fill(self, kernel: int, call: Call, address: int) -> None:
        """Write the Params of this call at `address`. Raises ValueError where the call is refused or
        the driver makes no TMA descriptor of it."""
        status = self._checked(
            self._dll.ct_fill_params(kernel, ctypes.byref(call), ctypes.c_void_p(address)), kernel
        )
        if status != 0:
            raise ValueError(f"{self.symbol(kernel)}: Params could not be filled (status {status})")

    def _checked(self, status: int, kernel: int) -> int:
        if status < 0:
            raise IndexError(f"{self.path}: no kernel {kernel}, the library holds {self.count}")
        return status
