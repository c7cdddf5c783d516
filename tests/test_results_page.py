"""README.md and the results pages say what the shipped studies' records say, in the tools' words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cutlass_tuner import settings
from cutlass_tuner.ops import registry
from cutlass_tuner.pipeline.show import study_rows
from cutlass_tuner.records import Measurement
from cutlass_tuner.results import BEST, Row
from cutlass_tuner.study import Study

ROOT = Path(__file__).resolve().parent.parent
SHOWN, OTHER, ASKED = "hgemm-24-h200", "hgemm-24-h200-random", "hgemm-24-h200-llm"
ATTENTION = "fmha-h200"


def output(tool: str, *studies: str) -> str:
    command = [sys.executable, str(ROOT / "tools" / tool), *studies]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed() -> str:
    return output("results", SHOWN, OTHER, ASKED)


@pytest.fixture(scope="module")
def attention() -> str:
    return output("results", ATTENTION)


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.load(settings.data_dir("studies"), ATTENTION)


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "results-attention.md").read_text()


def rows(study: Study) -> list[Row]:
    return study_rows(study, registry.op(study.header.op))


def blocks(text: str) -> list[str]:
    """The markdown tables of a text."""
    return [part.strip() for part in text.split("\n\n") if part.lstrip().startswith("|")]


def prose(text: str) -> str:
    """A page's words without line ends."""
    return " ".join(text.split())


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


def test_the_readme_holds_attentions_means_lengths_and_losses(attention: str, study: Study) -> None:
    means, lengths, *_ = blocks(attention)
    readme = (ROOT / "README.md").read_text()
    assert means.startswith("| geometric mean against") and lengths.startswith("| head_dim, mask")
    assert means in readme and lengths in readme
    slower = [row for row in rows(study) if row.against(BEST)[1] == "slower"]
    assert len(slower) == 5 and "Five shapes are slower" in readme
    for row in slower:
        assert f"{row.problem.label} ({row.ratios[str(row.best_baseline)].ratio:.3f})" in prose(readme)


def test_the_attention_page_holds_all_that_the_tool_says(attention: str, page: str) -> None:
    tables = blocks(attention)
    assert [table.count("\n") for table in tables[:4]] == [7, 7, 42, 42]
    indented = [part.strip("\n") for part in attention.split("\n\n") if part.startswith("    ")]
    assert [part.split()[0] for part in indented] == ["against", "search:"]
    for part in (*tables, *indented):
        assert part in page, part


def test_the_attention_page_holds_what_each_knob_gained(page: str) -> None:
    tables = blocks(output("gains", ATTENTION))
    for table in tables:
        assert table in page, table
    figures = {}
    for line in "\n".join(tables).splitlines():
        label, _, worth, _, _, most, shapes, winners, *_ = re.split(r"\s*\|\s*", line.strip("| "))
        figures.setdefault(label, (worth, most, shapes, winners))
    (in_words,) = [table for table in blocks(page) if table.startswith("| feature | in words |")]
    lines = in_words.splitlines()[2:]
    assert len(lines) == 14
    for line in lines:
        label, _, *shown = re.split(r"\s*\|\s*", line.strip("| "))
        assert tuple(shown) == figures[label], line


def test_the_attention_page_lists_every_shape_below_the_best_baseline(study: Study, page: str) -> None:
    below = []
    for row in rows(study):
        pair, outcome = row.against(BEST)
        assert pair is not None and pair.low is not None and pair.high is not None
        if pair.ratio < 1:
            below.append(
                f"| {row.problem.label} | {pair.ratio:.3f} | {pair.low:.3f}-{pair.high:.3f} | {outcome} |"
            )
    (listed,) = [table for table in blocks(page) if table.startswith("| shape | vs best | 95 % |")]
    assert listed.splitlines()[2:] == below
    assert "Nine shapes are below 1, five of them proven slower" in prose(page)
    assert (len(below), sum(line.endswith("| slower |") for line in below)) == (9, 5)


def test_the_attention_page_says_why_a_baseline_is_missing(study: Study, page: str) -> None:
    reasons = {why for row in rows(study) for why in row.missing.values()}
    assert len(reasons) == 4
    assert [why for why in sorted(reasons) if why not in prose(page)] == []


def test_what_the_attention_page_says_of_wrong_answers_is_what_is_recorded(study: Study, page: str) -> None:
    def eager_on_long_rows(one: Measurement) -> bool:
        knobs, keys = one.kernel.knobs, lengths[one.problem]
        return knobs["template"] == "flash" and not knobs["lazy_rescale"] and keys >= 4096

    lengths = {problem.key: problem.dims["seqlen_kv"] for problem in study.problems}
    measured = [one for problem in study.problems for one in study.measurements(problem.key)]
    wrong = [one for one in measured if not one.verdict.passed]
    assert all(eager_on_long_rows(one) for one in wrong)
    right = [one for one in measured if one.verdict.passed and eager_on_long_rows(one)]
    errors = [one.evidence.error_over_bound for one in wrong]
    kernels, shapes = {one.kernel.key for one in wrong}, {one.problem for one in wrong}
    said = prose(page)
    for words in (
        f"{len(wrong)} of the {len(measured):,} measurements were wrong",
        f"({len(kernels)} kernels) on rows of 4,096 keys and more ({len(shapes)} shapes), with errors of "
        f"{min(errors):.2f} to {max(errors):.1f} times the bound; {len(right):,} other measurements",
    ):
        assert words in said, words


def test_what_the_attention_page_says_of_winners_is_what_is_recorded(study: Study, page: str) -> None:
    ledger = study.ledger
    winners = {key: row.winner for key, row in ledger.finals.items() if row.winner is not None}
    eager = {key: won for key, won in winners.items() if not won.kernel.knobs["lazy_rescale"]}
    lengths = {problem.key: problem.dims["seqlen_kv"] for problem in study.problems}
    assert (len(eager), sum(lengths[key] >= 4096 for key in eager)) == (11, 7)
    furthest = max(
        one.evidence.error_over_bound
        for key, won in eager.items()
        for one in study.measurements(key)
        if (one.kernel, one.launch) == (won.kernel, won.launch)
    )
    assert 0.70 < furthest <= 0.71
    kernels = {won.kernel.key for won in winners.values()}
    found = sum(ledger.proposals[won.kernel.key].source == "sampler" for won in winners.values())
    said = prose(page)
    for words in (
        "Eleven winners have `lazy_rescale=false`, seven of them on rows of 4,096 keys and more",
        "at 0.71 of the bound or less",
        f"{len(kernels)} different kernels win the {len(winners)} shapes; {found} winners were found by the "
        f"sampler, {len(winners) - found} are textbook or default kernels",
    ):
        assert words in said, words
