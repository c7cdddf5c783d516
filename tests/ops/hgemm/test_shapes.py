"""The shapes file: what it may look like, and one line for everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts
from cutlass_tuner.settings import data_dir

from .conftest import problem

read_shapes = op("hgemm").read_shapes
LARGEST = 2**31 - 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shapes.csv"


def test_columns_in_any_order_and_case_with_everything_optional(file: Path) -> None:
    file.write_text("K,name,N,m,Count,Layout,BATCH\n64,first,128,256,3,TT,2\n")
    (found,) = read_shapes(file)
    assert found.dims == {"m": 256, "n": 128, "k": 64, "batch": 2}
    assert list(found.dims) == ["m", "n", "k", "batch"]
    assert (found.layout, found.count, found.name, found.op) == ("tt", 3, "first", "hgemm")


def test_defaults(file: Path) -> None:
    file.write_text("m,n,k\n1,8,16\n")
    (found,) = read_shapes(str(file))
    assert (found.dims["batch"], found.layout, found.count, found.name) == (1, "tn", 1, "")
    assert found.key == "hgemm:tn:1x8x16x1"


def test_windows_files_comments_blank_lines_and_spaces(file: Path) -> None:
    lines = (
        "\ufeff# from a model",
        "",
        " m , n , k , name ",
        ' 8 , 16 , 24 , "a, b" # why',
        "  # end",
        "32,8,8,no#comment",
        "",
    )
    text = "\r\n".join(lines)
    file.write_bytes(text.encode())
    first, second = read_shapes(file)
    assert (first.dims["m"], first.dims["n"], first.dims["k"], first.name) == (8, 16, 24, "a, b")
    assert second.name == "no#comment"


def test_old_mac_line_ends_and_a_missing_last_newline(file: Path) -> None:
    file.write_bytes(b"m,n,k\r8,8,8\r16,8,8")
    assert [found.dims["m"] for found in read_shapes(file)] == [8, 16]


def test_duplicates_are_merged_in_place_with_counts_added(file: Path) -> None:
    file.write_text("m,n,k,count,name\n8,8,8,2,\n16,8,8,1,other\n8,8,8,5,late\n8,8,8,,later\n")
    first, second = read_shapes(file)
    assert (first.count, first.name) == (8, "late")
    assert (second.count, second.name) == (1, "other")


def test_layouts_and_batches_are_different_problems(file: Path) -> None:
    file.write_text("m,n,k,layout,batch\n8,8,8,tn,1\n8,8,8,tt,1\n8,8,8,tn,2\n")
    assert len(read_shapes(file)) == 3


def test_the_shipped_files_can_be_read() -> None:
    folder = data_dir("spaces") / "shapes"
    assert len(read_shapes(folder / "hgemm-24.csv")) == 24
    linear = read_shapes(folder / "llm-linear.csv")
    assert len(linear) == 80
    assert {found.count for found in linear} == {32, 80}


WHOLE = f"a whole number from 1 to {LARGEST}"
BAD = {
    "empty file": ("", None, ["no shapes"]),
    "only comments": ("# nothing\n\n", None, ["no shapes"]),
    "only a header": ("m,n,k\n", None, ["only a header"]),
    "missing column": ("m,n\n8,8\n", 1, ["no column 'k'", "m, n"]),
    "unknown column": ("m,n,k,beta\n8,8,8,1\n", 1, ["'beta'", "batch, layout, count, name"]),
    "column twice": ("m,n,k,M\n8,8,8,8\n", 1, ["'M'", "twice"]),
    "empty column name": ("m,n,k,\n8,8,8,\n", 1, ["''"]),
    "no header": ("8,8,8\n", 1, ["no header: the first line must name the columns m,n,k"]),
    "no header, with a name": ("8,8,8,qkv\n", 1, ["no header: the first line must name the columns m,n,k"]),
    "semicolons": ("m;n;k\n8;8;8\n", 1, ["semicolons between the columns; separate with commas"]),
    "semicolons and no header": ("8;8;8\n", 1, ["separate with commas"]),
    "tabs": ("m\tn\tk\n8\t8\t8\n", 1, ["tabs between the columns; separate with commas"]),
    "text": ("m,n,k\n8,big,8\n", 2, ["n is 'big'", WHOLE]),
    "zero": ("m,n,k\n8,8,0\n", 2, ["k is 0", WHOLE]),
    "negative": ("m,n,k\n-8,8,8\n", 2, ["m is -8", WHOLE]),
    "fraction": ("m,n,k\n8.5,8,8\n", 2, ["m is '8.5'", WHOLE]),
    "exponent": ("m,n,k\n1e3,8,8\n", 2, ["m is '1e3'", WHOLE]),
    "other digits": ("m,n,k\n٨,8,8\n", 2, ["m is '٨'", WHOLE]),
    "too large": (f"m,n,k\n{LARGEST + 1},8,8\n", 2, [f"m is {LARGEST + 1}", WHOLE]),
    "far too large": (f"m,n,k\n{'9' * 5000},8,8\n", 2, [WHOLE]),
    "empty value": ("m,n,k\n8,,8\n", 2, ["n is empty", WHOLE]),
    "missing value": ("m,n,k\n8,8\n", 2, ["k is empty"]),
    "too many values": ("m,n,k\n8,8,8,8\n", 2, ["4 values for 3 columns"]),
    "count zero": ("m,n,k,count\n8,8,8,0\n", 2, ["count is 0"]),
    "batch text": ("m,n,k,batch\n8,8,8,x\n", 2, ["batch is 'x'"]),
    "layout to come": ("m,n,k,layout\n8,8,8,nn\n", 2, ["'nn'", "not in this version", "tn or tt"]),
    "layout to come, other": ("m,n,k,layout\n8,8,8,NT\n", 2, ["'NT'", "not in this version"]),
    "layout unknown": ("m,n,k,layout\n8,8,8,row\n", 2, ["'row'", "tn or tt"]),
    "n unaligned": ("m,n,k\n8,12,8\n", 2, ["n is 12", "rows of D", "multiple of 8"]),
    "k unaligned": ("m,n,k\n8,8,20\n", 2, ["k is 20", "rows of A", "multiple of 8"]),
    "n unaligned in tt": ("m,n,k,layout\n8,12,8,tt\n", 2, ["n is 12", "rows of B", "multiple of 8"]),
    "line counts every line": ("# c\n\nm,n,k\n8,8,8\n\n8,x,8\n", 6, ["n is 'x'"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_naming_file_line_value_and_what_is_allowed(file: Path, name: str) -> None:
    text, line, parts = BAD[name]
    file.write_bytes(text.encode())
    with pytest.raises(UserError) as caught:
        read_shapes(file)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"{file}, line {line}: " if line else f"{file}: ")
    for part in parts:
        assert part in said


def test_m_needs_no_alignment_in_either_layout(file: Path) -> None:
    file.write_text("m,n,k,layout\n1,8,8,tn\n3,8,8,tt\n")
    assert len(read_shapes(file)) == 2


def test_not_a_file_not_there_and_not_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.csv: no such file"):
        read_shapes(tmp_path / "absent.csv")
    with pytest.raises(UserError, match="a folder"):
        read_shapes(tmp_path)
    (tmp_path / "latin.csv").write_bytes("m,n,k,name\n8,8,8,café\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"line 2: byte 0xe9 is not UTF-8"):
        read_shapes(tmp_path / "latin.csv")


def test_a_problem_larger_than_the_memory_says_so(device: DeviceFacts) -> None:
    fits = op("hgemm").fits
    assert fits(problem(16384, 16384, 16384), device) is None
    said = fits(problem(65536, 65536, 65536), device)
    assert said is not None and "65536x65536x65536" in said and "GiB" in said and device.name in said
    # A and B alone, with a tiny D, are counted too; and so is each entry of a batch.
    assert fits(problem(8, 8, 2**31 - 8), device) is not None
    assert fits(problem(16384, 16384, 64), device) is None
    assert fits(problem(16384, 16384, 64, batch=16), device) is not None


def test_work_and_traffic() -> None:
    hgemm = op("hgemm")
    one = problem(16, 32, 64)
    assert hgemm.flops(one) == 2 * 16 * 32 * 64
    assert hgemm.bytes(one) == 2 * (16 * 64 + 64 * 32 + 16 * 32)
    assert hgemm.flops(problem(16, 32, 64, batch=3)) == 3 * hgemm.flops(one)
    assert hgemm.bytes(problem(16, 32, 64, batch=3)) == 3 * hgemm.bytes(one)


def test_a_problem_from_extents() -> None:
    made = op("hgemm").problem((16, 32, 64), None)
    assert made.key == problem(16, 32, 64).key
    assert op("hgemm").problem((16, 32, 64, 2), "TT").key == problem(16, 32, 64, batch=2, layout="tt").key
    for extents, layout, said in (
        ((16, 32), None, "give m, n, k"),
        ((16, 32, 64, 2, 1), None, "give m, n, k"),
        ((16, 0, 64), None, "n is 0"),
        ((16, 32, LARGEST + 1), None, "k is 2147483648"),
        ((16, 33, 64), None, "multiple of 8"),
        ((16, 32, 64), "nt", "not in this version"),
        ((16, 32, 64), "xx", "use tn or tt"),
    ):
        with pytest.raises(UserError, match=said):
            op("hgemm").problem(extents, layout)


def test_an_unknown_op_and_arch_name_what_there_is() -> None:
    with pytest.raises(UserError, match=r"no op 'sgemm'; known: hgemm"):
        op("sgemm")
    with pytest.raises(UserError, match=r"no kernels for sm_80; it has some for sm_90a"):
        op("hgemm").nominal_device("sm_80")
