"""The shapes file: what it may look like, and one line for everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import Problem

read_shapes = op("fmha").read_shapes
HEADER = "batch,heads_q,heads_kv,seqlen_q,seqlen_kv,head_dim,causal"
WHOLE = "a whole number from 1 to 2147483647"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shapes.csv"


def test_the_shipped_file(shipped: list[Problem]) -> None:
    assert len(shipped) == 41
    assert {one.dims["head_dim"] for one in shipped} == {64, 128, 256}
    cross = next(one for one in shipped if one.name == "cross.1kx333")
    assert list(cross.dims.values()) == [8, 16, 16, 1024, 333, 64, 0]
    assert len({one.key for one in shipped}) == 41


def test_columns_in_any_order_and_case_with_everything_optional(file: Path) -> None:
    file.write_text(
        "NAME,align,layout,count,causal,head_dim,seqlen_kv,seqlen_q,heads_kv,heads_q,batch\n"
        "mine,Top_Left,BHSD,3,1,64,200,100,2,8,4\n"
    )
    (found,) = read_shapes(file)
    assert list(found.dims.values()) == [4, 8, 2, 100, 200, 64, 2]
    assert list(found.dims) == list(op("fmha").dims)
    assert (found.layout, found.count, found.name, found.op) == ("bhsd", 3, "mine", "fmha")


def test_defaults_and_alignment(file: Path) -> None:
    rows = ["1,8,8,64,128,64,1,", "1,8,8,64,128,64,1,top_left", "1,8,8,64,128,64,0,top_left"]
    file.write_text("\n".join([f"{HEADER},align # all there is", *rows]))
    found = read_shapes(str(file))
    assert [one.dims["causal"] for one in found] == [1, 2, 0]
    assert {(one.layout, one.count) for one in found} == {("bshd", 1)}
    assert found[0].name == "b1.h8.q64.kv128.d64.causal"


def test_duplicates_are_merged_and_a_later_name_is_kept(file: Path) -> None:
    rows = ["1,8,8,64,64,64,1,bottom_right,,2", "1,8,8,64,64,64,1,top_left,late,3", "1,8,8,64,65,64,1,,,"]
    file.write_text("\n".join([f"{HEADER},align,name,count", *rows]))
    first, second = read_shapes(file)
    assert (first.count, first.name) == (5, "late")
    assert (second.count, second.name) == (1, "b1.h8.q64.kv65.d64.causal")


def test_the_other_op_reads_its_own(file: Path) -> None:
    file.write_text(f"{HEADER}\n1,8,8,64,64,64,0\n")
    (found,) = op("fmha-bf16").read_shapes(file)
    assert (found.op, found.contract.elements["q"]) == ("fmha-bf16", "bf16")


GOOD = "1,8,8,64,64,64,0"
BAD = {
    "empty file": ("", None, ["no shapes", HEADER]),
    "only a header": (f"{HEADER}\n", None, ["only a header", "1,32,8,4096,4096,128,1"]),
    "no header": (f"{GOOD}\n", 1, ["no header", HEADER]),
    "missing column": ("batch,heads_q\n1,8\n", 1, ["no column 'heads_kv'", "head_dim and causal are needed"]),
    "unknown column": (f"{HEADER},mask\n{GOOD},1\n", 1, ["'mask'", "align, layout, count, name"]),
    "column twice": (f"{HEADER},Causal\n{GOOD},1\n", 1, ["'Causal'", "twice"]),
    "semicolons": (HEADER.replace(",", ";"), 1, ["semicolons", "commas"]),
    "text": (f"{HEADER}\n1,8,8,64,long,64,0\n", 2, ["seqlen_kv is 'long'", WHOLE]),
    "zero": (f"{HEADER}\n1,8,8,0,64,64,0\n", 2, ["seqlen_q is 0", WHOLE]),
    "empty": (f"{HEADER}\n1,,8,64,64,64,0\n", 2, ["heads_q is empty", WHOLE]),
    "too many values": (f"{HEADER}\n{GOOD},1\n", 2, ["8 values for 7 columns"]),
    "heads": (f"{HEADER}\n{GOOD}\n1,8,6,64,64,64,0\n", 3, ["heads_q is 8", "heads_kv 6", "multiple"]),
    "head_dim": (f"{HEADER}\n1,8,8,64,64,80,0\n", 2, ["head_dim is 80", "32, 64, 128, 256", "pad", "128"]),
    "causal two": (f"{HEADER}\n1,8,8,64,64,64,2\n", 2, ["causal is '2'", "give 0", "or 1"]),
    "causal word": (f"{HEADER}\n1,8,8,64,64,64,yes\n", 2, ["causal is 'yes'"]),
    "causal empty": (f"{HEADER}\n1,8,8,64,64,64,\n", 2, ["causal is empty", "give 0"]),
    "align": (f"{HEADER},align\n{GOOD},left\n", 2, ["align is 'left'", "bottom_right or top_left"]),
    "layout": (f"{HEADER},layout\n{GOOD},tn\n", 2, ["layout 'tn'", "bshd or bhsd"]),
    "count": (f"{HEADER},count\n{GOOD},-1\n", 2, ["count is -1", WHOLE]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_naming_file_line_value_and_what_is_allowed(file: Path, name: str) -> None:
    text, line, parts = BAD[name]
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_shapes(file)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"{file}, line {line}: " if line else f"{file}: ")
    for part in parts:
        assert part in said


def test_not_there_names_the_columns(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"absent\.csv: no such file; give a CSV with columns {HEADER}"):
        read_shapes(tmp_path / "absent.csv")
