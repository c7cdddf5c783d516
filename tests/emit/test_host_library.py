"""A real host library, compiled by g++ in seconds: what it says of kernels and launches, without a GPU."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutlass_tuner.abi import Call, HostLibrary
from cutlass_tuner.build import toolchain
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from emit.kernels import HALF, KERNELS

# One worker, so that the library is compiled once.
pytestmark = pytest.mark.xdist_group("host library")

EMITTER = EMITTERS["gemm3x"]
INDEX = {name: index for index, name in enumerate(KERNELS)}
A, B, D, WORKSPACE = 1 << 24, 2 << 24, 3 << 24, 1 << 30


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = toolchain.find()
    if not isinstance(found, Toolchain):
        pytest.skip(found.reason)
    folder = tmp_path_factory.mktemp("host")
    source, library = folder / "host.cpp", folder / "host.so"
    source.write_text(EMITTER.host_source(list(KERNELS.values()), HALF))
    done = subprocess.run(found.host_command(source, library), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return library


@pytest.fixture(scope="module")
def host(path: Path) -> HostLibrary:
    return HostLibrary(str(path))


Launch = tuple[int, ...]
"""Max swizzle, raster, splits, decomposition, reduction: the codes of ct_call."""
DEFAULT: Launch = (1, 0, 1, 0, 0)


def call(
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    launch: Launch = DEFAULT,
    sm_count: int = 132,
    clusters: int = 0,
    workspace: int = 0,
) -> Call:
    made = Call()
    made.dims[0:4] = [m, n, k, batch]
    made.pointers[0:3] = [A, B, D]
    made.scalars[0] = 1.0
    made.launch[0:5] = list(launch)
    made.sm_count, made.max_active_clusters, made.workspace = sm_count, clusters, workspace
    return made


def test_it_needs_no_cuda_library(path: Path) -> None:
    linked = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    assert "cuda" not in linked
    dynamic = subprocess.run(["nm", "-D", str(path)], capture_output=True, text=True, check=True).stdout
    assert not [line for line in dynamic.splitlines() if " cu" in line]
    offered = {line.split()[-1] for line in dynamic.splitlines() if line.split()[-2] in "TVWBDu"}
    names = ("abi_version", "kernel_count", "kernel_symbol", "describe", "make_plan", "fill_params")
    assert {name for name in offered if "@" not in name and not name.startswith(("_ITM", "__"))} == {
        f"ct_{name}" for name in names
    }


def test_it_describes_what_was_asked(host: HostLibrary) -> None:
    assert host.count == len(KERNELS)
    for name, index in INDEX.items():
        said, asked = host.describe(index), EMITTER.asked(KERNELS[name])
        assert host.symbol(index) == EMITTER.symbol(KERNELS[name])
        assert (tuple(said.tile), tuple(said.cluster), said.stages) == tuple(asked.values())
        assert said.threads == (256 if name == "plain" else 384)
        assert 0 < said.smem_bytes <= 227 * 1024


def test_an_unknown_kernel_is_an_error(host: HostLibrary) -> None:
    for index in (-1, len(KERNELS)):
        with pytest.raises(IndexError):
            host.describe(index)
        with pytest.raises(IndexError):
            host.plan(index, call(64, 64, 64))


@pytest.mark.parametrize(
    ("name", "extents", "launch", "expected"),
    [
        # 32 x 32 tiles on 132 SMs; M and N tie, which CUTLASS rasters along N
        ("cooperative", (4096, 4096), (1, 0, 1, 0, 0), ((2, 66, 1), 1, 2)),
        ("cooperative", (4096, 4096), (8, 1, 1, 0, 0), ((132, 1, 1), 8, 1)),
        ("cooperative", (4096, 4096), (4, 2, 1, 0, 0), ((2, 66, 1), 4, 2)),
        ("cooperative", (256, 4096), (8, 0, 1, 0, 0), ((128, 1, 1), 2, 1)),  # 2 x 32 tiles, padded to 4 x 32
        ("plain", (4096, 1024), (8, 1, 1, 0, 0), ((64, 16, 1), -1, -1)),  # one CTA a tile, no scheduler
        # the kernel's M is the user's N: 2 tiles of 128 by 32 of 32 columns
        ("swapped", (1024, 256), (1, 0, 1, 0, 0), ((64, 1, 1), 1, 1)),
        ("swapped", (1024, 256), (1, 2, 1, 0, 0), ((1, 64, 1), 1, 2)),
        ("nosmem", (256, 384), (1, 1, 1, 0, 0), ((6, 1, 1), 1, 1)),
    ],
)
def test_grid_swizzle_and_raster_are_read_back(
    host: HostLibrary,
    name: str,
    extents: tuple[int, int],
    launch: Launch,
    expected: tuple[tuple[int, int, int], int, int],
) -> None:
    plan = host.plan(INDEX[name], call(*extents, 512, launch=launch))
    assert plan is not None
    assert (tuple(plan.grid), plan.swizzle, plan.raster) == expected
    assert (plan.splits, plan.workspace_bytes, plan.zero_bytes) == (-1, 0, 0)


def test_the_grid_follows_sms_clusters_and_batch(host: HostLibrary) -> None:
    def grid(**changes: int) -> tuple[int, ...]:
        plan = host.plan(INDEX["cooperative"], call(4096, 4096, 512, **changes))
        assert plan is not None
        return tuple(plan.grid)

    assert grid(sm_count=64) == (2, 32, 1)
    assert grid(clusters=60) == (2, 60, 1)
    plain = host.plan(INDEX["plain"], call(128, 64, 512, batch=3))
    assert plain is not None
    assert tuple(plain.grid) == (2, 1, 3)


@pytest.mark.parametrize(
    ("extents", "launch", "splits", "split_tiles"),
    [
        ((64, 64, 16384), (1, 0, 16, 0, 0), 16, 2),  # split-K by count: every tile of the cluster's two
        ((256, 256, 4096), (1, 0, 4, 2, 1), 4, 4),
        ((256, 256, 128), (1, 0, 16, 0, 0), 2, 4),  # no more splits than K tiles
        ((256, 256, 4096), (1, 0, 1, 1, 0), 1, 0),  # data parallel
        ((4096, 4096, 4096), (1, 0, 1, 0, 0), 1, 0),  # 7.8 waves: the heuristic stays data parallel
        ((256, 256, 16384), (1, 0, 1, 3, 0), 1, 4),  # stream-K over all four tiles
    ],
)
def test_splits_and_workspace_are_read_back(
    host: HostLibrary, extents: tuple[int, int, int], launch: Launch, splits: int, split_tiles: int
) -> None:
    """Partial sums are fp32 tiles; then one 4-byte barrier a tile and consumer warp group, which alone
    must be zero at the start (tile_scheduler_params.h, get_workspace_component_sizes)."""
    plan = host.plan(INDEX["streamk"], call(*extents, launch=launch))
    assert plan is not None
    partials = split_tiles * 128 * 128 * 4
    barriers = -(-split_tiles * 2 * 4 // 128) * 128
    assert (plan.splits, plan.workspace_bytes) == (splits, partials + barriers)
    assert (plan.zero_offset, plan.zero_bytes) == ((partials, barriers) if split_tiles else (0, 0))


@pytest.mark.parametrize(
    ("name", "extents", "launch"),
    [
        ("cooperative", (64, 64, 60), (1, 0, 1, 0, 0)),  # A and B rows of 120 bytes
        ("cooperative", (64, 60, 64), (1, 0, 1, 0, 0)),  # D rows of 120 bytes
        ("swapped", (64, 60, 64), (1, 0, 1, 0, 0)),
        ("streamk", (64, 64, 64), (1, 0, 4, 3, 0)),  # splits belong to split-K
    ],
)
def test_a_call_that_the_kernel_cannot_do_is_refused(
    host: HostLibrary, name: str, extents: tuple[int, int, int], launch: Launch
) -> None:
    assert host.plan(INDEX[name], call(*extents, launch=launch)) is None


def test_an_odd_m_is_nobodys_stride(host: HostLibrary) -> None:
    assert host.plan(INDEX["cooperative"], call(63, 64, 64)) is not None
    assert host.plan(INDEX["swapped"], call(63, 64, 64)) is not None


def test_params_are_filled_without_a_driver(host: HostLibrary) -> None:
    """The batch's extents stand in Params, and nothing outside of it is written."""
    for index in INDEX.values():
        size = host.describe(index).params_bytes
        room = ctypes.create_string_buffer(b"\xaa" * (size + 512), size + 512)
        start = (ctypes.addressof(room) + 127) // 128 * 128
        host.fill(index, call(1024, 768, 512, batch=7, workspace=WORKSPACE), start)
        offset = start - ctypes.addressof(room)
        filled = room.raw[offset : offset + size]
        assert (7).to_bytes(4, "little") in filled
        assert set(room.raw[:offset]) <= {0xAA}
        assert set(room.raw[offset + size : -1]) <= {0xAA}


