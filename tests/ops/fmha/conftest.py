"""The shipped space and shapes, a nominal GPU, and short ways to name kernels and problems."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Scalar
from cutlass_tuner.settings import data_dir
from cutlass_tuner.space import Candidates, Space


@pytest.fixture(scope="session")
def space() -> Space:
    return Space.load("fmha-sm90")


@pytest.fixture(scope="session")
def device() -> DeviceFacts:
    return nominal_device("sm_90a")


@pytest.fixture(scope="session")
def shipped() -> list[Problem]:
    return op("fmha").read_shapes(data_dir("spaces") / "shapes" / "fmha.csv")


@pytest.fixture(scope="session")
def table(space: Space, shipped: list[Problem], device: DeviceFacts) -> Candidates:
    return space.candidates(shipped, device)


@pytest.fixture(scope="session")
def kernel(space: Space, device: DeviceFacts) -> Callable[..., KernelConfig]:
    """An effective kernel from knobs."""

    def make(**knobs: Scalar) -> KernelConfig:
        return space.effective(space.kernel(**knobs), device)

    return make


def problem(
    seqlen_q: int,
    seqlen_kv: int = 0,
    *,
    batch: int = 1,
    heads: int = 16,
    heads_kv: int = 0,
    dim: int = 128,
    causal: int = 0,
    layout: str | None = None,
) -> Problem:
    """As many keys as queries, and as many heads of K and V as of Q, unless said."""
    extents = (batch, heads, heads_kv or heads, seqlen_q, seqlen_kv or seqlen_q, dim, causal)
    return op("fmha").problem(extents, layout)
