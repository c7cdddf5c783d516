"""README.md and docs/results.md say what the shipped studies' records say, in `tools/results`' words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHOWN, OTHER, ASKED = "hgemm-24-h200", "hgemm-24-h200-random", "hgemm-24-h200-llm"


@pytest.fixture(scope="module")
def printed() -> str:
    command = [sys.executable, str(ROOT / "tools" / "results"), SHOWN, OTHER, ASKED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks(text: str) -> list[str]:
    """The markdown tables of a text."""
    return [part.strip() for part in text.split("\n\n") if part.lstrip().startswith("|")]


def test_the_readme_holds_the_recorded_table_and_means(printed: str) -> None:
    table, means, *_ = blocks(printed)
    readme = (ROOT / "README.md").read_text()
    assert table.count("\n") == 25 and means.startswith("| geometric mean against |")
    assert table in readme and means in readme


def test_the_results_page_holds_every_table_of_the_shown_study_and_the_curves(printed: str) -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    first, _, third = re.split(f"## (?:{OTHER}|{ASKED})\n", printed)
    _, means, results, configs, *_ = blocks(first)
    _, asked_means, asked_results, _, *curves = blocks(third)
    assert all(curve.startswith("| after ") for curve in curves)
    for table in (means, results, configs, asked_means, asked_results, *curves):
        assert table in page, table
    besides = [part for part in printed.split("\n\n") if part.startswith("    search: ")]
    assert len(besides) == 3
    for figures in besides:
        assert figures in page, figures
