from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.export.header import Exported
from cutlass_tuner.export.rerun import run_command
from cutlass_tuner.export.tuned import Tuned, substitute
from cutlass_tuner.records import Problem
from export.samples import (
    CONTRACT,
    PERSISTENT,
    PROVENANCE,
    STREAM_K,
    TWO_KERNELS,
    Writer,
    kernel,
    problem,
    texts,
    tuned,
)


def contents(written: Exported) -> dict[str, str]:
    return {path.name: path.read_text() for path in written.files}


def gxx() -> str:
    found = shutil.which("g++")
    if found is None:
        pytest.skip("no g++")
    return found


def test_it_writes_a_header_a_source_a_benchmark_and_a_page(export: Writer) -> None:
    written = export(TWO_KERNELS, namespace="acme::gemm", name="decoder")
    names = ["decoder.h", "decoder.cu", "decoder_bench.cu", "decoder.md"]
    assert [path.name for path in written.files] == names
    assert written.shapes == 3 and written.loss == 0.0 and written.unserved == ()
    assert written.kernels_used == tuple(sorted((PERSISTENT.key, STREAM_K.key)))
    for text in contents(written).values():
        assert written.nvcc_line in text or "decoder_bench.cu" in text
        assert not re.search(r"@[A-Z_]+@", text)
        assert "acme::gemm" in text
    assert "-DNDEBUG" in written.nvcc_line and "-c decoder.cu" in written.nvcc_line


def test_the_same_study_gives_the_same_bytes(tmp_path: Path) -> None:
    first = contents(Writer(tmp_path / "a")(TWO_KERNELS))
    second = contents(Writer(tmp_path / "b")(list(reversed(TWO_KERNELS))))
    assert first == second


def test_only_kernels_that_serve_a_problem_are_in_the_source(export: Writer) -> None:
    idle = kernel(tile_n=128)
    given = texts(PERSISTENT, STREAM_K, idle)
    source = export(TWO_KERNELS, kernels=given).source.read_text()
    for used in (PERSISTENT, STREAM_K):
        assert given[used.key].type_definitions.strip() in source
        assert given[used.key].wrapper.strip() in source
    assert given[idle.key].symbol not in source


def test_the_limit_reaches_the_written_files_and_says_what_it_costs(export: Writer) -> None:
    alternatives = [tuned(TWO_KERNELS[1].problem, PERSISTENT, 40.5)]
    written = export(TWO_KERNELS, max_kernels=1, alternatives=alternatives)
    assert written.kernels_used == (PERSISTENT.key,)
    assert written.loss == pytest.approx(2 ** (1 / 3) - 1)
    header = written.header.read_text()
    assert "25.99% slower" in header
    assert texts(STREAM_K)[STREAM_K.key].symbol not in written.source.read_text()


def test_a_problem_left_out_is_named_in_the_header(export: Writer) -> None:
    header = export(TWO_KERNELS, max_kernels=1).header.read_text()
    assert "Not served, no exported kernel was measured on them: 128x256x16384 tn" in header


def limited(export: Writer, ratio: float) -> Exported:
    """Two winners, one kernel to ship: `PERSISTENT` serves the other's problem too, at `ratio` of torch."""
    winners = [
        tuned(problem(1024, 2048, 512, count=9), PERSISTENT, 12.5),
        tuned(problem(128, 256, 16384), STREAM_K, 20.0, torch=1.2, cublaslt=1.1),
    ]
    other = substitute(winners[1], winners[0].config, winners[0].launch_codes, ratio)
    return export(winners, max_kernels=1, alternatives=[other])


def test_figures_from_the_search_are_marked_and_the_mark_is_explained(export: Writer) -> None:
    written = limited(export, 0.6)
    lines = written.header.read_text().splitlines()
    (row,) = [line for line in lines if "16384" in line]
    assert row.split()[1:] == ["128", "256", "16384", "1", "tn", "40.00", "0.600", "0.550~", "0"]
    assert "1.050 " in lines[lines.index(row) + 1]
    assert lines[lines.index(row) + 2].startswith("// ~ from the search, no final measured it here")
    assert sum("~" in line for line in lines) == 4  # that row, the line under it, and two comments on it
    page = next(path for path in written.files if path.suffix == ".md").read_text()
    assert "Marked `~` in the table of `tuned.h`: 128x256x16384 tn." in page


