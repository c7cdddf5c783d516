"""host.h and library.h: a real host library of flash kernels, its plans and its Params, without a GPU."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cutlass_tuner.abi import Call, HostLibrary
from cutlass_tuner.build import toolchain
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.ops.registry import op
from emit.attention_kernels import HALF
from emit.flash.kernels import KERNELS

EMITTER = EMITTERS["attention"]
INDEX = {name: index for index, name in enumerate(KERNELS)}
Q, K, V, O, LSE = ((index + 1) << 24 for index in range(5))  # noqa: E741
BSHD, BHSD = 0, 1
TILES, SMS = 0, 1
SM_COUNT = 132


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = toolchain.find()
    if not isinstance(found, Toolchain):
        pytest.skip(found.reason)
    folder = tmp_path_factory.mktemp("flash")
    source, library = folder / "host.cpp", folder / "host.so"
    source.write_text(EMITTER.host_source(list(KERNELS.values()), HALF))
    done = subprocess.run(found.host_command(source, library), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return library


@pytest.fixture(scope="module")
def host(path: Path) -> HostLibrary:
    return HostLibrary(str(path))


def call(
    name: str = "full",
    *,
    batch: int = 2,
    heads: tuple[int, int] = (16, 16),
    seqlen: tuple[int, int] = (1000, 777),
    causal: int | None = None,
    layout: int = BSHD,
    launch: tuple[int, int, int] = (TILES, 0, 4),
    head_dim: int | None = None,
) -> Call:
    """A call that kernel `name` can do; its mask is bottom-right where it has one."""
    knobs = KERNELS[name].knobs
    dim = knobs["head_dim"] if head_dim is None else head_dim
    masked = int(knobs["mask"] == "causal") if causal is None else causal
    made = Call()
    made.dims[0:8] = [batch, *heads, *seqlen, dim, masked, layout]
    made.pointers[0:5] = [Q, K, V, O, LSE]
    made.scalars[0] = 0.125
    made.launch[0:3] = launch
    made.sm_count = SM_COUNT
    return made


def test_it_describes_what_was_asked(host: HostLibrary) -> None:
    assert host.count == len(KERNELS)
    for name, index in INDEX.items():
        config, said = KERNELS[name], host.describe(index)
        asked = EMITTER.asked(config)
        assert host.symbol(index) == EMITTER.symbol(config)
        assert (tuple(said.tile), tuple(said.cluster), said.stages) == tuple(asked.values())
        groups = config.knobs["groups"]
        assert isinstance(groups, int)
        assert said.threads == 128 * (groups + 1)
        found = op("fmha").smem(config)
        assert found is not None and said.smem_bytes == found.total_bytes
        assert said.params_align >= 64  # a tensor map's


@pytest.mark.parametrize(
    ("name", "launch", "batch", "grid"),
    [
        ("full", TILES, 2, 6 * 32),  # a CTA a tile of 192 rows
        ("full", SMS, 2, SM_COUNT),
        ("full", SMS, 1, 6 * 16),  # fewer tiles than SMs
        ("causal", TILES, 1, 8 * 16),
        ("causal", SMS, 2, SM_COUNT),
        ("narrow", SMS, 2, 2 * SM_COUNT),  # two CTAs an SM
        ("narrow", TILES, 2, 16 * 32),
    ],
)
def test_the_grid(host: HostLibrary, name: str, launch: int, batch: int, grid: int) -> None:
    plan = host.plan(INDEX[name], call(name, batch=batch, launch=(launch, 1, 8)))
    assert plan is not None
    assert tuple(plan.grid) == (grid, 1, 1)
    assert (plan.swizzle, plan.raster, plan.splits) == (8, -1, -1)
    assert (plan.workspace_bytes, plan.zero_bytes) == (0, 0)


@pytest.mark.parametrize("layout", [BSHD, BHSD])
def test_any_length_and_alignment_is_taken(host: HostLibrary, layout: int) -> None:
    for seqlen in ((1, 1), (1, 5000), (1003, 7), (7, 1003)):
        for name, causal in (("full", 0), ("causal", 1), ("causal", 2), ("wide", 2)):
            assert host.plan(INDEX[name], call(name, seqlen=seqlen, causal=causal, layout=layout)) is not None


REFUSED = {
    "a mask that the kernel lacks": ("full", call("full", causal=1)),
    "the other alignment as well": ("full", call("full", causal=2)),
    "no mask where the kernel has one": ("causal", call("causal", causal=0)),
    "another head_dim": ("full", call("full", head_dim=64)),
    "heads that no group divides": ("full", call("full", heads=(16, 3))),
    "no heads of K and V": ("full", call("full", heads=(16, 0))),
    "no keys": ("full", call("full", seqlen=(16, 0))),
    "no queries": ("full", call("full", seqlen=(0, 16))),
    "no batch": ("full", call("full", batch=0)),
    "no section": ("full", call("full", launch=(SMS, 0, 0))),
    "coordinates beyond 32 bits": ("full", call("full", seqlen=(1 << 29, 1 << 29))),
    "tiles beyond 32 bits": ("full", call("full", batch=1 << 20, seqlen=(1 << 20, 64))),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_call_that_the_kernel_cannot_do_is_refused(host: HostLibrary, why: str) -> None:
    name, refused = REFUSED[why]
    assert host.plan(INDEX[name], call(name)) is not None
    assert host.plan(INDEX[name], refused) is None
    room = ctypes.create_string_buffer(8192)
    with pytest.raises(ValueError, match="status 1"):
        host.fill(INDEX[name], refused, (ctypes.addressof(room) + 127) // 128 * 128)


# --- Params, filled in another process beside a fake driver

FILL = """
import ctypes, os, sys
from emit.flash.test_host import BHSD, BSHD, INDEX, SMS, TILES, call
from cutlass_tuner.abi import HostLibrary
host, index, made = HostLibrary(sys.argv[1]), INDEX[sys.argv[2]], call(sys.argv[2], **eval(sys.argv[3]))
assert host.plan(index, made) is not None
assert not os.path.exists(os.environ["FAKE_DRIVER_LOG"])  # planning encodes nothing
room = ctypes.create_string_buffer(b"\\xaa" * 8192, 8192)
start = (ctypes.addressof(room) + 127) // 128 * 128
print(host._dll.ct_fill_params(index, ctypes.byref(made), ctypes.c_void_p(start)))
offset = start - ctypes.addressof(room)
size = host.describe(index).params_bytes
assert set(room.raw[:offset] + room.raw[offset + size :]) <= {0xAA}
print(room.raw[offset : offset + size].hex())
"""
Numbers = tuple[int, ...]
F16, SWIZZLE_64, SWIZZLE_128 = 6, 2, 3
"""CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_SWIZZLE_64B and _128B of cuda.h."""


@dataclass(frozen=True)
class Filled:
    """Status, Params, and by address its map's type, swizzle and rest, extents, byte strides and box."""

    status: int
    params: bytes
    maps: dict[int, tuple[Numbers, Numbers, Numbers, Numbers]]


