"""What real compilers make of an export: these take about a minute and a half of a core together."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from cutlass_tuner.build.toolchain import Toolchain, find
from cutlass_tuner.emit.gemm3x import Gemm3x
from cutlass_tuner.export import commands, template
from cutlass_tuner.settings import PACKAGE
from export.samples import CONTRACT, PERSISTENT, STREAM_K, TWO_KERNELS, Writer

pytestmark = pytest.mark.compile


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    found = find()
    assert isinstance(found, Toolchain), found
    return found


def compiled(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@dataclass(frozen=True)
class Built:
    folder: Path
    library: Path
    said: str


@pytest.fixture(scope="session")
def built(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The export of two siblings as the library that the measuring child loads; its cubin is kept."""
    folder = tmp_path_factory.mktemp("export")
    written = Writer(folder)(TWO_KERNELS)
    library = folder / "tuned.so"
    command = commands.shared_library(
        toolchain.nvcc.path, toolchain.headers.include, written.flags, written.source, library
    )
    said = compiled([*command, "--keep", "-Xcompiler", "-Wall"], folder)
    return Built(folder, library, said)


def test_the_source_compiles_without_a_warning(built: Built) -> None:
    assert "warning" not in built.said
    symbols = compiled(["nm", "-D", "--defined-only", str(built.library)], built.folder)
    for name in ("ct_export_run", "ct_export_workspace", "ct_export_status"):
        assert f" T {name}\n" in symbols


def test_the_benchmark_links_against_the_library(built: Built, toolchain: Toolchain) -> None:
    flags = toolchain.flags("sm_90a")
    out = str(built.folder / "bench")
    compiled(
        [str(toolchain.nvcc.path), *flags, "tuned_bench.cu", str(built.library), "-o", out], built.folder
    )


def machine_code(cubin: Path, symbol: str) -> bytes:
    """The instructions of one kernel, as readelf prints its section."""
    section = f".text.{symbol}"
    done = subprocess.run(["readelf", "-x", section, str(cubin)], capture_output=True, check=True)
    assert len(done.stdout.splitlines()) > 100, f"no {section} in {cubin}"
    return done.stdout


def test_the_export_is_the_machine_code_that_was_measured(
    built: Built, toolchain: Toolchain, tmp_path: Path
) -> None:
    emitter = Gemm3x()
    measured, cubin = tmp_path / "batch.cu", tmp_path / "batch.cubin"
    measured.write_text(emitter.device_source([PERSISTENT, STREAM_K], CONTRACT))
    compiled(toolchain.device_command(measured, cubin, "sm_90a"), tmp_path)
    shipped = built.folder / "tuned.cubin"
    for kernel in (PERSISTENT, STREAM_K):
        symbol = emitter.symbol(kernel)
        assert machine_code(shipped, symbol) == machine_code(cubin, symbol)


ZERO_RANGE_MAIN = """
template <class Kernel, bool kSwapAB>
int compare(int m, int n, int k, int batch, int splits, int decomposition) {
  ct_call call{{m, n, k, batch}, {4096, 4096, 4096}, {1.0f}, {2, 1, splits, decomposition, 0}, 132, 132, 0};
  ct_plan planned{};
  if (cutlass_tuner::plan<Kernel, kSwapAB>(call, &planned) != cutlass_tuner::kFine) { return -1; }
  auto const range = zero_range<Kernel>(cutlass_tuner::arguments<Kernel, kSwapAB>(call));
  bool const same = (range.bytes == 0 || int64_t(range.offset) == planned.zero_offset) &&
                    int64_t(range.bytes) == planned.zero_bytes;
  std::printf("%d %lld %lld\\n", same, (long long)(range.bytes), (long long)(planned.workspace_bytes));
  return 0;
}
"""


def test_what_run_zeroes_is_what_cutlass_would_zero(toolchain: Toolchain, tmp_path: Path) -> None:
    """The host library records CUTLASS's own memset; the export works the range out for itself."""
    emitter = Gemm3x()
    calls = [
        (kernel, shape, splits, decomposition)
        for kernel in (PERSISTENT, STREAM_K)
        for shape in ("128, 256, 16384, 1", "1000, 520, 1024, 3")
        for splits, decomposition in ((1, 0), (1, 1), (8, 2), (1, 3))
        if kernel is STREAM_K or splits == 1
    ]
    body = "".join(
        f"  if (compare<{emitter.template_arguments(k)}>({shape}, {s}, {d})) {{ return 1; }}\n"
        for k, shape, s, d in calls
    )
    unit, program = tmp_path / "zero.cpp", tmp_path / "zero"
    unit.write_text(
        '#include "emit/host_shim.h"\n#include <cstdio>\n'
        + "".join(f"#include <{name}>\n" for name in emitter.includes())
        + '#include "emit/gemm3x_library.h"\n'
        + "".join(emitter.type_definitions(kernel, CONTRACT) for kernel in (PERSISTENT, STREAM_K))
        + template.read("zero_range.h")
        + ZERO_RANGE_MAIN
        + f"int main() {{\n{body}  return 0;\n}}\n"
    )
    flags = ("-std=c++17", "-O1", "-fpermissive", "-w", *toolchain.defines, f"-iquote{PACKAGE}")
    toolkit = [word for folder in toolchain.cuda_include for word in ("-isystem", str(folder))]
    gxx = str(toolchain.gxx.path)
    compiled([gxx, *flags, *toolchain.includes(), *toolkit, str(unit), "-o", str(program), "-ldl"], tmp_path)
    rows = [line.split() for line in compiled([str(program)], tmp_path).splitlines()]
    assert len(rows) == len(calls)
    assert all(same == "1" for same, _, _ in rows)
    zeroed = [int(size) > 0 for _, size, _ in rows]
    assert any(zeroed) and not all(zeroed)