SCRIPT = """
import ctypes, os, sys
from emit.test_host_library import INDEX, call, WORKSPACE
from cutlass_tuner.abi import HostLibrary
host, index = HostLibrary(sys.argv[1]), INDEX[sys.argv[2]]
assert host.plan(index, call(1024, 768, 512)) is not None
assert not os.path.exists(os.environ["FAKE_DRIVER_LOG"])  # planning encodes nothing
room = ctypes.create_string_buffer(8192)
start = (ctypes.addressof(room) + 127) // 128 * 128
print(host._dll.ct_fill_params(index, ctypes.byref(call(1024, 768, 512)), ctypes.c_void_p(start)))
"""


def with_driver(path: Path, folder: Path, name: str, **environment: str) -> tuple[str, list[list[int]]]:
    """What filling says where the driver is `fake_driver.c`, and the descriptors it was asked for."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("g++")
    assert compiler is not None
    source = Path(__file__).with_name("fake_driver.c")
    library = ["-shared", "-fPIC", "-xc", str(source), "-o", str(folder / "libcuda.so.1")]
    subprocess.run([compiler, *library], check=True)
    log = folder / "log"
    tests = Path(__file__).parent.parent  # where this module is importable in another process
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), name],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(folder),
            "FAKE_DRIVER_LOG": str(log),
            "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}",
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines() if log.exists() else []
    return done.stdout.split()[-1], [[int(word) for word in line.split()] for line in lines]


def test_descriptors_are_of_the_users_operands(path: Path, tmp_path: Path) -> None:
    """Address, extents (fastest first), row bytes and box of A, B and D; a void C has none worth a look."""
    status, asked = with_driver(path, tmp_path, "cooperative")
    assert status == "0"
    # the cluster of two along M shares B: each CTA fetches half of its 128 columns
    assert [A, 512, 1024, 1024, 64, 128] in asked
    assert [B, 512, 768, 1024, 64, 64] in asked
    assert [line[:4] for line in asked if line[0] == D] == [[D, 768, 1024, 1536]]


def test_swapped_operands_keep_the_users_memory(path: Path, tmp_path: Path) -> None:
    status, asked = with_driver(path, tmp_path, "swapped")
    assert status == "0"
    assert [A, 512, 1024, 1024, 64, 32] in asked  # the user's A goes through the kernel's N tile
    assert [B, 512, 768, 1024, 64, 128] in asked
    assert [line[:4] for line in asked if line[0] == D] == [[D, 768, 1024, 1536]]


def test_a_descriptor_that_the_driver_refuses_is_told(path: Path, tmp_path: Path) -> None:
    status, asked = with_driver(path, tmp_path, "cooperative", FAKE_DRIVER_REFUSES="1")
    assert status == "2"
    assert asked