def filled(path: Path, folder: Path, name: str, made: str, **environment: str) -> Filled:
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("g++")
    assert compiler is not None
    source = Path(__file__).with_name("fake_driver.c")
    library = ["-shared", "-fPIC", "-xc", str(source), "-o", str(folder / "libcuda.so.1")]
    subprocess.run([compiler, *library], check=True)
    log = folder / "log"
    log.unlink(missing_ok=True)
    tests = Path(__file__).parents[2]  # where this module is importable in another process
    found = {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_DRIVER_LOG": str(log),
        "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}",
        **environment,
    }
    command = [sys.executable, "-c", FILL, str(path), name, made]
    done = subprocess.run(command, capture_output=True, text=True, env=found)
    assert done.returncode == 0, done.stderr
    maps = {}
    for line in log.read_text().splitlines():
        first, *rest = (tuple(int(word) for word in part.split()) for part in line.split("|"))
        extents, strides, box = rest
        maps[first[0]] = (first[1:], extents, strides, box)
    status, params = done.stdout.split()
    return Filled(int(status), bytes.fromhex(params), maps)


def test_maps_of_chunks_of_64_columns_with_grouped_heads(path: Path, tmp_path: Path) -> None:
    """Maps see (column, row, chunk, head, batch); head_dim 128 is two chunks. 12 heads read 3 of K and V."""
    made = "dict(heads=(12, 3), seqlen=(100, 70), layout={})"
    found = filled(path, tmp_path, "full", made.format("BSHD"))
    row, row_kv = 12 * 256, 3 * 256
    q, kv = (row, 128, 256, 100 * row), (row_kv, 128, 256, 70 * row_kv)
    how, q_extents, kv_extents = (F16, SWIZZLE_128, 0), (64, 100, 2, 12, 2), (64, 70, 2, 3, 2)
    assert found.status == 0
    assert found.maps == {
        Q: (how, q_extents, q, (64, 192, 2, 1, 1)),
        K: (how, kv_extents, kv, (64, 128, 2, 1, 1)),
        V: (how, kv_extents, kv, (64, 128, 2, 1, 1)),
        O: (how, q_extents, q, (64, 64, 1, 1, 1)),  # a warp group's rows, a chunk at a time
    }

    found = filled(path, tmp_path, "full", made.format("BHSD"))
    assert found.maps[Q] == (how, q_extents, (256, 128, 25600, 12 * 25600), (64, 192, 2, 1, 1))
    assert found.maps[V] == (how, kv_extents, (256, 128, 17920, 3 * 17920), (64, 128, 2, 1, 1))
    assert found.maps[O] == (how, q_extents, (256, 128, 25600, 12 * 25600), (64, 64, 1, 1, 1))


