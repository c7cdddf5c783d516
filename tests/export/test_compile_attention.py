"""What real compilers make of an export of one attention kernel: under a minute of a core."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cutlass_tuner.build.toolchain import Toolchain, find
from cutlass_tuner.machine import Driver, driver
from cutlass_tuner.pipeline import setup
from cutlass_tuner.records import Problem
from export.attention_samples import CAUSAL, CHUNKED, FULL, GROUPED, OP, TOP_LEFT, AttentionWriter, tuned
from export.test_compile import compiled, machine_code

pytestmark = pytest.mark.compile

NOT_TUNED, MISALIGNED, BAD_SCALE, CUDA_ERROR = 1, 2, 3, 6


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    found = find()
    assert isinstance(found, Toolchain), found
    return found


@dataclass(frozen=True)
class Built:
    folder: Path
    library: Path
    said: str


@pytest.fixture(scope="module")
def built(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The library of the PyTorch module, by the line that is printed for people; its cubin is kept."""
    folder = tmp_path_factory.mktemp("export")
    written = AttentionWriter(folder)([tuned(CHUNKED, CAUSAL), tuned(TOP_LEFT, CAUSAL)], torch=True)
    line = written.build_line.replace("nvcc", f'"{toolchain.nvcc.path}"', 1)
    root = f'CUTLASS="{toolchain.headers.root}"'
    said = compiled(["sh", "-c", f"{root}; {line} --keep -Xcompiler -Wall"], folder)
    return Built(folder, folder / "libtuned_torch.so", said)


def test_the_export_compiles_by_itself_without_a_warning(built: Built) -> None:
    assert "warning" not in built.said


def test_the_benchmark_links_against_the_library(built: Built, toolchain: Toolchain) -> None:
    flags = [*toolchain.flags("sm_90a"), "-Xcompiler", "-Wall"]
    said = compiled(
        [str(toolchain.nvcc.path), *flags, "tuned_bench.cu", str(built.library), "-o", "bench"], built.folder
    )
    assert "warning" not in said


def test_the_export_is_the_machine_code_that_was_measured(
    built: Built, toolchain: Toolchain, tmp_path: Path
) -> None:
    emitter = setup.emitter(OP)
    measured, cubin = tmp_path / "batch.cu", tmp_path / "batch.cubin"
    measured.write_text(emitter.device_source([CAUSAL], OP.contract))
    compiled(toolchain.device_command(measured, cubin, "sm_90a"), tmp_path)
    symbol = emitter.symbol(CAUSAL)
    assert machine_code(built.folder / "tuned.cubin", symbol) == machine_code(cubin, symbol)


def extents(problem: Problem) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * 7)(*problem.dims.values())


def test_calls_are_checked_before_a_device_is_asked(built: Built) -> None:
    library = ctypes.CDLL(str(built.library))
    library.ct_export_attention_workspace.restype = ctypes.c_longlong
    library.ct_export_status.restype = ctypes.c_char_p
    tuned_one, layout = extents(CHUNKED), b"bshd"
    assert library.ct_export_attention_workspace(tuned_one, layout) == 0
    assert library.ct_export_attention_workspace(extents(GROUPED), layout) == -1
    assert library.ct_export_attention_workspace(tuned_one, b"bhsd") == -1

    def run(problem: Problem, *operands: int, scale: float = 0.125) -> int:
        pointers = (ctypes.c_void_p(each) for each in operands)
        return int(
            library.ct_export_attention_run(
                extents(problem), layout, *pointers, ctypes.c_float(scale), None, None
            )
        )

    q, k, v, o, lse = (4096 * i for i in range(1, 6))
    assert run(GROUPED, q, k, v, o, lse) == NOT_TUNED
    for wrong in ((0, k, v, o, lse), (q, k + 8, v, o, lse), (q, k, v, o + 2, lse), (q, k, v, o, lse + 1)):
        assert run(CHUNKED, *wrong) == MISALIGNED
    for scale in (0.0, -1.0, float("inf"), float("nan")):
        assert run(CHUNKED, q, k, v, o, lse, scale=scale) == BAD_SCALE
    assert library.ct_export_status(BAD_SCALE) == b"the scale is not a positive number"
    if not isinstance(driver(), Driver):  # with one, these addresses would be used
        assert run(CHUNKED, q, k, v, o, lse) == CUDA_ERROR


def test_the_module_builds_its_library(tmp_path: Path) -> None:
    """`python tuned_torch.py`, with a compiler that writes down what it was asked."""
    written = AttentionWriter(tmp_path)([tuned(GROUPED, FULL)], torch=True)
    nvcc = tmp_path / "fake_nvcc"
    nvcc.write_text('#!/bin/sh\necho "$@" >asked\nwhile [ "$1" != -o ]; do shift; done\necho built >"$2"\n')
    nvcc.chmod(0o755)
    said = compiled(["env", f"NVCC={nvcc}", "CUTLASS=/cutlass", sys.executable, "tuned_torch.py"], tmp_path)
    assert said.strip() == str(tmp_path / "libtuned_torch.so")
    assert (tmp_path / "libtuned_torch.so").read_text() == "built\n"
    asked = (tmp_path / "asked").read_text()
    for word in (*written.flags, "-I/cutlass/include", f"-I{tmp_path}", "-DCUTLASS_TUNER_SHIM", "-shared"):
        assert f" {word} " in f" {asked} "
