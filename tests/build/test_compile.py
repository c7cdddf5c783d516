"""Real compiles, few and small: a batch with a bad kernel in it through nvcc, one kernel through NVRTC."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutlass_tuner.abi import Call, HostLibrary
from cutlass_tuner.build import nvrtc, toolchain
from cutlass_tuner.build.builder import Builder
from cutlass_tuner.build.cache import Cache
from cutlass_tuner.build.cubin import params_bytes
from cutlass_tuner.build.sources import DeviceCompiler
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.records import Build, Contract, Failure, KernelConfig

pytestmark = pytest.mark.compile
CONTRACT = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")


def plain(tile_n: int, stages: int) -> KernelConfig:
    """The cheapest kernel there is to compile."""
    return KernelConfig(
        family="tma_ws",
        knobs={
            "layout": "tn",
            "tile_m": 64,
            "tile_n": tile_n,
            "tile_k": 64,
            "cluster_m": 1,
            "cluster_n": 1,
            "schedule": "plain",
            "stages": stages,
            "epilogue": "tma",
            "scheduler": "persistent",
            "swap_ab": False,
        },
    )


def builder(root: Path, compiler: type[nvrtc.Nvrtc] | None = None) -> Builder:
    tools = toolchain.find()
    assert isinstance(tools, Toolchain), tools
    device: DeviceCompiler | None = None
    if compiler is not None:
        found = nvrtc.find(tools)
        if isinstance(found, Failure):
            pytest.skip(found.reason)
        device = found
    return Builder(tools, Cache(root), "sm_90a", 500, EMITTERS["gemm3x"], CONTRACT, device)


def test_one_bad_config_of_three_gives_two_cubins_and_one_named_failure(tmp_path: Path) -> None:
    make = builder(tmp_path)
    kernels = [plain(64, 6), plain(24, 6), plain(64, 9)]  # N = 24 has no shared memory layout
    outcomes = make.build(kernels)
    bad = outcomes[1]
    assert isinstance(bad, Failure)
    assert "Divisibility Condition" in bad.reason
    for kernel, outcome, smem_bytes in ((kernels[0], outcomes[0], 98816), (kernels[2], outcomes[2], 147968)):
        assert isinstance(outcome, Build), outcome
        assert outcome.kernel == kernel
        assert (outcome.threads, outcome.smem_bytes, outcome.spill_bytes) == (256, smem_bytes, 0)
        assert 32 <= outcome.registers <= 168
        assert outcome.batch_size == 2
        assert outcome.warnings == ()
        assert params_bytes(Path(outcome.cubin).read_bytes())[outcome.symbol] == outcome.params_bytes
        plan = HostLibrary(outcome.host_library).plan(outcome.index, call(128, 192, 256))
        assert plan is not None
        assert tuple(plan.grid) == (2, 3, 1)
    again = make.build(kernels)
    assert again[1] == bad
    assert [outcome.cached for outcome in again if isinstance(outcome, Build)] == [True, True]


def test_nvrtc_lays_params_out_as_the_host_library_does(tmp_path: Path) -> None:
    make = builder(tmp_path, nvrtc.Nvrtc)
    [outcome] = make.build([plain(64, 6)])
    assert isinstance(outcome, Build), outcome  # the builder itself compares the two sizes
    assert params_bytes(Path(outcome.cubin).read_bytes())[outcome.symbol] == outcome.params_bytes
    assert outcome.spill_bytes == 0


def call(m: int, n: int, k: int) -> Call:
    made = Call()
    made.dims[0:4] = [m, n, k, 1]
    made.pointers[0:3] = [1 << 24, 2 << 24, 3 << 24]
    made.scalars[0] = 1.0
    made.launch[0:5] = [1, 0, 1, 0, 0]
    made.sm_count = 132
    return made
