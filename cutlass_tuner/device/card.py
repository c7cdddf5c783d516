"""The card's state through nvidia-ml-py, sampled while a contest runs."""

from __future__ import annotations

import statistics
from typing import Any

import pynvml
import torch

from cutlass_tuner.records import CardState

REASONS = {
    "hw_slowdown": "nvmlClocksEventReasonHwSlowdown",
    "sw_thermal": "nvmlClocksEventReasonSwThermalSlowdown",
    "hw_thermal": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "power_brake": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
    "power_cap": "nvmlClocksEventReasonSwPowerCap",
}
"""Why clocks may be lower than asked. "power_cap" is normal for large GEMMs on an H100/H200."""


class Card:
    """Collects samples; `state()` summarises and forgets them. Without NVML it stays silent."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._samples: list[tuple[int, float, int, int]] = []
        try:
            pynvml.nvmlInit()
            uuid = str(torch.cuda.get_device_properties(0).uuid)
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")
        except pynvml.NVMLError:
            self._handle = None

    def sample(self) -> None:
        if self._handle is None:
            return
        try:
            clock = pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM)
            power = pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1000
            heat = pynvml.nvmlDeviceGetTemperature(self._handle, pynvml.NVML_TEMPERATURE_GPU)
            reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        except pynvml.NVMLError:
            return
        self._samples.append((int(clock), float(power), int(heat), int(reasons)))

    def state(self) -> CardState | None:
        """Medians since the last call, or None where nothing could be read."""
        samples, self._samples = self._samples, []
        if not samples:
            return None
        mask = 0
        for *_, reasons in samples:
            mask |= reasons
        seen = tuple(name for name, flag in REASONS.items() if mask & getattr(pynvml, flag, 0))
        return CardState(
            sm_clock_mhz=int(statistics.median(s[0] for s in samples)),
            power_w=statistics.median(s[1] for s in samples),
            temperature_c=int(statistics.median(s[2] for s in samples)),
            throttle=seen,
        )
