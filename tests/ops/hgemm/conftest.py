"""The shipped space, a nominal GPU, and short ways to name kernels and problems."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.hgemm.problem import CONTRACT
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Scalar
from cutlass_tuner.space import Space


@pytest.fixture(scope="session")
def space() -> Space:
    return Space.load("hgemm-sm90")


@pytest.fixture(scope="session")
def device() -> DeviceFacts:
    return nominal_device("sm_90a")


@pytest.fixture(scope="session")
def kernel(space: Space, device: DeviceFacts) -> Callable[..., KernelConfig]:
    """An effective kernel from knobs; one CTA a cluster unless said."""

    def make(**knobs: Scalar) -> KernelConfig:
        return space.effective(space.kernel(**{"cluster_m": 1, **knobs}), device)

    return make


def problem(m: int, n: int, k: int, *, batch: int = 1, layout: str = "tn", count: int = 1) -> Problem:
    dims = {"m": m, "n": n, "k": k, "batch": batch}
    return Problem(op="hgemm", dims=dims, layout=layout, contract=CONTRACT, count=count)
