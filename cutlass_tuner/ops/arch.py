"""What any GPU of an architecture offers, for checking and building without one."""

from __future__ import annotations

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import DeviceFacts

_NOMINAL = {
    # The smallest common board of the architecture (H100 SXM): 132 SMs, 80 GB.
    "sm_90a": DeviceFacts(
        name="any sm_90a GPU",
        arch="sm_90a",
        sm_count=132,
        memory_bytes=80 * 10**9,
        l2_bytes=50 * 2**20,
        smem_per_block_bytes=232_448,
        driver="",
        clock_mhz=1980,
    ),
    # B200: 148 SMs, 180 GB.
    "sm_100a": DeviceFacts(
        name="any sm_100a GPU",
        arch="sm_100a",
        sm_count=148,
        memory_bytes=180 * 10**9,
        l2_bytes=126 * 2**20,
        smem_per_block_bytes=232_448,
        driver="",
        clock_mhz=1965,
    ),
}


def nominal_device(arch: str) -> DeviceFacts:
    """Facts to assume where no GPU is at hand. Raises UserError for an architecture not known here."""
    if arch not in _NOMINAL:
        raise UserError(f"no kernels for {arch}; there are some for {', '.join(_NOMINAL)}")
    return _NOMINAL[arch]
