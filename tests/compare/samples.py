"""The GPU on which the figures of these tests were seen."""

from __future__ import annotations

from cutlass_tuner.records import DeviceFacts

H200 = DeviceFacts(
    name="NVIDIA H200",
    arch="sm_90a",
    sm_count=132,
    memory_bytes=150 << 30,
    l2_bytes=60 << 20,
    smem_per_block_bytes=232448,
    driver="580",
    clock_mhz=1980,
)
