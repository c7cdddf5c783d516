"""docs/cli.md says what --help says, docs/knobs.md what the space files say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cutlass_tuner.cli import app
from cutlass_tuner.ops.registry import OPS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("page", "tool"), [("cli.md", "cli-docs"), ("knobs.md", "knobs-docs")])
def test_the_page_is_up_to_date(page: str, tool: str) -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / tool], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert (ROOT / "docs" / page).read_text() == made.stdout, f"run tools/{tool} --write"


@pytest.mark.parametrize("file", sorted((ROOT / "spaces").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_knobs_page_has_every_knob_value_and_rule(file: Path) -> None:
    space = yaml.safe_load(file.read_text())
    _, section = (ROOT / "docs" / "knobs.md").read_text().split(f": `spaces/{file.name}`\n")
    lines = section.split("\n## ")[0].splitlines()
    for family in space["families"].values():
        for name, knob in {**family["kernel"], **family["launch"]}.items():
            (line,) = [one for one in lines if one.startswith(f"| `{name}` ") and knob["doc"] in one]
            shown = line.split("|")[2].split("(")[0].strip().split(", ")
            assert shown == [str(value).lower() for value in knob["values"]]
        for name, rule in family["rules"].items():
            (at,) = [
                i for i, one in enumerate(lines) if one.startswith(f"| `{name}` | {rule['reason'].strip()}")
            ]
            heading = next(one for one in reversed(lines[:at]) if one.startswith("#"))
            assert heading == f"#### Rules: {rule['kind']}"


def test_the_page_has_every_command() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    names = [command.callback.__name__ for command in app.registered_commands if command.callback]
    names += [
        f"{group.name} {command.callback.__name__}"
        for group in app.registered_groups
        for command in (group.typer_instance.registered_commands if group.typer_instance else [])
        if command.callback
    ]
    assert len(names) == 11
    assert [name for name in names if f"\n## cutlass-tuner {name}\n" not in text] == []


def test_the_help_names_every_op() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    assert f"The operation: {' or '.join([', '.join([*OPS][:-1]), [*OPS][-1]])}." in text


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
