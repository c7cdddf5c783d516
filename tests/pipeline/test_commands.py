"""The other commands over a study that was really tuned, and `run`, `build` and `compare` over the child."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from cutlass_tuner import settings
from cutlass_tuner.ops import registry
from cutlass_tuner.records import Config
from cutlass_tuner.statistics import across, verdict
from pipeline.harness import CONTESTS, ENTRANTS, KEYS, Server, Workplace, rows

RUN = "run --op hgemm --shape 512x512x512"


@pytest.fixture(scope="module")
def tuned(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(server, tmp_path_factory.mktemp("tuned"))
    place.tune("--builds 8")
    return place


@pytest.fixture
def own(tuned: Workplace, server: Server, tmp_path: Path) -> Workplace:
    """A copy of the study that a test may change."""
    place = Workplace(server, tmp_path / "own")
    shutil.copytree(tuned.folder / "studies", place.folder / "studies")
    return place


def printed(place: Workplace, command: str, **environment: str) -> str:
    done = place.run(command, **environment)
    assert (done.status, "Traceback" in done.err) == (0, False), done.err
    return done.out


def configs(place: Workplace) -> list[Config]:
    found = [rows(place.events)[key].row.winner for key in KEYS]
    return [winner for winner in found if winner is not None]


def test_show_says_what_the_study_is_and_found(tuned: Workplace) -> None:
    text = printed(tuned, "show s")
    assert text.startswith("study s: hgemm, 3 shapes, L2 cold\nNVIDIA H200, driver 580.0, CUDA 13.0.88")
    assert "8 kernels built, 0 failed to build" in text and "0 wrong, 0 failed, 0 kernels condemned" in text
    assert "3 of 3 shapes" in text and "\n16x4096x4096 tn" in text
    assert printed(tuned, f"show {tuned.folder / 'studies' / 's'}") == text


def test_json_holds_every_winner(tuned: Workplace) -> None:
    exported = json.loads(printed(tuned, "export s --format json"))
    assert exported["environment"]["gpu"] == "NVIDIA H200"
    told = [(row["kernel"], row["launch"]) for row in exported["rows"]]
    assert told == [(c.kernel.key, c.launch.key) for c in configs(tuned)]
    for row, key in zip(exported["rows"], KEYS, strict=True):
        final = rows(tuned.events)[key].row
        assert min(final.samples_us[-1]) <= row["time_us"] <= max(final.samples_us[-1])
        assert row["roofline"] > 0 and row["speedup_torch_best_layout"] > 0
        for name in registry.op("hgemm").baselines:
            theirs, field = final.samples_us[final.entrants.index(name)], name.replace("-", "_")
            pair = across(final.samples_us[-1], theirs, final.contests)
            assert pair is not None
            assert min(theirs) <= row[f"{field}_us"] <= max(theirs)
            assert row[f"speedup_{field}"] == pair.ratio and row[f"outcome_{field}"] == verdict(pair)
            if name == "torch":
                assert (row["speedup_torch_low"], row["speedup_torch_high"]) == (pair.low, pair.high)


def test_an_exported_configs_command_line_runs_that_config(tuned: Workplace) -> None:
    exported = json.loads(printed(tuned, "export s --format json"))
    for row in exported["rows"]:
        program, command = row["run_command"].split(maxsplit=1)
        text = printed(tuned, command)
        assert program == "cutlass-tuner"
        assert f"\nkernel   {row['kernel']}\nlaunch   {row['launch']}\n" in text


def test_csv_is_the_same_a_line_a_shape(tuned: Workplace) -> None:
    lines = list(csv.DictReader(io.StringIO(printed(tuned, "export s --format csv"))))
    assert [(line["kernel"], line["launch"]) for line in lines] == [
        (c.kernel.key, c.launch.key) for c in configs(tuned)
    ]
    assert [(line["m"], line["n"], line["k"]) for line in lines] == [
        ("512", "512", "512"),
        ("1024", "4096", "1024"),
        ("16", "4096", "4096"),
    ]


def test_json_and_csv_can_go_to_a_folder(tuned: Workplace, tmp_path: Path) -> None:
    for format_ in ("json", "csv"):
        path = Path(printed(tuned, f"export s --format {format_} --out {tmp_path}").strip())
        assert path == tmp_path / f"s.{format_}"
        assert path.read_text().rstrip("\n") == printed(tuned, f"export s --format {format_}").rstrip("\n")


def test_the_header_has_the_kernels_used_and_no_other(tuned: Workplace, tmp_path: Path) -> None:
    text = printed(tuned, f"export s --out {tmp_path} --namespace acme::gemm")
    used = {c.kernel.digest for c in configs(tuned)}
    built = {build.kernel.digest for build in tuned.study.ledger.builds.values()}
    assert len(used) < len(built)
    source = (tmp_path / "acme_gemm.cu").read_text()
    assert {digest for digest in built if digest in source} == used
    assert "namespace acme" in (tmp_path / "acme_gemm.h").read_text()
    assert f"3 shapes, {len(used)} kernels" in text and "nvcc -std=c++17" in text


def test_the_pytorch_module_stands_beside_the_header(tuned: Workplace, tmp_path: Path) -> None:
    text = printed(tuned, f"export s --format torch --out {tmp_path}")
    assert text.rstrip().endswith("-shared tuned.cu -o libtuned_torch.so")
    names = {"tuned.h", "tuned.cu", "tuned_bench.cu", "tuned.md", "tuned_torch.py"}
    assert {path.name for path in tmp_path.iterdir()} == names
    module = (tmp_path / "tuned_torch.py").read_text()
    assert provenance(tmp_path) in module
    for key in KEYS:
        assert f'({key.split(":")[2].replace("x", ", ")}, "tn"): (' in module


def test_the_compile_line_can_be_pasted_and_the_files_name_no_path(tuned: Workplace, tmp_path: Path) -> None:
    out = tmp_path / "it's"
    lines = printed(tuned, f"export s --out {out}").splitlines()
    folder, headers, compiler = [line.strip() for line in lines[-3:]]
    assert shlex.split(folder) == ["cd", str(out)] and compiler.startswith("nvcc -std=c++17")
    assert (Path(headers.removeprefix("CUTLASS=")) / "include" / "cutlass" / "version.h").is_file()
    for path in out.iterdir():
        assert str(tmp_path) not in path.read_text() and headers not in path.read_text()


def test_the_compile_line_says_when_the_headers_are_not_there(tuned: Workplace, tmp_path: Path) -> None:
    text = printed(tuned, f"export s --out {tmp_path}", CUTLASS_PATH=str(tmp_path))
    assert f"CUTLASS_PATH {tmp_path}: no include/cutlass/version.h" in text
    assert "\n  CUTLASS=/path/to/cutlass\n  nvcc " in text


def provenance(folder: Path) -> str:
    found = re.search(r", command: cutlass-tuner (.*)", (folder / "tuned.h").read_text())
    assert found
    return found[1]


@pytest.mark.parametrize("options", ["", "--studies studies", "--studies elsewhere --max-kernels 1"])
def test_the_command_in_the_header_writes_the_same_header(
    own: Workplace, options: str, tmp_path: Path
) -> None:
    shutil.copytree(own.folder / "studies", own.folder / "elsewhere")
    shutil.rmtree(own.folder / ("studies" if "elsewhere" in options else "elsewhere"))
    printed(own, f"export s --out {tmp_path / 'first'} {options}")
    command = provenance(tmp_path / "first")
    printed(own, f"{command} --out {tmp_path / 'again'}")
    for path in (tmp_path / "first").iterdir():
        assert path.read_text() == (tmp_path / "again" / path.name).read_text()
    assert ("--studies" in command) == ("elsewhere" in options)


def test_a_folder_of_studies_from_the_environment_is_not_written_down(own: Workplace, tmp_path: Path) -> None:
    printed(own, f"export s --out {tmp_path}", CUTLASS_TUNER_STUDIES=str(own.folder / "studies"))
    assert provenance(tmp_path) == "export s --format header --namespace tuned"


def test_a_header_goes_to_the_users_study_but_not_to_a_shipped_one(own: Workplace) -> None:
    printed(own, "export s")
    assert (own.folder / "studies" / "s" / "export" / "tuned.h").is_file()
    shipped = settings.data_dir("studies")
    before = sorted(shipped.rglob("*"))
    for study in ("hgemm-24-h200", str(shipped / "hgemm-24-h200")):
        text = printed(own, f"export {study}")
        assert "\n  hgemm-24-h200-export/tuned.h\n" in text
    assert (own.folder / "hgemm-24-h200-export" / "tuned.h").is_file()
    assert sorted(shipped.rglob("*")) == before


def test_a_limited_export_claims_nothing_that_no_final_measured(own: Workplace) -> None:
    """Of the shipped study with 14 of its 17 kernels: its search saw some that serve as faster than the
    winner's final."""
    text = printed(own, "export hgemm-24-h200 --max-kernels 14")
    exported = json.loads(printed(own, "export hgemm-24-h200 --format json"))
    winners = {
        tuple(str(row["problem"]["dims"][name]) for name in ("m", "n", "k")): row for row in exported["rows"]
    }
    table = re.findall(
        r"^// +(\d+) +(\d+) +(\d+) +1 +tn +[\d.]+ +([\d.]+) +([\d.]+)(~?) +\d+$",
        (own.folder / "hgemm-24-h200-export" / "tuned.h").read_text(),
        re.MULTILINE,
    )
    searched = [row for row in table if row[-1]]
    assert 0 < len(searched) < len(table)
    assert f"figures of {len(searched)} shapes are from the search, marked ~" in text
    for m, n, k, torch, cublaslt, _ in table:
        assert float(torch) <= winners[m, n, k]["speedup_torch"] + 5e-4
        assert float(cublaslt) <= winners[m, n, k]["speedup_cublaslt_tuned"] + 5e-4
    rows_ = (own.folder / "hgemm-24-h200-export" / "tuned.cu").read_text()
    for m, n, k, *_ in searched:
        assert re.search(rf"\{{\{{\{{{m}, {n}, {k}, 1, Layout::kTN\}}.*\}}, false, ", rows_)


