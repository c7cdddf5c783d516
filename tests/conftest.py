"""What every test shares: which tests this machine can run."""

from __future__ import annotations

from functools import cache

import pytest

from cutlass_tuner.machine import Driver, driver
from cutlass_tuner.records import Failure


@cache
def why_no_compile() -> str:
    """Empty where nvcc is found."""
    from cutlass_tuner.build.toolchain import find_nvcc

    found = find_nvcc(None)
    return f"no nvcc: {found.reason}" if isinstance(found, Failure) else ""


@cache
def why_no_gpu() -> str:
    """Empty where the driver reports a Hopper GPU."""
    found = driver()
    if not isinstance(found, Driver):
        return f"no GPU: {found}"
    names = ", ".join(f"{gpu.name} ({gpu.arch})" for gpu in found.gpus)
    return "" if any(gpu.arch == "sm_90" for gpu in found.gpus) else f"no Hopper GPU: {names or 'none'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here."""
    for item in items:
        for marker, reason in (("compile", why_no_compile), ("gpu", why_no_gpu)):
            if item.get_closest_marker(marker) is not None and reason():
                item.add_marker(pytest.mark.skip(reason=reason()))
