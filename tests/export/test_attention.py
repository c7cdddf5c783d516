from __future__ import annotations

import ast
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.export.rerun import run_command
from cutlass_tuner.export.tuned import substitute
from cutlass_tuner.export.unit import Exported
from cutlass_tuner.ops import registry
from cutlass_tuner.records import Problem
from cutlass_tuner.settings import PACKAGE
from export.attention_samples import (
    CAUSAL,
    CHUNKED,
    EXAMPLE,
    FOUR,
    FULL,
    GROUPED,
    SQUARE,
    AttentionWriter,
    problem,
    tuned,
)
from export.samples import PROVENANCE

LAYOUTS = ("bshd", "bhsd")
FLASH_FILES = ["consumer.h", "host.h", "kernel.h", "producer.h", "softmax.h", "tensors.h", "traits.h"]


@pytest.fixture
def export(tmp_path: Path) -> AttentionWriter:
    return AttentionWriter(tmp_path / "out")


def contents(written: Exported) -> dict[str, str]:
    folder = written.header.parent
    return {str(path.relative_to(folder)): path.read_text() for path in written.files}


def gxx() -> str:
    found = shutil.which("g++")
    if found is None:
        pytest.skip("no g++")
    return found


def test_it_writes_a_header_a_source_a_benchmark_a_page_and_the_kernels(export: AttentionWriter) -> None:
    written = export(FOUR, namespace="acme::nn", name="decoder")
    texts = contents(written)
    ours = ["decoder.h", "decoder.cu", "decoder_bench.cu", "decoder.md"]
    assert sorted(texts) == sorted([*ours, *(f"emit/flash/{name}" for name in FLASH_FILES)])
    assert written.shapes == 4 and written.kernels_used == tuple(sorted((CAUSAL.key, FULL.key)))
    for name in ours:
        assert written.nvcc_line in texts[name] or name == "decoder_bench.cu"
        assert not re.search(r"@[A-Z_]+@", texts[name]) and "acme::nn" in texts[name]
    assert "-I. -c decoder.cu" in written.nvcc_line and written.build_line == ""


def test_shipped_files_are_those_that_were_measured(export: AttentionWriter) -> None:
    for name, text in contents(export([*FOUR, tuned(problem(1, 2, 2, 64, 64, 64, 0), EXAMPLE)])).items():
        if name.startswith("emit/"):
            assert text == (PACKAGE / name).read_text()
            for included in re.findall(r'#include "(emit/[^"]+)"', text):
                assert (export.out_dir / included).is_file(), f"{name} includes {included}"


@pytest.mark.parametrize(("kernel", "other"), [(FULL, "example88"), (EXAMPLE, "flash")])
def test_only_what_is_used_is_there(export: AttentionWriter, kernel: object, other: str) -> None:
    entry = tuned(GROUPED, EXAMPLE if kernel is EXAMPLE else FULL)
    texts = contents(export([entry]))
    assert other not in texts["tuned.cu"].replace("template=example88", "")
    assert not any(other in name for name in texts)


def test_kernels_stand_in_the_source_as_they_were_compiled(export: AttentionWriter) -> None:
    from cutlass_tuner.pipeline import setup

    source = export([*FOUR, tuned(problem(1, 2, 2, 64, 64, 64, 0), EXAMPLE)]).source.read_text()
    emitter = setup.emitter(export.op)
    for kernel in (CAUSAL, FULL, EXAMPLE):
        lines = emitter.device_source([kernel], export.op.contract).splitlines()
        kept = [line for line in lines if not line.startswith(("#line", "#include"))]
        assert "\n".join(kept).strip() in source
    assert "#line" not in source
    assert source.index("example88_kernel.h") < source.index("flash/kernel.h")


def test_the_same_study_gives_the_same_bytes(tmp_path: Path) -> None:
    first = contents(AttentionWriter(tmp_path / "a")(FOUR, torch=True))
    second = contents(AttentionWriter(tmp_path / "b")(list(reversed(FOUR)), torch=True))
    assert first == second