def test_compare_measures_the_baselines_alone(tuned: Workplace) -> None:
    before = len(tuned.asked())
    text = printed(tuned, "compare --op hgemm --shapes s.csv")
    assert [line.split()[0] for line in text.splitlines()[2:5]] == [
        "512x512x512",
        "1024x4096x1024",
        "16x4096x4096",
    ]
    entries = [[e["name"] for e in request["entries"]] for request in tuned.asked()[before:]]
    assert entries == [ENTRANTS] * 3 * CONTESTS


def test_compare_measures_a_studys_winners_beside_them(tuned: Workplace) -> None:
    before = len(tuned.asked())
    text = printed(tuned, "compare --op hgemm --shapes s.csv --study s")
    assert "3 of 3 shapes" in text
    played = [request["entries"][-1]["name"] for request in tuned.asked()[before:]]
    assert played == [c.key for c in configs(tuned) for _ in range(CONTESTS)]


def test_compare_shows_no_kernel_that_is_wrong_today(own: Workplace) -> None:
    first = configs(own)[0]
    text = printed(
        own, "compare --op hgemm --shapes s.csv --study s", CHILD_LIES_ON=f"{first.kernel.key}&{KEYS[0]}"
    )
    assert "2 of 3 shapes" in text
    assert "512x512x512 tn: the study's kernel gave a wrong answer: error is 7 times the bound" in text


