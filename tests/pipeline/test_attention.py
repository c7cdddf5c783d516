"""Attention from shapes to exports, over a scripted child and builder: an op with baselines of its own."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutlass_tuner.export.tables import ContestRow, ExportTable
from cutlass_tuner.ops import registry
from cutlass_tuner.results import BEST, CONTROL, TORCH, in_layout
from pipeline.harness import CONTESTS, Done, Server, Workplace, repeated, rows, screened

OP = registry.op("fmha")
COLUMNS = "name,batch,heads_q,heads_kv,seqlen_q,seqlen_kv,head_dim,causal"
SHAPES = f"""{COLUMNS}
prefill,1,8,2,1024,1024,128,1
vision,2,4,4,512,512,64,0
chunked,1,8,2,256,1024,128,1
,1,4,4,500,500,64,0
"""
KEYS = [
    "fmha:bshd:1x8x2x1024x1024x128x1",
    "fmha:bshd:2x4x4x512x512x64x0",
    "fmha:bshd:1x8x2x256x1024x128x1",
    "fmha:bshd:1x4x4x500x500x64x0",
]
CHUNKED, UNNAMED = KEYS[2], "b1.h4.s500.d64.full"
SPACE = """
op: fmha
families:
  attention:
    kernel:
      template: {values: [flash]}
      tile_q: {values: [128, 192]}
      tile_kv: {values: [64, 96, 128]}
      exp_fma: {values: [0]}
      lazy_rescale: {values: [true]}
"""
BUILDS = 16
INSTALLED = ("torch", "cudnn", "flash", "efficient")
PACKAGES = ("flash-attn-2", "flash-attn-3", "flash-attn-4")
REFUSED = "cuDNN has no bottom-right causal mask"


def attention(server: Server, folder: Path) -> Workplace:
    place = Workplace(server, folder)
    place.write("a.csv", SHAPES)
    place.write("attention.yaml", SPACE)
    return place


def tuning(options: str) -> str:
    return f"tune --op fmha --shapes a.csv --space attention.yaml --study s --jobs 1 {options}"


@pytest.fixture(scope="module")
def tuned(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, Done]:
    place = attention(server, tmp_path_factory.mktemp("attention"))
    done = place.run(tuning(f"--builds {BUILDS}"))
    assert done.status == 0, done.err
    return place, done


def printed(place: Workplace, command: str, **environment: str) -> str:
    done = place.run(command, **environment)
    assert (done.status, "Traceback" in done.err) == (0, False), done.err
    return done.out


def lines(text: str) -> Iterator[list[str]]:
    """The result table's cells, header first."""
    for line in text.splitlines():
        if line.startswith("shape ") or "chunked" in line or "prefill" in line:
            yield re.split(r"\s{2,}", line.strip())


# --- tune


def test_every_shape_has_a_winner_of_its_own_head_dim_and_mask(tuned: tuple[Workplace, Done]) -> None:
    found = rows(tuned[0].events)
    assert list(found) == KEYS
    for key, (head_dim, mask) in zip(
        KEYS, [(128, "causal"), (64, "full"), (128, "causal"), (64, "full")], strict=True
    ):
        winner = found[key].row.winner
        assert winner is not None, found[key].row.why
        assert (winner.kernel.knobs["head_dim"], winner.kernel.knobs["mask"]) == (head_dim, mask)


def test_a_kernel_is_measured_only_on_shapes_that_it_serves(tuned: tuple[Workplace, Done]) -> None:
    """The scripted child stops at any other; what was measured shows that both kinds were."""
    measured = {(one.problem, one.kernel.knobs["head_dim"]) for one in screened(tuned[0].events)}
    assert measured == {(key, 128 if "x128x" in key else 64) for key in KEYS}


def test_a_final_has_every_baseline_that_ran_and_no_tuning(tuned: tuple[Workplace, Done]) -> None:
    place, _ = tuned
    assert place.asked("tune_baseline") == []
    other = in_layout(TORCH, "bhsd")
    for key, event in rows(place.events).items():
        ran = [name for name in INSTALLED if (key, name) != (CHUNKED, "cudnn")]
        winner = event.row.winner
        assert winner is not None
        assert event.row.entrants == (TORCH, CONTROL, *ran[1:], other, winner.key)
    finals = [r for r in place.asked() if len(r["entries"]) > 3 and r["entries"][1]["name"] == CONTROL]
    assert len(finals) == CONTESTS * len(KEYS)
    for request in finals:
        assert [e["name"] for e in request["entries"][:-2]] == [TORCH, CONTROL, *OP.baselines[1:]]


