"""The list of mutations fits the code, and docs/testing.md shows it. `tools/mutate` itself proves it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def table() -> str:
    """Prints only if every mutation's text stands exactly once in its file."""
    command = [sys.executable, ROOT / "tools" / "mutate", "--table"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_shows_the_list() -> None:
    assert table() in (ROOT / "docs" / "testing.md").read_text(), (
        "put the output of tools/mutate --table there"
    )


def test_the_page_names_every_kernel_that_cheats() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    kernels = [path.stem for path in (ROOT / "tests" / "gpu" / "kernels").glob("*.cu")]
    assert len(kernels) > 10
    assert [name for name in kernels if f"`{name}`" not in page] == []


def test_every_named_test_exists() -> None:
    for path, function in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?` \|$", table(), re.MULTILINE):
        text = (ROOT / path).read_text()
        assert not function or f"def {function}(" in text, f"{path} has no {function}"
