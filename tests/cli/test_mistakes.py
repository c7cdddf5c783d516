"""A user's mistakes through the real pipeline, without a GPU: one line each, and nothing is half-run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cutlass_tuner.build.cache import Cache, Pruned
from cutlass_tuner.cli import main
from cutlass_tuner.errors import UserError
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.settings import settings
from cutlass_tuner.wire import Described

FILES = {
    "ok.csv": "m,n,k\n64,64,64\n",
    "bad.csv": "m,n,k\n64,64,64\n64,64,0\n",
    "empty.csv": "",
    "note.txt": "x",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with some shapes, and a cache of its own."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTLASS_TUNER_CACHE", str(tmp_path / "cache"))
    for name in ("CUTLASS_PATH", "CUTLASS_TUNER_STUDIES"):
        monkeypatch.delenv(name, raising=False)
    settings.cache_clear()
    yield tmp_path
    settings.cache_clear()


RUN = "run --op hgemm --shape 64x64x64"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tune --op sgemv --shapes ok.csv", "no op 'sgemv'; known: hgemm"),
        ("tune --op hgemm --shapes missing.csv", "missing.csv: no such file; give a CSV with columns m,n,k"),
        (
            "tune --op hgemm --shapes bad.csv",
            "bad.csv, line 3: k is 0; give a whole number from 1 to 2147483647",
        ),
        ("tune --op hgemm --shapes empty.csv", "empty.csv: no shapes in it"),
        ("build --op hgemm --shapes bad.csv", "bad.csv, line 3: k is 0"),
        ("build --op sgemv", "no op 'sgemv'"),
        ("build --op hgemm --arch sm_70", "no kernels for sm_70; there are some for sm_90a"),
        ("build --op hgemm --fix swizzle=3", "swizzle is '3'; use one of 1, 2, 4, 8"),
        ("build --op hgemm --fix speed=9", "speed"),
        ("build --op hgemm --only simt", "no family 'simt'; the space has tma_ws"),
        ("build --op hgemm --space missing.yaml", "missing.yaml: no such space file"),
        ("build --op hgemm --nvcc note.txt", "--nvcc note.txt: not an nvcc that runs"),
        ("build --op hgemm --cutlass .", "--cutlass .: no include/cutlass/version.h"),
        ("compare --op hgemm --shapes bad.csv", "bad.csv, line 3: k is 0"),
        (
            "compare --op hgemm --shapes ok.csv --study mine",
            "no study 'mine' in studies; there are none; shipped: fmha-h200, hgemm-24-h200",
        ),
        (f"{RUN} --layout xx", "layout 'xx' is none; use tn or tt"),
        (f"{RUN} --set speed=9", "no knob 'speed' in family tma_ws; there are layout, tile_m"),
        (f"{RUN} --set tile_m=65", "tile_m is '65'; use one of 64, 128, 256"),
        ("run --op hgemm --shape 64x64x60", "k is 60"),
        ("propose --op hgemm --shapes bad.csv", "bad.csv, line 3: k is 0"),
        ("propose --op hgemm --shapes ok.csv --like mine", "no study 'mine' in studies; there are none"),
        ("propose --op hgemm --shapes ok.csv --fix layout=tt", "layout of the shapes is tn, of the space tt"),
        ("lab mine", "no study 'mine' in studies; there are none; shipped: fmha-h200, hgemm-24-h200"),
        ("tune --op hgemm --shapes ok.csv --simulate mine", "no study 'mine' in studies; there are none"),
        (
            "tune --op hgemm --shapes ok.csv --simulate hgemm-24-h200 --l2 warm",
            "--simulate hgemm-24-h200: it was recorded with --l2 cold, not warm; give --l2 cold",
        ),
        ("show mine", "no study 'mine' in studies; there are none; shipped: fmha-h200, hgemm-24-h200"),
        ("export mine", "no study 'mine' in studies; there are none; shipped: fmha-h200, hgemm-24-h200"),
        ("show .", ": . is no study: no study.json in it; there are none; shipped: fmha-h200, hgemm-24-h200"),
        ("show hgemm-24-h200 --studies nowhere", "--studies nowhere: no such folder"),
        ("export hgemm-24-h200 --studies note.txt", "--studies note.txt: no such folder"),
        ("compare --op hgemm --shapes ok.csv --study s --studies nowhere", "--studies nowhere: no such"),
        ("doctor --nvcc note.txt", "--nvcc note.txt: not an nvcc that runs"),
    ],
)
def test_one_line_and_nothing_done(
    command: str, told: str, folder: Path, refused: Callable[[str], str]
) -> None:
    assert told in refused(command)
    assert {path.name for path in folder.iterdir()} == set(FILES)


TUNE = "tune --op hgemm --shapes ok.csv"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--fix speed=9", "no knob 'speed' in family tma_ws; there are layout, tile_m"),
        ("--fix tile_m=100", "tile_m is '100'; use one of 64, 128, 256"),
        ("--only simt", "no family 'simt'; the space has tma_ws"),
        ("--space missing.yaml", "missing.yaml: no such space file"),
        ("--fix tile_m=64 --fix schedule=cooperative", "nothing legal is left in family tma_ws"),
        ("--nvcc note.txt", "--nvcc note.txt: not an nvcc that runs"),
    ],
)
def test_tune_tells_a_mistake_before_it_asks_for_a_gpu(
    options: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_: Bench) -> Described:
        raise UserError("no GPU to measure on")

    monkeypatch.setattr(Bench, "describe", ask)
    if "--nvcc" not in options:
        monkeypatch.setattr(setup, "toolchain", lambda _: None)
    assert main([*TUNE.split(), *options.split()]) == 2
    assert told in capsys.readouterr().err
    assert main(TUNE.split()) == 2
    assert not (folder / "studies").exists()


def test_a_shipped_study_is_shown_where_there_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "hgemm-24-h200"]) == 0
    assert capsys.readouterr().out.startswith("study hgemm-24-h200: hgemm, 24 shapes")


@pytest.mark.parametrize(("builds", "told"), [(0, "0 builds"), (1, "1 build,"), (2, "2 builds")])
def test_pruning_says_how_many_builds_it_removed(
    builds: int, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cache, "prune", lambda *_, **__: Pruned(builds, 0))
    assert main(["cache", "prune", "--all"]) == 0
    assert capsys.readouterr().out.startswith(f"removed {told}")


def test_an_empty_cache_is_shown_and_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("cache show", "cache prune --older-than 1d", "cache prune --all"):
        assert main(command.split()) == 0
        assert capsys.readouterr().out.strip()
