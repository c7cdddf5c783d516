"""Compiles the flash kernels' own text for the CPU: what it includes of CUTLASS is replaced by `cute.h`."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cutlass_tuner.build import toolchain
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.settings import PACKAGE

HERE = Path(__file__).parent
REPLACED = (
    "cute/tensor.hpp",
    "cute/arch/copy_sm90_tma.hpp",
    "cutlass/arch/barrier.h",
    "cutlass/arch/reg_reconfig.h",
    "cutlass/cutlass.h",
    "cutlass/numeric_conversion.h",
    "cutlass/numeric_types.h",
)


def compiled(folder: Path, source: str, *, instead: Sequence[Path] = ()) -> ctypes.CDLL:
    """A library of `source`. Headers under `instead` are taken before the package's own of the same path."""
    found = toolchain.find()
    if not isinstance(found, Toolchain):
        pytest.skip(found.reason)
    stubs = folder / "stubs"
    for name in REPLACED:
        (stubs / name).parent.mkdir(parents=True, exist_ok=True)
        (stubs / name).write_text('#include "cute.h"\n')
    text, library = folder / "source.cpp", folder / "library.so"
    text.write_text(source)
    quoted = [f"-iquote{path}" for path in (*instead, HERE, stubs, PACKAGE)]
    toolkit = [f"-isystem{path}" for path in found.cuda_include]
    flags = ["-std=c++17", "-O0", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-unknown-pragmas"]
    command = [str(found.gxx.path), *flags, *quoted, *toolkit, str(text), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return ctypes.CDLL(str(library))


def knobs(
    *,
    head_dim: int = 32,
    causal: bool = True,
    groups: int = 2,
    tile_kv: int = 64,
    stages: int = 2,
    q_stages: int = 1,
    blocks_per_sm: int = 1,
    overlap: bool = True,
    pingpong: bool = True,
    lazy: bool = False,
    exp_fma: int = 0,
) -> str:
    """A C++ type flash::Knobs<...>."""
    flags = [str(flag).lower() for flag in (overlap, pingpong, lazy)]
    counts = [groups, tile_kv, stages, q_stages, blocks_per_sm]
    given = [head_dim, str(causal).lower(), *counts, *flags, exp_fma]
    arguments = ", ".join(map(str, given))
    return f"cutlass_tuner::flash::Knobs<cutlass_tuner::flash::Element::kF16, {arguments}>"
