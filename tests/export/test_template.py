from __future__ import annotations

from pathlib import Path

import pytest

from cutlass_tuner.export import template


@pytest.fixture
def cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(template, "CPP", tmp_path)
    return tmp_path


def test_a_value_is_not_filled_again(cpp: Path) -> None:
    (cpp / "t").write_text("@A@ @B@\n")
    assert template.fill("t", {"A": "@B@", "B": "x"}) == "@B@ x\n"


def test_missing_and_unused_values_are_errors(cpp: Path) -> None:
    (cpp / "t").write_text("@A@\n")
    with pytest.raises(KeyError, match="A"):
        template.fill("t", {})
    with pytest.raises(ValueError, match="no placeholder for B"):
        template.fill("t", {"A": "", "B": ""})


@pytest.mark.parametrize("text", ["two\nlines", "joins the next \\", "cr\rlf", "ends \\ \\"])
def test_a_comment_stays_one_line_whatever_it_holds(text: str) -> None:
    line = template.comment(text)
    assert line.startswith("// ")
    assert "\n" not in line and "\r" not in line and not line.endswith("\\")
