"""The other commands over a study that was really tuned, and `run`, `build` and `compare` over the child."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from cutlass_tuner.records import Config
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
        assert 0.5 < row["speedup_torch"] < 2 and 0.5 < row["speedup_cublaslt_tuned"] < 2


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