def test_maps_of_rows_of_64_bytes(path: Path, tmp_path: Path) -> None:
    """head_dim 32: a chunk is a row."""
    found = filled(path, tmp_path, "narrow", "dict(heads=(4, 4), seqlen=(100, 70))")
    assert found.status == 0
    how = (F16, SWIZZLE_64, 0)
    assert found.maps[Q] == (how, (32, 100, 1, 4, 2), (256, 64, 64, 25600), (32, 64, 1, 1, 1))
    assert found.maps[K] == (how, (32, 70, 1, 4, 2), (256, 64, 64, 17920), (32, 48, 1, 1, 1))


@pytest.mark.parametrize(("causal", "diagonal"), [(1, 2025), (2, 0)])
def test_params_hold_walk_heads_lengths_diagonal_and_scale(
    path: Path, tmp_path: Path, causal: int, diagonal: int
) -> None:
    made = f"dict(batch=3, heads=(12, 4), seqlen=(1000, 3025), causal={causal}, launch=(SMS, 1, 16))"
    found = filled(path, tmp_path, "causal", made)
    assert found.status == 0
    lse, *numbers = struct.unpack_from("<Q9i2f", found.params, 4 * 128)
    assert lse == LSE
    assert numbers[:4] == [8, 36, 16, 1]  # row blocks, heads of all sequences, section, heavy
    assert numbers[4:9] == [12, 3, 1000, 3025, diagonal]
    assert numbers[9:] == pytest.approx([0.125, 0.125 * 1.4426950408889634], rel=1e-7)


def test_a_section_is_no_longer_than_all_heads(path: Path, tmp_path: Path) -> None:
    found = filled(path, tmp_path, "full", "dict(heads=(2, 2), launch=(SMS, 0, 32))")
    assert struct.unpack_from("<4i", found.params, 4 * 128 + 8) == (6, 4, 4, 0)


def test_a_tensor_map_that_the_driver_refuses_is_told(path: Path, tmp_path: Path) -> None:
    found = filled(path, tmp_path, "full", "{}", FAKE_DRIVER_REFUSES="1")
    assert found.status == 2
    assert found.maps