def test_compare_goes_on_when_a_shape_loses_the_child(own: Workplace) -> None:
    done = own.run("compare --op hgemm --shapes s.csv --study s", CHILD_DIES_ON=KEYS[1])
    assert done.status == 0
    assert "1024x4096x1024: the measuring process died of SIGABRT" in done.err
    assert "2 of 3 shapes" in done.out


def test_run_shows_every_stage_of_one_config(tuned: Workplace) -> None:
    text = printed(tuned, f"{RUN} --set tile=128x64x64 --set cluster=1x1 --set swizzle=2")
    for told in (
        "problem  hgemm:tn:512x512x512x1",
        "tile_m=128,tile_n=64",
        "swizzle=2",
        "legal: no rule is broken",
        "flags    -O3",
        "168 registers, 0 bytes spilled",
        "grid (1, 1, 1)",
        "answer   right",
        "TFLOP/s (L2 cold)",
        "of torch.matmul's",
    ):
        assert told in text


def test_run_prints_the_source(tuned: Workplace) -> None:
    assert "cutlass::gemm::collective::CollectiveBuilder<" in printed(tuned, f"{RUN} --source")


@pytest.mark.parametrize(
    ("options", "environment", "told"),
    [
        ("--set tile_m=64", {}, "not built: it is illegal"),
        ("--set tile_m=64", {}, "cooperative_tile_m"),
        ("", {"BUILD_FAILS_ON": "tile"}, "build    failed: scripted to fail"),
        ("", {"CHILD_LIES_ON": "tile"}, "answer   WRONG: error is 7 times the bound"),
        ("", {"CHILD_DIES_ON": "tile"}, "run      failed: the measuring process died of SIGABRT"),
        ("", {"CHILD_BREAKS_ON": "tile"}, "run      failed: CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("", {"CHILD_GPU": "none"}, "not run: no GPU to measure on"),
    ],
)
def test_run_says_where_it_ended(
    options: str, environment: dict[str, str], told: str, tuned: Workplace
) -> None:
    done = tuned.run(f"{RUN} {options}", **environment)
    assert done.status == 1 and told in done.out


def test_build_fills_the_cache_with_what_a_tune_would_start_from(own: Workplace) -> None:
    done = own.run(
        "build --op hgemm --shapes s.csv --space space.yaml --limit 6", BUILD_FAILS_ON="tile_n=256"
    )
    assert done.status == 0
    lines = done.out.splitlines()[2:8]
    built, failed = (
        [line for line in lines if line.endswith("built")],
        [line for line in lines if line.endswith("build failed: scripted to fail")],
    )
    assert built and failed and len(built) + len(failed) == 6
    assert f"{len(built)} kernels in the cache at {own.folder / 'cache'}, {len(failed)} failed" in done.out
    assert len(own.lines("built")) == 6 and own.asked("describe") == []
    first = own.lines("built")[0]
    assert "tile_m=128,tile_n=128" in first and "default" in lines[0]


def test_build_without_shapes_builds_the_default(own: Workplace) -> None:
    assert "1 kernel in the cache" in printed(own, "build --op hgemm")
    assert len(own.lines("built")) == 1
