"""A user's mistakes through the real pipeline, without a GPU: one line each, and nothing is half-run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cutlass_tuner.cli import main
from cutlass_tuner.settings import settings

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
        ("tune --op sgemv --shapes ok.csv", "no op 'sgemv'; there are hgemm"),
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
        ("compare --op hgemm --shapes ok.csv --study mine", "no study 'mine' in studies; there are none"),
        (f"{RUN} --layout xx", "layout 'xx' is none; use tn or tt"),
        (f"{RUN} --set speed=9", "no knob 'speed' in family tma_ws; there are layout, tile_m"),
        (f"{RUN} --set tile_m=65", "tile_m is '65'; use one of 64, 128, 256"),
        ("run --op hgemm --shape 64x64x60", "k is 60"),
        ("show mine", "no study 'mine' in studies; there are none"),
        ("export mine", "no study 'mine' in studies; there are none"),
        ("doctor --nvcc note.txt", "--nvcc note.txt: not an nvcc that runs"),
    ],
)
def test_one_line_and_nothing_done(
    command: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 2
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert errors.startswith("cutlass-tuner: ")
    assert errors.count("\n") == 1
    assert told in errors
    assert {path.name for path in folder.iterdir()} == set(FILES)


def test_an_empty_cache_is_shown_and_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("cache show", "cache prune --older-than 1d", "cache prune --all"):
        assert main(command.split()) == 0
        assert capsys.readouterr().out.strip()
