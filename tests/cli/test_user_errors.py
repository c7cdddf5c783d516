"""A user's mistakes on a machine that could do the work: one line, status 2, nothing half-done.

The commands run whole, over a scripted GPU and compiler; `test_mistakes.py` has what needs neither.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))  # also where this file runs alone

from pipeline.harness import Server, Workplace, until

FILES = {
    "shapes/text.csv": "m,n,k\n64,big,64\n",
    "shapes/fraction.csv": "m,n,k\n64,64.5,64\n",
    "shapes/negative.csv": "m,n,k\n64,-64,64\n",
    "shapes/wide.csv": "m,n,k\n64,64,2147483648\n",
    "shapes/column.csv": "m,n\n64,64\n",
    "shapes/layout.csv": "m,n,k,layout\n64,64,64,nn\n",
    "shapes/odd.csv": "m,n,k\n64,64,64\n64,64,60\n",
    "shapes/huge.csv": "m,n,k\n64,64,64\n262144,262144,262144\n",
    "spaces/not.yaml": "op: [hgemm\n",
    "spaces/list.yaml": "- hgemm\n",
    "spaces/op.yaml": "op: sgemv\nfamilies: {}\n",
    "spaces/family.yaml": "op: hgemm\nfamilies: {simt: {}}\n",
    "spaces/knob.yaml": "op: hgemm\nfamilies: {tma_ws: {kernel: {speed: {values: [9]}}}}\n",
    "spaces/value.yaml": "op: hgemm\nfamilies: {tma_ws: {kernel: {tile_m: {values: [65]}}}}\n",
    "spaces/key.yaml": "op: hgemm\nfamily: {}\n",
    "spaces/none.yaml": (
        "op: hgemm\n"
        "families: {tma_ws: {kernel: {tile_m: {values: [64]}, schedule: {values: [cooperative]}}}}\n"
    ),
    "file": "x",
}

TUNE = "tune --op hgemm --shapes s.csv --space space.yaml"
RUN = "run --op hgemm --shape 64x64x64"
BUILD = "build --op hgemm --shapes s.csv"
COMPARE = "compare --op hgemm --shapes s.csv"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A folder with mistakes in it, and a study "s" that is in order."""
    server = Server()
    made = Workplace(server, tmp_path_factory.mktemp("mistakes"))
    for name, text in FILES.items():
        (made.folder / name).parent.mkdir(exist_ok=True)
        made.write(name, text)
    made.tune("--builds 2")
    yield made
    server.close()


def standing(place: Workplace) -> dict[Path, bytes]:
    """All files but logs and caches."""
    kept = (
        p for p in place.folder.rglob("*") if p.is_file() and not p.name.startswith(".") and p.name != "lock"
    )
    return {path: path.read_bytes() for path in kept if "cache" not in path.parts}


def check(place: Workplace, command: str, *told: str, **environment: str) -> None:
    before, built = standing(place), len(place.lines("built"))
    contests = len(place.asked())
    line = place.run(command, **environment).told()
    for text in told:
        assert text in line
    assert standing(place) == before
    assert (len(place.asked()), len(place.lines("built"))) == (contests, built)


@pytest.mark.parametrize("command", ["tune", "build", "compare"])
@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ("missing", "missing.csv: no such file; give a CSV with columns m,n,k"),
        ("text", "text.csv, line 2: n is 'big'; give a whole number from 1 to 2147483647"),
        ("fraction", "fraction.csv, line 2: n is '64.5'"),
        ("negative", "negative.csv, line 2: n is -64"),
        ("wide", "wide.csv, line 2: k is 2147483648"),
        ("column", "column.csv"),
        ("layout", "layout.csv, line 2: layout 'nn' is not in this version; use tn or tt"),
        ("odd", "odd.csv, line 3: k is 60, but rows of A are k long in layout tn"),
    ],
)
def test_shapes(command: str, shapes: str, told: str, place: Workplace) -> None:
    check(place, f"{command} --op hgemm --shapes shapes/{shapes}.csv", told)


