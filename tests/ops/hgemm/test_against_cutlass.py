"""CUTLASS's own host code as the oracle: what a launch folds to must fill the same Params.

One host library of a few kernels is compiled (g++ only, no kernel body, no GPU needed).
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import pytest

from cutlass_tuner import abi
from cutlass_tuner.build import toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, Failure, KernelConfig, LaunchConfig, Problem
from cutlass_tuner.space import Space

from .conftest import problem

pytestmark = pytest.mark.compile

KERNELS = (
    {"scheduler": "streamk"},
    {"scheduler": "streamk", "tile_n": 64, "cluster_m": 2, "cluster_n": 2},
    {"scheduler": "streamk", "tile_n": 16, "tile_k": 128, "swap_ab": True, "epilogue": "nosmem"},
    {"schedule": "pingpong", "cluster_m": 4, "tile_m": 64, "layout": "tt"},
    {"schedule": "cooperative", "tile_m": 256, "cluster_n": 2, "swap_ab": True, "stages": 3},
    {"schedule": "plain", "tile_m": 64, "tile_n": 8, "stages": "two_ctas", "swap_ab": True},
)
SAMPLE = 96
"""Launches of the 960 in the grid that are compared for each kernel on each problem."""
PROBLEMS = (
    (64, 64, 64),
    (64, 64, 16384),
    (512, 512, 16384),
    (1024, 1024, 1024),
    (1000, 136, 4096),
    (2112, 1024, 640),
    (16, 4096, 4096),
    (4096, 72, 8192),
    (1408, 1536, 2048),
    (1536, 1408, 520),
)


@pytest.fixture(scope="module")
def kernels(kernel: Callable[..., KernelConfig]) -> list[KernelConfig]:
    return [kernel(**knobs) for knobs in KERNELS]


@pytest.fixture(scope="module")
def library(kernels: list[KernelConfig], tmp_path_factory: pytest.TempPathFactory) -> abi.HostLibrary:
    found = toolchain.find()
    assert not isinstance(found, Failure)
    folder = tmp_path_factory.mktemp("host")
    hgemm = op("hgemm")
    (folder / "host.cpp").write_text(EMITTERS[hgemm.emitter].host_source(kernels, hgemm.contract))
    command = found.host_command(folder / "host.cpp", folder / "host.so")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return abi.HostLibrary(str(folder / "host.so"))


def _plan(
    library: abi.HostLibrary, index: int, launch: LaunchConfig, of: Problem, device: DeviceFacts
) -> dict[str, Any] | None:
    """What CUTLASS makes of a launch; None where it refuses."""
    call = abi.Call()
    call.dims[:4] = list(of.dims.values())
    call.pointers[:3] = [1 << 20, 1 << 21, 1 << 22]
    call.scalars[0] = 1.0
    codes = op("hgemm").launch_codes(launch)
    call.launch[: len(codes)] = codes
    call.sm_count = device.sm_count
    call.workspace = 1 << 23
    plan = library.plan(index, call)
    if plan is None:
        return None
    fields = ("swizzle", "raster", "splits", "workspace_bytes", "zero_bytes")
    return {"grid": sorted(plan.grid), **{name: getattr(plan, name) for name in fields}}


def test_shared_memory_stages_and_threads(library: abi.HostLibrary, kernels: list[KernelConfig]) -> None:
    for index, kernel in enumerate(kernels):
        said = library.describe(index)
        ours = op("hgemm").smem(kernel)
        assert ours is not None
        assert (ours.total_bytes, ours.stages) == (said.smem_bytes, said.stages), kernel.key


@pytest.mark.parametrize("extents", PROBLEMS, ids=lambda e: "x".join(map(str, e)))
def test_a_folded_launch_is_the_launch_asked_for(
    library: abi.HostLibrary,
    kernels: list[KernelConfig],
    space: Space,
    device: DeviceFacts,
    extents: tuple[int, int, int],
) -> None:
    knobs = space.launch_knobs()
    grid = [
        dict(zip((knob.name for knob in knobs), values, strict=True))
        for values in product(*(knob.values for knob in knobs))
    ]
    launches = [space.launch(**chosen) for chosen in random.Random(str(extents)).sample(grid, SAMPLE)]
    compared = 0
    for index, kernel in enumerate(kernels):
        of = problem(*extents, layout=str(kernel.knobs["layout"]))
        for raw in launches:
            planned = _plan(library, index, raw, of, device)
            legal = space.check(kernel, raw, None, device).legal
            assert legal == (planned is not None), f"{kernel.key} | {raw.key}"
            if planned is None:
                continue
            folded = space.effective_launch(kernel, raw, of, device)
            again = _plan(library, index, folded, of, device)
            assert again is not None
            if kernel.knobs["schedule"] != "plain" and planned["raster"] != again["raster"]:
                # Only a line of clusters is walked alike in both orders.
                assert 1 in _clusters(kernel, of)
                assert prod(planned.pop("grid")) == prod(again.pop("grid"))
                planned["raster"] = again["raster"]
            assert again == planned, f"{kernel.key} | {raw.key} folds to {folded.key}"
            if kernel.knobs["schedule"] != "plain":
                assert folded.knobs["swizzle"] == planned["swizzle"]
                assert folded.knobs["raster"] == abi.RASTERS[planned["raster"]]
            if folded.knobs["decomposition"] in ("split_k", "data_parallel"):
                assert folded.knobs["splits"] == planned["splits"], f"{kernel.key} | {raw.key}"
            compared += 1
    assert compared > SAMPLE


def _clusters(kernel: KernelConfig, of: Problem) -> tuple[int, int]:
    m, n = of.dims["m"], of.dims["n"]
    if kernel.knobs["swap_ab"]:
        m, n = n, m
    span_m = int(kernel.knobs["tile_m"]) * int(kernel.knobs["cluster_m"])
    span_n = int(kernel.knobs["tile_n"]) * int(kernel.knobs["cluster_n"])
    return -(-m // span_m), -(-n // span_n)