def test_the_table_says_what_was_measured(export: AttentionWriter) -> None:
    lines = export(FOUR).header.read_text().splitlines()
    (row,) = [line for line in lines if " 1000 " in line]
    flops = registry.op("fmha").flops(GROUPED)
    figures = ["20.25", f"{flops / 20.25e6:.1f}", "0.900", "0.800", "1", "cudnn"]
    assert row.split()[1:] == ["2", "8", "2", "130", "1000", "64", "none", "bshd", *figures]
    (unmeasured,) = [line for line in lines if line.endswith("prefill")]
    assert unmeasured.split()[-5:] == ["-", "-", "0", "-", "prefill"]


def test_the_limit_marks_what_no_final_measured(export: AttentionWriter) -> None:
    winners = [tuned(CHUNKED, CAUSAL, 10.0), tuned(SQUARE, EXAMPLE, 20.0, torch=1.2, best=1.1)]
    other = substitute(winners[1], CAUSAL_CONFIG, (0, 0, 1), 0.6)
    assert (other.speedup_best, other.best_baseline) == (pytest.approx(0.55), "cudnn")
    written = export(winners, max_kernels=1, alternatives=[other])
    assert written.kernels_used == (CAUSAL.key,)
    (row,) = [line for line in written.header.read_text().splitlines() if " 257 " in line]
    assert "40.00" in row and "0.550~" in row
    assert "example88" not in written.source.read_text()


CAUSAL_CONFIG = FOUR[0].config


def test_the_page_has_a_call_and_each_rows_command(export: AttentionWriter) -> None:
    page = contents(export(FOUR))["tuned.md"]
    assert "{2, 8, 2, 130, 1000, 64, tuned::Causal::kNone, tuned::Layout::kBSHD}" in page
    for entry in FOUR:
        assert f"    {run_command(entry.problem, entry.config, 'cold', 'nvcc')}\n" in page


def test_simulated_figures_are_labelled_everywhere(export: AttentionWriter) -> None:
    written = export(FOUR, provenance=replace(PROVENANCE, simulated="recorded"), torch=True)
    for name, text in contents(written).items():
        assert ("SIMULATED: figures replayed from" in text) != name.startswith("emit/"), name


def test_launch_codes_of_another_op_are_refused(export: AttentionWriter) -> None:
    with pytest.raises(ValueError, match="not those of attention"):
        export([replace(FOUR[0], launch_codes=(0, 0, 1, 3))])


def test_fp16_and_bf16_do_not_mix(export: AttentionWriter) -> None:
    other = problem(1, 2, 2, 64, 64, 64, 1, op=registry.op("fmha-bf16"))
    with pytest.raises(UserError, match="one element type"):
        export([*FOUR, tuned(other, CAUSAL)])


def test_the_module_holds_the_table_and_survives_any_study(export: AttentionWriter) -> None:
    spiteful = replace(PROVENANCE, study='x"""\nimport os\\', command='"')
    written = export(FOUR, torch=True, provenance=spiteful)
    assert written.build_line.endswith("-shared tuned.cu -o libtuned_torch.so")
    text = contents(written)["tuned_torch.py"]
    tree = ast.parse(text)
    assert ast.get_docstring(tree) and written.build_line in text
    (table,) = [n for n in tree.body if isinstance(n, ast.AnnAssign) and ast.unparse(n.target) == "TUNED"]
    assert table.value is not None
    rows = ast.literal_eval(table.value)
    assert rows == {(*e.problem.dims.values(), e.problem.layout): (e.time_us, e.speedup_torch) for e in FOUR}


def test_a_module_is_for_one_type_that_torch_has(export: AttentionWriter) -> None:
    contract = FOUR[0].problem.contract
    odd = contract.model_copy(update={"elements": {**contract.elements, "v": "bf16"}})
    entry = replace(FOUR[0], problem=CHUNKED.model_copy(update={"contract": odd}))
    with pytest.raises(UserError, match="no PyTorch module for element types bf16, f16"):
        export([entry], torch=True)


# --- what a C++ compiler says of it -------------------------------------------------------------------