@pytest.mark.parametrize("command", ["tune", "compare"])
def test_a_problem_larger_than_the_gpu(command: str, place: Workplace) -> None:
    check(
        place,
        f"{command} --op hgemm --shapes shapes/huge.csv",
        "262144x262144x262144: measuring and checking needs",
        "NVIDIA H200 has 140 GiB",
    )


@pytest.mark.parametrize("command", [TUNE, BUILD, RUN])
@pytest.mark.parametrize(
    ("space", "told"),
    [
        ("missing", "spaces/missing.yaml: no such space file"),
        ("not", "spaces/not.yaml: not YAML"),
        ("list", "spaces/list.yaml: not a space file; it must have the keys op and families"),
        ("op", "no op 'sgemv'; known: hgemm"),
        ("family", "spaces/family.yaml: op hgemm has no family 'simt'; there are tma_ws"),
        ("knob", "spaces/knob.yaml: family tma_ws has no knob 'speed' here"),
        ("value", "spaces/value.yaml: tile_m has value 65; use"),
        ("key", "spaces/key.yaml: families: Field required"),
    ],
)
def test_spaces(command: str, space: str, told: str, place: Workplace) -> None:
    check(place, f"{command} --space spaces/{space}.yaml", told)


@pytest.mark.parametrize("command", [TUNE, BUILD])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--fix speed=9", "no knob 'speed' in family tma_ws; there are layout, tile_m"),
        ("--fix tile_m=65", "tile_m is '65'; use one of 64, 128, 256"),
        ("--only simt", "no family 'simt'; the space has tma_ws"),
        ("--fix layout=tt", "layout of the shapes is tn, of the space tt"),
        ("--space spaces/none.yaml", "no kernel of family tma_ws is legal with these knob values"),
        (
            "--fix tile_m=64 --fix schedule=cooperative",
            "nothing legal is left in family tma_ws: cooperative_tile_m: tile_m is 64",
        ),
    ],
)
def test_what_is_searched(command: str, options: str, told: str, place: Workplace) -> None:
    check(place, f"{command} {options}", told)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tune --op sgemv --shapes s.csv", "no op 'sgemv'; known: hgemm"),
        (f"{TUNE} --budget ten", "--budget 'ten' is no duration; write a number and s, m, h or d"),
        (f"{TUNE} --builds 0", ": --builds is 0; give a whole number from 1"),
        (f"{TUNE} --llm gpt", "--llm gpt: use anthropic, manual, none or replay:DIR"),
        (f"{TUNE} --replies r", "--llm manual and --replies DIR belong together: replies are read from DIR"),
        (f"{TUNE} --llm-max-usd -1", "--llm-max-usd is -1; give an amount above 0, like 2"),
        (f"{TUNE} --llm-rounds 0", "--llm-rounds is 0; give a whole number from 1"),
        (f"{TUNE} --simulate nope", "no study 'nope' in studies; known: s; shipped: fmha-h200, hgemm"),
        ("propose --op sgemv --shapes s.csv", "no op 'sgemv'; known: hgemm"),
        ("propose --op hgemm --shapes s.csv --out file/q.md", "choose another file with --out"),
        ("lab nope", "no study 'nope' in studies; known: s; shipped: fmha-h200, hgemm"),
        ("lab s --replies nowhere", "--replies nowhere: no such folder; give one of recorded replies"),
        (f"{TUNE} --study a/b", "--study 'a/b' is no name; use letters, digits"),
        (f"{TUNE} --studies file", "cannot write study file/"),
        (f"{TUNE} --study s --l2 warm", "l2 cold there, warm now"),
        (f"{TUNE} --study s --fix tile_k=64", "space "),
        (f"{TUNE} --gpu 1", "--gpu 1: CUDA_VISIBLE_DEVICES=0 leaves 1 GPUs"),
        ("build --op sgemv", "no op 'sgemv'"),
        ("build --op hgemm --arch sm_70", "sm_70"),
        (f"{RUN} --set speed=9", "no knob 'speed' in family tma_ws; there are layout, tile_m"),
        (f"{RUN} --set tile_m=65", "tile_m is '65'; use one of 64, 128, 256"),
        (f"{RUN} --set tile=128x128", "tile is '128x128'; tile wants MxNxK, like 128x128x64"),
        (
            f"{RUN} --set tile_m=64 --set tile=128x128x64",
            "tile_m is given twice, by tile_m=64 and tile=128x128x64",
        ),
        (f"{RUN} --only simt", "no family 'simt'"),
        (f"{RUN} --layout nn", "layout 'nn' is not in this version; use tn or tt"),
        ("run --op hgemm --shape 64x64x60", "k is 60, but rows of A are k long"),
        ("run --op hgemm --shape 64x64", "2 extents (64, 64); give m, n, k and optionally batch"),
        ("run --op hgemm --shape 64x64x0", "k is 0; give a whole number from 1"),
        ("run --op hgemm --shape 64x64x8x1x1", "5 extents (64, 64, 8, 1, 1); give m, n, k"),
        (f"{COMPARE} --study nope", "no study 'nope' in studies; known: s; shipped: fmha-h200, hgemm"),
        ("show nope", "no study 'nope' in studies; known: s; shipped: fmha-h200, hgemm"),
        ("show s --studies elsewhere", "--studies elsewhere: no such folder"),
        ("show elsewhere --studies spaces", "no study 'elsewhere' in spaces; there are none"),
        ("show spaces", "spaces is no study: no study.json in it; known: s; shipped: fmha-h200, hgemm"),
        ("export nope --format json", "no study 'nope' in studies; known: s; shipped: fmha-h200, hgemm"),
        ("export s --out file", "cannot write to file: File exists; choose another folder with --out DIR"),
        ("export s --format csv --out file", "cannot write to file: File exists"),
        ("export s --max-kernels 0", ": --max-kernels is 0"),
        ("export s --namespace std", "--namespace 'std': must be a C++ namespace"),
    ],
)
def test_each_command(command: str, told: str, place: Workplace) -> None:
    check(place, command, told, CUDA_VISIBLE_DEVICES="0")


