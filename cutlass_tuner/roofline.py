"""How fast a problem could run: the measured roofline, and the floor below which a time is an error.

Two different questions. The roofline is what a perfect kernel would reach on the real card, so it is
made of measured figures and can be passed by a few percent. The floor is physics, so it is made of
the most any card of the architecture can do: nothing passes it, and a time below is a wrong time.
"""

from __future__ import annotations

import numpy as np

from cutlass_tuner.records import DeviceFacts, L2Mode

MIB = 1 << 20

EMPTY_KERNEL_US = 0.52
"""An empty kernel node in a replayed graph, measured."""

STREAM_MIB = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
STREAM_US = (EMPTY_KERNEL_US, 1.64, 1.89, 2.37, 3.35, 5.15, 8.8, 16.2, 30.9, 60.7)
"""Reading that much from cold DRAM with a plain streaming kernel: one H200, CUDA 13.0, driver 580,
graph replay. The fixed cost of a launch and of filling the memory pipeline is in it."""

SUSTAINED_FLOPS = 700e12
"""fp16 dense with fp32 accumulation on random data that the same card sustains at its 700 W limit. A
cool card passes it for a while: 772e12 at 4096^3, which shows as 110 % of the roofline."""

FLOPS_PER_SM_CLOCK = 4096
"""Dense fp16 or bf16 tensor-core FLOPs of an sm_90 SM each clock: 989.4e12 / (132 SMs * 1.83 GHz)."""

MAX_CLOCK_HZ = 1.98e9
"""Highest SM clock of any H100 or H200; a device that reports more is taken at its word."""

MAX_DRAM_BYTES_S = 4.9e12
"""The fastest memory of any sm_90 product (GH200 with 144 GB; H200 has 4.8e12)."""

MIN_LAUNCH_US = 0.4
"""Less than a graph node was ever seen to take (0.49 with programmatic dependent launch)."""


def stream_us(bytes_: int) -> float:
    """The measured time to stream `bytes_` from DRAM, interpolated; past the curve, at its last rate."""
    size = bytes_ / MIB
    if size <= STREAM_MIB[-1]:
        return float(np.interp(size, STREAM_MIB, STREAM_US))
    rate = (STREAM_US[-1] - STREAM_US[-2]) / (STREAM_MIB[-1] - STREAM_MIB[-2])
    return STREAM_US[-1] + (size - STREAM_MIB[-1]) * rate


def roofline_us(bytes_: int, flops: int, device: DeviceFacts, l2: L2Mode) -> float | None:
    """The larger of streaming `bytes_` and computing `flops` at measured rates, in microseconds.

    `bytes_` is each operand once. Warm L2 has no streaming term, as operands may never leave the L2.
    None on a device other than the H200, where nothing was measured.
    """
    if "H200" not in device.name or device.arch not in ("sm_90", "sm_90a"):
        return None
    memory_us = stream_us(bytes_) if l2 == "cold" else EMPTY_KERNEL_US
    return max(memory_us, flops / SUSTAINED_FLOPS * 1e6)


def floor_us(bytes_: int, flops: int, device: DeviceFacts, l2: L2Mode) -> float:
    """The least time physics allows, in microseconds, on any sm_90 device: no real time is below.

    Terms: one launch; every byte once from DRAM at the highest bandwidth sold (cold L2 only); every
    FLOP at the tensor cores' full rate at the highest clock, which power never allows.
    """
    clock_hz = max(MAX_CLOCK_HZ, device.clock_mhz * 1e6)
    compute_us = flops / (device.sm_count * FLOPS_PER_SM_CLOCK * clock_hz) * 1e6
    memory_us = bytes_ / MAX_DRAM_BYTES_S * 1e6 if l2 == "cold" else 0.0
    return max(MIN_LAUNCH_US, memory_us, compute_us)