def test_without_figures_from_the_search_nothing_is_marked(export: Writer) -> None:
    written = export(TWO_KERNELS)
    table = [line for line in written.header.read_text().splitlines() if " tn " in line]
    assert len(table) == 3 and "~" not in "".join(table)
    assert "from the search" not in written.header.read_text()
    assert "Marked" not in contents(written)["tuned.md"]


def test_a_lucky_search_neither_beats_the_baselines_nor_gains_speed(export: Writer) -> None:
    written = limited(export, 9.9)
    assert written.loss == 0.0
    assert [(e.time_us, e.beats_baselines) for e in written.served] == [(20.0, False), (12.5, True)]
    row = next(line for line in written.source.read_text().splitlines() if "{128, 256, 16384, 1" in line)
    assert "20.0000f, 1.2000f, 1.1000f}, false," in row


def test_the_loss_is_that_of_the_figures_shown(export: Writer) -> None:
    assert limited(export, 0.6).loss == pytest.approx(2 ** (1 / 10) - 1)


def test_the_page_has_the_command_that_measures_each_row_again(export: Writer) -> None:
    page = contents(export(TWO_KERNELS))["tuned.md"]
    for entry in TWO_KERNELS:
        assert f"    {run_command(entry.problem, entry.config, 'cold', 'nvcc')}\n" in page


def test_provenance_names_what_was_measured_where(export: Writer) -> None:
    written = export(TWO_KERNELS)
    environment = PROVENANCE.environment
    for text in (written.header.read_text(), written.source.read_text()):
        for value in (environment.gpu, environment.driver, environment.compiler, environment.cutlass):
            assert value in text
        assert PROVENANCE.date in text and environment.tuner in text
    row = next(line for line in written.header.read_text().splitlines() if "16384" in line)
    assert row.split()[1:] == ["128", "256", "16384", "1", "tn", "20.25", "0.900", "0.800", "1"]


def test_names_from_a_csv_cannot_leave_their_comment(export: Writer) -> None:
    spiteful = TWO_KERNELS[0].problem.model_copy(update={"name": "x\nint injected; \\"})
    entry = Tuned(spiteful, TWO_KERNELS[0].config, (2, 1, 1, 0, 0), 1.0)
    for line in export([entry]).header.read_text().splitlines():
        assert "injected" not in line or (line.startswith("//") and not line.endswith("\\"))


def test_the_measured_macros_hold_even_in_a_build_that_forgets_them(export: Writer) -> None:
    source = export(TWO_KERNELS).source.read_text()
    first_include = source.index("#include")
    for macro in ("NDEBUG", "CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED"):
        assert 0 < source.index(f"#ifndef {macro}\n#define {macro}\n#endif") < first_include


@pytest.mark.parametrize(
    ("layouts", "default"), [(["tt"], "kTT"), (["nt", "tn"], "kTN"), (["nt", "nn"], "kNN")]
)
def test_calls_without_a_layout_mean_one_that_was_tuned(
    export: Writer, layouts: list[str], default: str
) -> None:
    entries = [tuned(problem(64, 64, 64, layout=layout), PERSISTENT) for layout in layouts]
    assert f"kDefaultLayout = Layout::{default};" in export(entries).header.read_text()


def test_launch_codes_of_another_op_are_refused(export: Writer) -> None:
    with pytest.raises(ValueError, match="not those of a GEMM"):
        export([tuned(problem(64, 64, 64), PERSISTENT, codes=(1, 0, 1, 0, 0, 7))])


@pytest.mark.parametrize("namespace", ["", "2fast", "a b", "a::", "std", "x::cutlass", "class", "a;b"])
def test_a_bad_namespace_is_the_users_mistake(export: Writer, namespace: str) -> None:
    with pytest.raises(UserError, match="must be a C\\+\\+ namespace"):
        export(TWO_KERNELS, namespace=namespace, name="out")


def test_a_file_name_cannot_leave_the_folder(export: Writer) -> None:
    with pytest.raises(UserError, match="export name"):
        export(TWO_KERNELS, name="../x")


