"""Attention calls, and what a host library fills for them with a driver that only writes down its orders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cutlass_tuner.abi import Call

Q, K, V, O, LSE = ((index + 1) << 24 for index in range(5))  # noqa: E741
BSHD, BHSD = 0, 1


def call(
    batch: int = 2,
    heads: tuple[int, int] = (16, 16),
    seqlen: tuple[int, int] = (1000, 777),
    head_dim: int = 64,
    *,
    causal: int = 0,
    layout: int = BSHD,
    scale: float = 0.125,
    launch: tuple[int, int, int] = (1, 1, 4),
) -> Call:
    made = Call()
    made.dims[0:8] = [batch, *heads, *seqlen, head_dim, causal, layout]
    made.pointers[0:5] = [Q, K, V, O, LSE]
    made.scalars[0] = scale
    made.launch[0:3] = list(launch)
    made.sm_count = 132
    return made


FILL = """
import ctypes, os, sys
from importlib import import_module
from emit.attention_calls import BHSD, BSHD, call
from cutlass_tuner.abi import HostLibrary
host, index, made = HostLibrary(sys.argv[1]), import_module(sys.argv[4]).INDEX[sys.argv[2]], eval(sys.argv[3])
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


def filled(
    module: str, path: Path, folder: Path, name: str, made: str, **environment: str
) -> tuple[int, bytes, set[tuple[int, Numbers, Numbers, Numbers]]]:
    """Status, Params, and the tensor maps asked of the driver: address, extents, byte strides, box.

    `module` is the test's, whose INDEX finds a kernel of the library at `path` by name; `made` is a `call`.
    """
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("g++")
    assert compiler is not None
    source = Path(__file__).with_name("fake_tensor_maps.c")
    library = ["-shared", "-fPIC", "-xc", str(source), "-o", str(folder / "libcuda.so.1")]
    subprocess.run([compiler, *library], check=True)
    log = folder / "log"
    log.unlink(missing_ok=True)
    tests = Path(__file__).parent.parent  # where these modules are importable in another process
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(path), name, made, module],
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
    maps = set()
    for line in log.read_text().splitlines():
        first, strides, box = (tuple(int(word) for word in part.split()) for part in line.split("|"))
        maps.add((first[0], first[1:], strides, box))
    status, params = done.stdout.split()
    return int(status), bytes.fromhex(params), maps