def test_the_header_compiles_alone_and_beside_another_export(tmp_path: Path) -> None:
    AttentionWriter(tmp_path)(FOUR)
    AttentionWriter(tmp_path)(FOUR, namespace="acme::nn", name="other")
    unit = tmp_path / "unit.cpp"
    unit.write_text('#include "tuned.h"\n#include "tuned.h"\n#include "other.h"\n')
    command = [gxx(), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"#include (\S+)", (tmp_path / "tuned.h").read_text()) == ["<cstddef>"]


MAIN = """
int main() {
  int causal, layout;
  for (tuned::Problem p; std::cin >> p.batch >> p.heads_q >> p.heads_kv >> p.seqlen_q >> p.seqlen_kv;) {
    std::cin >> p.head_dim >> causal >> layout;
    p.causal = tuned::Causal(causal);
    p.layout = tuned::Layout(layout);
    int const index = tuned::dispatch(p);
    std::printf("%d %d", index, tuned::beats_baseline(p));
    if (index != tuned::kNotTuned) { std::printf(" %.2f", tuned::entry(index).time_us); }
    std::printf("\\n");
  }
}
"""


def words(shape: Problem, causal: int | None = None) -> str:
    dims = {**shape.dims, **({} if causal is None else {"causal": causal})}
    return " ".join(str(value) for value in (*dims.values(), LAYOUTS.index(shape.layout)))


def test_dispatch_finds_every_tuned_problem_and_no_other(export: AttentionWriter, tmp_path: Path) -> None:
    """The table and `dispatch` of the .cu need no CUDA: compiled by themselves, they are asked."""
    shapes = [
        problem(batch, heads, 2, rows, keys, 64, causal, layout=layout)
        for batch in (1, 4)
        for heads in (2, 8)
        for rows, keys, causal in ((64, 64, 0), (64, 64, 1), (64, 128, 1), (64, 128, 2), (128, 64, 2))
        for layout in ("bhsd", "bshd")
    ]
    entries = [
        tuned(p, CAUSAL if p.dims["causal"] else FULL, 1.0 + i, torch=2.0 if i % 2 else 0.5)
        for i, p in enumerate(shapes)
    ]
    source = export(entries).source.read_text()
    table = source[source.index("// launch: grid") : source.index("}  // namespace\n\nchar const* to_string")]
    lookup = source[source.index("char const* to_string(") : source.index("std::size_t workspace_size(")]
    unit, program = tmp_path / "dispatch.cpp", tmp_path / "dispatch"
    unit.write_text(
        '#include "tuned.h"\n#include <algorithm>\n#include <cstdio>\n#include <iostream>\n#include <tuple>\n'
        f"namespace tuned {{\n{table}\n{lookup}\n}}\n{MAIN}"
    )
    flags = ("-std=c++17", "-Wall", "-Werror", f"-I{export.out_dir}")
    done = subprocess.run([gxx(), *flags, str(unit), "-o", str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    asked = [words(shape) for shape in shapes]
    both = [
        words(shape, 2) for shape in shapes if shape.dims["causal"] == 1 and shape.dims["seqlen_kv"] == 64
    ]
    strangers = [
        words(problem(3, 2, 2, 64, 64, 64, 0)),
        words(problem(1, 4, 2, 64, 64, 64, 0)),
        words(problem(1, 2, 2, 128, 64, 64, 1)),
        words(problem(1, 2, 2, 64, 64, 128, 0)),
    ]
    lines = "\n".join([*asked, *both, *strangers])
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
    answers = [line.split() for line in done.stdout.splitlines()]
    expected = [[str(int(e.beats_baselines)), f"{e.time_us:.2f}"] for e in entries]
    assert [answer[1:] for answer in answers[: len(shapes)]] == expected
    assert len({answer[0] for answer in answers[: len(shapes)]}) == len(shapes)
    squares = [answers[i] for i, p in enumerate(shapes) if words(p, 2) in both and p.dims["causal"] == 1]
    assert both and answers[len(shapes) : -len(strangers)] == squares
    assert answers[-len(strangers) :] == [["-1", "0"]] * len(strangers)
