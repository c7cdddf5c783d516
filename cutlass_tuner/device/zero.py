"""A kernel that zeroes a small range: stream-K's barriers before every launch.

A memset node in a CUDA graph costs about 2 us more than a kernel node (measured on an H200), so the
exported header zeroes with a kernel too; the same work is timed here.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from cuda.core import Program, ProgramOptions

from cutlass_tuner.device import driver

SOURCE = r"""
struct Range { unsigned int* words; unsigned int count; };
extern "C" __global__ void cutlass_tuner_zero(Range const range) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < range.count) { range.words[i] = 0u; }
}
"""
THREADS = 256


class _Range(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64), ("count", ctypes.c_uint32)]


@cache
def _function() -> driver.Function:
    major, minor = torch.cuda.get_device_capability()
    program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{major}{minor}"))
    cubin: bytes = program.compile("cubin").code
    return driver.load_function(cubin, "cutlass_tuner_zero", 0)


def zero_launch(address: int, size_bytes: int, stream: int) -> driver.Launch:
    """A launch that zeroes `size_bytes` (a multiple of 4) at device `address`."""
    words = (size_bytes + 3) // 4
    argument = _Range(address, words)
    config: Any = driver.launch_config(((words + THREADS - 1) // THREADS, 1, 1), THREADS, 0, stream)
    return driver.Launch(config, _function(), ctypes.addressof(argument), argument)