def test_who_refused_is_recorded_with_the_reason(tuned: tuple[Workplace, Done]) -> None:
    baselines = tuned[0].study.ledger.baselines
    refused = baselines[CHUNKED, "cudnn"].failure
    assert refused is not None and refused.reason == REFUSED
    assert baselines[KEYS[0], "cudnn"].failure is None
    for key in KEYS:
        for name in PACKAGES:
            failure = baselines[key, name].failure
            assert failure is not None and failure.reason == f"{name} is not installed"


def test_the_table_speaks_of_the_best_baseline_of_each_shape(tuned: tuple[Workplace, Done]) -> None:
    header, prefill, chunked = list(lines(tuned[1].out))[:3]
    assert header == [
        *("shape", "ours us", "TFLOP/s", "torch us", "cudnn us", "flash us", "efficient us"),
        *("best", "vs best", "95 %", "roofline %", "verdict"),
    ]
    first, third = dict(zip(header, prefill, strict=True)), dict(zip(header, chunked, strict=True))
    assert (first["shape"], first["best"]) == ("prefill", "cudnn")
    assert float(first["vs best"]) == pytest.approx(
        float(first["cudnn us"]) / float(first["ours us"]), rel=0.01
    )
    assert (third["cudnn us"], third["best"] in ("torch", "flash")) == ("-", True)
    flops = 4 * 128 * 8 * (1024 * 1025 // 2)
    assert float(first["TFLOP/s"]) == pytest.approx(flops / float(first["ours us"]) / 1e6, rel=0.1)
    assert f"\n{UNNAMED} " in tuned[1].out


def test_what_is_missing_is_told_and_improves_no_mean(tuned: tuple[Workplace, Done]) -> None:
    out = tuned[1].out
    assert out.count(f"chunked: no cudnn ratio: {REFUSED}") == 1 and out.count(REFUSED) == 1
    for name in PACKAGES:
        assert out.count(f"\n{name} on no shape: {name} is not installed\n") == 1
        assert f"{name} us" not in out and f"against {name}" not in out
    best, cudnn = (re.search(f"against {name}: .*\n(.*)\n", out) for name in (BEST, "cudnn"))
    assert best is not None and "4 of 4 shapes" in best[1] and "missing" not in best[1]
    assert cudnn is not None and "3 of 4 shapes" in cudnn[1] and "1 missing (chunked)" in cudnn[1]
    assert out.index(f"against {BEST}:") < out.index("against torch:")
    assert "cublas" not in out.lower()


def test_the_best_baselines_mean_is_of_the_least_ratios(tuned: tuple[Workplace, Done]) -> None:
    exported = table(tuned[0])
    least = [min(f.ratio for f in row.baselines.values() if f.ratio is not None) for row in exported]
    mean = 1.0
    for ratio in least:
        mean *= ratio ** (1 / len(least))
    assert f"against {BEST}: geometric mean {mean:.3f}," in tuned[1].out


def test_the_study_goes_on_and_builds_nothing_twice(server: Server, tmp_path: Path) -> None:
    place = attention(server, tmp_path / "own")
    for builds in (4, 8):
        done = place.run(tuning(f"--builds {builds}"))
        assert done.status == 0, done.err
    assert repeated(place.events) == []
    assert len(place.study.ledger.builds) == 8
    before = len(place.events)
    assert place.run(tuning("--builds 8")).status == 0
    assert len(place.events) == before  # its finals are settled


def test_a_lost_gpu_is_told_in_the_ops_own_words(server: Server, tmp_path: Path) -> None:
    place = attention(server, tmp_path / "lost")
    told = place.run(tuning("--builds 4"), CHILD_DIES_ON_CONTESTS="1").err
    assert "the GPU no longer runs torch's scaled_dot_product_attention on " in told
    assert "matmul" not in told


# --- the other commands


def table(place: Workplace) -> tuple[ContestRow, ...]:
    exported = ExportTable.model_validate_json(printed(place, "export s --format json"))
    found = [row for row in exported.rows if isinstance(row, ContestRow)]
    assert len(found) == len(exported.rows) == len(KEYS)
    return tuple(found)


def test_show_prints_the_same_results(tuned: tuple[Workplace, Done]) -> None:
    place, done = tuned
    text = printed(place, "show s")
    assert text.startswith("study s: fmha, 4 shapes, L2 cold\n") and done.out in text


def test_json_has_every_baseline_by_name(tuned: tuple[Workplace, Done]) -> None:
    place, _ = tuned
    for key, row in zip(KEYS, table(place), strict=True):
        winner = rows(place.events)[key].row.winner
        assert winner is not None
        assert (row.problem.key, row.kernel, row.launch) == (key, winner.kernel.key, winner.launch.key)
        assert list(row.baselines) == list(OP.baselines)
        ran = {name: f for name, f in row.baselines.items() if f.ratio is not None}
        assert row.best_baseline == min(ran, key=lambda name: ran[name].ratio or 0.0)
        assert all(f.us and f.low and f.high and not f.why for f in ran.values())
        assert all(row.baselines[name].why == f"{name} is not installed" for name in PACKAGES)
    chunked = table(place)[2].baselines["cudnn"]
    assert (chunked.us, chunked.ratio, chunked.outcome, chunked.why) == (None, None, "missing", REFUSED)
    assert "cublaslt" not in printed(place, "export s --format json").replace('"cublas"', "")


def test_csv_has_columns_a_baseline(tuned: tuple[Workplace, Done]) -> None:
    place, _ = tuned
    for line, row in zip(
        csv.DictReader(io.StringIO(printed(place, "export s --format csv"))), table(place), strict=True
    ):
        assert {name: int(line[name]) for name in OP.dims} == row.problem.dims
        assert (line["kernel"], line["best_baseline"]) == (row.kernel, row.best_baseline)
        for name, figures in row.baselines.items():
            column = name.replace("-", "_")
            assert line[f"{column}_us"] == ("" if figures.us is None else repr(figures.us))
            assert line[f"{column}_ratio"] == ("" if figures.ratio is None else repr(figures.ratio))
            assert line[f"{column}_outcome"] == figures.outcome
        assert "baselines" not in line and not any("cublas" in name for name in line)


def test_an_exported_command_line_runs_that_config(tuned: tuple[Workplace, Done]) -> None:
    place, _ = tuned
    for row in table(place):
        assert row.run_command is not None
        text = printed(place, " ".join(shlex.split(row.run_command)[1:]))
        assert f"\nkernel   {row.kernel}\nlaunch   {row.launch}\n" in text
        assert "of torch's scaled_dot_product_attention's" in text


def test_training_data_are_exported(tuned: tuple[Workplace, Done]) -> None:
    kinds = [json.loads(line) for line in printed(tuned[0], "export s --format training").splitlines()]
    assert kinds


def test_a_header_and_a_module_have_the_winners_and_the_ratios_of_the_final(
    tuned: tuple[Workplace, Done], tmp_path: Path
) -> None:
    place = tuned[0]
    said = printed(place, f"export s --format torch --out {tmp_path} --max-kernels 2 --namespace acme::nn")
    assert said.startswith("4 shapes, 2 kernels")
    assert said.rstrip().endswith("-shared acme_nn.cu -o libacme_nn_torch.so")
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    ours = {f"acme_nn{name}" for name in (".h", ".cu", "_bench.cu", ".md", "_torch.py")}
    assert ours < written and "emit/flash/kernel.h" in written
    header = (tmp_path / "acme_nn.h").read_text()
    assert "command: cutlass-tuner export s --format torch --namespace acme::nn --max-kernels 2" in header
    source = (tmp_path / "acme_nn.cu").read_text()
    assert source.count('extern "C" __global__') == 2

    printed(place, f"export s --out {tmp_path / 'all'}")
    assert not list((tmp_path / "all").glob("*_torch.py"))
    table_rows = (tmp_path / "all" / "tuned.h").read_text().splitlines()
    for row in table(place):
        (line,) = [
            text for text in table_rows if text.startswith("//") and text.endswith(f" {row.problem.label}")
        ]
        assert row.best_baseline is not None
        best, torch = row.baselines[row.best_baseline].ratio, row.baselines["torch"].ratio
        assert f" {torch:.3f} " in line and f" {best:.3f} " in line and f"  {row.best_baseline}  " in line


def test_compare_measures_the_baselines_alone(tuned: tuple[Workplace, Done]) -> None:
    text = printed(tuned[0], "compare --op fmha --shapes a.csv")
    assert text.splitlines()[0].split("  ")[0] == "shape"
    assert all(f"{name} us" in text.splitlines()[0] for name in INSTALLED)
    assert f"\nchunked: no cudnn time: {REFUSED}\n" in text
    assert text.rstrip().endswith("flash-attn-4 on no shape: flash-attn-4 is not installed")


def test_compare_measures_a_studys_winners_beside_them(tuned: tuple[Workplace, Done]) -> None:
    text = printed(tuned[0], "compare --op fmha --shapes a.csv --study s")
    assert f"against {BEST}: geometric mean" in text and "4 of 4 shapes" in text


def test_a_recorded_study_is_replayed(tuned: tuple[Workplace, Done]) -> None:
    place, _ = tuned
    done = place.run(tuning("--builds 8 --llm none --simulate s").replace("--study s", "--study again"))
    assert done.status == 0, done.err
    assert "SIMULATED, replayed from s" in done.out and "4 of 4 shapes" in done.out


def test_a_request_to_a_language_model_knows_only_attention(tuned: tuple[Workplace, Done]) -> None:
    place, _ = tuned
    printed(place, "propose --op fmha --shapes a.csv --out request.md --like s")
    text = (place.folder / "request.md").read_text()
    assert not re.search(r"matmul|cublas|gemm|tile_m|stream-?k|swizzle|raster", text, re.IGNORECASE)
    assert "The head_dim and mask are the problem's and are no knobs of yours." in text
    nearby = text[text.index("## Nearby shapes") : text.index("## Your task")]
    assert "batch=1 heads_q=8 heads_kv=2 seqlen_q=1024 seqlen_kv=1024 head_dim=128 causal=1" in nearby
    assert not any(name in text for name in ("prefill", "vision", "chunked", UNNAMED))


# --- run, and mistakes

RUN = "run --op fmha --shape 1x8x2x256x1024x128x1"


def test_run_takes_the_given_knobs_from_the_shape(tuned: tuple[Workplace, Done]) -> None:
    text = printed(tuned[0], RUN)
    assert f"problem  {CHUNKED}\n" in text and "head_dim=128" in text and "mask=causal" in text
    assert "legal: no rule is broken" in text and "answer   right" in text


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (f"{RUN} --set head_dim=64", "the kernel is for head_dim 64, the problem's is 128"),
        (f"{RUN} --set mask=full", "the kernel's mask is full, the problem's is causal"),
    ],
)
def test_run_refuses_a_kernel_of_another_problem(
    command: str, told: str, tuned: tuple[Workplace, Done]
) -> None:
    done = tuned[0].run(command)
    assert done.status == 1 and told in done.out and "not built: it is illegal" in done.out


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tune --op fmha --shapes s.csv", "s.csv, line 1: unknown column 'm'"),
        ("tune --op hgemm --shapes a.csv", "a.csv, line 1: unknown column 'batch'|'heads_q'"),
        ("compare --op fmha --shapes s.csv", "s.csv, line 1: unknown column 'm'"),
        ("compare --op fmha-bf16 --shapes a.csv --study s", "study s is of fmha, not of fmha-bf16"),
        (
            "tune --op fmha --shapes a.csv --space space.yaml",
            "space.yaml: it is a space of hgemm, not of fmha",
        ),
        ("tune --op hgemm --shapes s.csv --space attention.yaml", "it is a space of fmha, not of hgemm"),
        (
            "tune --op fmha --shapes a.csv --fix head_dim=32",
            "head_dim of the shapes is 128, 64, of the space 32",
        ),
        ("run --op fmha --shape 64x64x64", "3 extents (64, 64, 64); give batch, heads_q"),
        ("run --op fmha --shape 1x8x3x64x64x64", "heads_q must be a multiple of heads_kv"),
        ("run --op fmha --shape 1x8x8x64x64x64x3", "causal is 3; give 0 (no mask), 1 (bottom-right)"),
        ("run --op hgemm --shape 0x64x64", "m is 0; give a whole number from 1"),
    ],
)
def test_a_mistake_is_one_line(command: str, told: str, tuned: tuple[Workplace, Done]) -> None:
    done = tuned[0].run(command)
    assert re.search("|".join(map(re.escape, told.split("|"))), done.told())