@pytest.mark.parametrize("command", [TUNE, COMPARE])
def test_no_gpu(command: str, place: Workplace) -> None:
    check(place, command, "no GPU to measure on", "`cutlass-tuner doctor`", CHILD_GPU="none")


@pytest.fixture
def damaged(place: Workplace) -> Iterator[Path]:
    """The study's folder, put in order again afterwards."""
    folder = place.folder / "studies" / "s"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    yield folder
    for path, content in before.items():
        path.write_bytes(content)


STUDY_READERS = ["show s", "export s --format json", "export s", f"{COMPARE} --study s", Workplace.tuning()]


@pytest.mark.parametrize("command", STUDY_READERS)
def test_a_damaged_journal_names_file_and_line(command: str, damaged: Path, place: Workplace) -> None:
    lines = (damaged / "events.jsonl").read_bytes().splitlines(keepends=True)
    (damaged / "events.jsonl").write_bytes(b"".join([*lines[:2], b'{"event":"mea\n', *lines[2:]]))
    check(place, command, "events.jsonl:3: no event of a study", "restore the file from a copy")


@pytest.mark.parametrize("command", STUDY_READERS)
def test_a_damaged_header_is_named(command: str, damaged: Path, place: Workplace) -> None:
    (damaged / "study.json").write_text("{}")
    check(place, command, "studies/s cannot be read", "restore study.json")


def test_a_study_without_finals_has_nothing_to_export(damaged: Path, place: Workplace) -> None:
    lines = (damaged / "events.jsonl").read_bytes().splitlines(keepends=True)
    (damaged / "events.jsonl").write_bytes(b"".join(line for line in lines if b'"event":"final"' not in line))
    line = place.run("export s").told()
    assert re.search(r"winner|nothing to export", line)
    assert not (damaged / "export").exists()


def test_a_study_in_use_names_who_uses_it(place: Workplace) -> None:
    asked = len(place.asked())
    running = place.start(place.tuning("--builds 3"), CHILD_HANGS_ON="k=")
    try:
        until(lambda: len(place.asked()) > asked)
        line = place.run(place.tuning("--builds 3")).told()
        assert f"is in use by process {running.pid}" in line
    finally:
        os.kill(running.pid, signal.SIGINT)
        assert running.wait().status == 130