def test_one_header_holds_one_contract(export: Writer) -> None:
    elements = {"a": "bf16", "b": "bf16", "d": "bf16"}
    other = CONTRACT.model_copy(update={"elements": elements})
    odd = problem(8, 8, 8).model_copy(update={"contract": other})
    with pytest.raises(UserError, match="one element type"):
        export([*TWO_KERNELS, tuned(odd, PERSISTENT)])


# --- what a C++ compiler says of it -------------------------------------------------------------------


def test_the_header_compiles_alone_twice_and_beside_another_export(tmp_path: Path) -> None:
    Writer(tmp_path)(TWO_KERNELS)
    Writer(tmp_path)(TWO_KERNELS, namespace="acme::gemm", name="other")
    unit = tmp_path / "unit.cpp"
    unit.write_text(
        '#include "tuned.h"\n#include "tuned.h"\n#include "other.h"\nstatic_assert(tuned::kNotTuned < 0);'
    )
    done = subprocess.run(
        [gxx(), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(unit)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    includes = re.findall(r"#include (\S+)", (tmp_path / "tuned.h").read_text())
    assert includes == ["<cstddef>"]


MAIN = """
int main() {
  for (tuned::Problem p; std::cin >> p.m >> p.n >> p.k >> p.batch;) {
    int layout = 0;
    std::cin >> layout;
    p.layout = tuned::Layout(layout);
    int const index = tuned::dispatch(p);
    std::printf("%d %d %d", index, tuned::beats_baseline(p), tuned::dispatch(p.m, p.n, p.k));
    if (index != tuned::kNotTuned) { std::printf(" %.2f", tuned::entry(index).time_us); }
    std::printf("\\n");
  }
}
"""


def test_dispatch_finds_every_tuned_problem_and_no_other(export: Writer, tmp_path: Path) -> None:
    """The table and `dispatch` of the .cu need no CUDA: compiled by themselves, they are asked."""
    extents = [(m, n, k, b) for m in (64, 128, 4096) for n in (64, 256) for k in (64, 512) for b in (1, 4)]
    shapes = [
        problem(m, n, k, batch=b, layout=layout) for m, n, k, b in extents for layout in ("nt", "tt", "tn")
    ]
    entries = [tuned(p, PERSISTENT, 1.0 + i, torch=2.0 if i % 2 else 0.5) for i, p in enumerate(shapes)]
    source = export(entries).source.read_text()
    table = source[source.index("// launch: swizzle") : source.index("GemmCall gemm_call(")]
    lookup = source[
        source.index("char const* to_string(") : source.index("std::size_t workspace_size(Problem")
    ]
    unit = tmp_path / "dispatch.cpp"
    unit.write_text(
        '#include "tuned.h"\n#include <algorithm>\n#include <cstdio>\n#include <iostream>\n#include <tuple>\n'
        f"namespace tuned {{\n{table}\n{lookup}\n}}\n{MAIN}"
    )
    program = tmp_path / "dispatch"
    command = [
        gxx(),
        "-std=c++17",
        "-Wall",
        "-Werror",
        f"-I{tmp_path / 'out'}",
        str(unit),
        "-o",
        str(program),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    strangers = [problem(64, 64, 65), problem(64, 64, 64, batch=2), problem(64, 64, 64, layout="nn")]
    asked = [*shapes, *strangers]
    answers = subprocess.run(
        [str(program)], input="\n".join(map(_words, asked)), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    by_default = {(p.dims["m"], p.dims["n"], p.dims["k"]): i for i, p in enumerate(shapes) if _is_default(p)}
    seen = set()
    for i, (shape, answer) in enumerate(zip(asked, answers, strict=True)):
        index, beats, plain, *time = answer.split()
        if i < len(shapes):
            assert float(time[0]) == entries[i].time_us
            assert beats == str(int(entries[i].beats_baselines))
            seen.add(index)
        else:
            assert (index, beats, time) == ("-1", "0", [])
        extents_of = (shape.dims["m"], shape.dims["n"], shape.dims["k"])
        assert (plain != "-1") == (extents_of in by_default)
    assert len(seen) == len(shapes)


def _words(shape: Problem) -> str:
    layout = ("tn", "tt", "nn", "nt").index(shape.layout)
    return " ".join(str(value) for value in (*shape.dims.values(), layout))


def _is_default(shape: Problem) -> bool:
    return shape.layout == "tn" and shape.dims["batch"] == 1
