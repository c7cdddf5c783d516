"""Tables say what happened, in text and in markdown, and leave nothing out silently."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cutlass_tuner.events import KernelBuilt, KernelFailed
from cutlass_tuner.records import (
    Build,
    Config,
    Contract,
    Failure,
    KernelConfig,
    LaunchConfig,
    Problem,
    Proposal,
)
from cutlass_tuner.report import summaries, tables
from cutlass_tuner.results import BEST, LT_TUNED, TORCH, Bucket, Row, Summary
from cutlass_tuner.statistics import Paired

HGEMM = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
KNOBS: dict[str, bool | int | str] = {"tile": "128x128x64", "stages": 4, "swap_ab": False}
DEFAULT = Config(
    kernel=KernelConfig(family="tma", knobs=KNOBS), launch=LaunchConfig(knobs={"swizzle": 1, "splits": 1})
)
OURS = Config(
    kernel=KernelConfig(family="tma", knobs={**KNOBS, "tile": "64x256x64", "swap_ab": True}),
    launch=LaunchConfig(knobs={"swizzle": 8, "splits": 1}),
)


def row(name: str = "", winner: Config | None = OURS, ratio: float | None = 1.05, **changes: object) -> Row:
    dims = {"m": 64, "n": 4096, "k": 4096, "batch": 1}
    pair = {TORCH: Paired(ratio=ratio, low=ratio - 0.01, high=ratio + 0.01, n=20)} if ratio else {}
    made = Row(
        problem=Problem(op="hgemm", dims=dims, layout="tn", contract=HGEMM, name=name),
        l2="cold",
        flops=2 * 64 * 4096 * 4096,
        winner=winner,
        ours_us=10.0 if winner else None,
        baseline_us={TORCH: 10.5},
        ratios=pair,
        outcomes={TORCH: "faster" if pair else "missing"},
        missing={} if pair else {TORCH: "no kernel was right"},
        best_layout=None,
        roofline_us=9.0,
        floor_us=7.0,
    )
    return made.model_copy(update=changes)


def cells(text: str, line: int) -> list[str]:
    """The cells of a markdown table's line, header first, rule not counted."""
    lines = [each for each in text.splitlines() if each.startswith("|") and not set(each) <= set("|-: ")]
    return [cell.strip() for cell in lines[line].strip("|").split("|")]


def test_a_line_holds_the_result() -> None:
    text = tables.results([row("ffn")], "github")
    assert dict(zip(cells(text, 0), cells(text, 1), strict=True)) == {
        "shape": "ffn 64x4096x4096 tn",
        "ours us": "10.00",
        "torch us": "10.50",
        "vs torch": "1.050",
        "95 %": "1.040-1.060",
        "roofline %": "90",
        "verdict": "faster",
    }


def test_winners_are_differences_from_the_default() -> None:
    text = tables.configs([row("ffn"), row("lost", None, None)], DEFAULT, "github")
    assert dict(zip(cells(text, 0), cells(text, 1), strict=True)) == {
        "shape": "ffn 64x4096x4096 tn",
        "kernel": "tile=64x256x64 swap_ab=true",
        "launch": "swizzle=8",
    }
    assert "lost" not in text


def test_too_few_rounds_leave_no_interval() -> None:
    pair = Paired(ratio=1.05, low=None, high=None, n=3)
    assert cells(tables.results([row(ratios={TORCH: pair})], "github"), 1)[3:5] == ["1.050", "-"]


def test_ratios_keep_their_digits() -> None:
    """tabulate would print 0.950 and 1.1 as it likes; a column of ratios has three decimals."""
    text = tables.results([row(ratio=0.95), row(ratio=1.1)])
    assert "0.950" in text
    assert "1.100" in text


def test_columns_follow_what_was_measured() -> None:
    pair = Paired(ratio=0.9, low=0.8, high=1.0, n=9)
    plain = tables.results([row()])
    assert "cublaslt" not in plain
    assert "best layout" not in plain
    full = tables.results(
        [
            row(
                baseline_us={TORCH: 10.5, LT_TUNED: 9.0},
                ratios={TORCH: pair, LT_TUNED: pair},
                best_layout=pair,
            )
        ],
        style="github",
    )
    header = cells(full, 0)
    assert header[2:7] == ["torch us", "vs torch", "95 %", "vs cublaslt-tuned", "best layout"]
    assert dict(zip(header, cells(full, 1), strict=True))["best layout"] == "0.900"


def test_a_problem_without_a_winner_says_why() -> None:
    text = tables.results([row("lost", None, None, why="no kernel was right", roofline_us=None)], "github")
    assert cells(text, 1) == ["lost 64x4096x4096 tn", "-", "10.50", "-", "-", "-", "none"]
    assert "lost 64x4096x4096 tn: no kernel was right" in text
    assert text.count("no kernel was right") == 1


def test_notes_for_missing_baselines_throttling_and_impossible_times() -> None:
    noted = row(
        "x",
        missing={LT_TUNED: "out of memory"},
        throttle=("hw_thermal",),
        why="below the physical floor of 7 us: ours",
        outcomes={TORCH: "impossible"},
    )
    assert tables.notes([noted]) == [
        "x 64x4096x4096 tn: below the physical floor of 7 us: ours",
        "x 64x4096x4096 tn: no cublaslt-tuned ratio: out of memory",
        "x 64x4096x4096 tn: the card was held back: hw_thermal",
    ]
    assert "IMPOSSIBLE" in tables.results([noted])
    assert tables.notes([row()]) == []


def test_in_markdown_notes_are_no_rows_of_the_table() -> None:
    capped = row("x", throttle=(tables.POWER_CAP,))
    assert "|\n\nat the card's power limit" in tables.results([capped], "github")
    assert "\n\n" not in tables.results([capped]) + tables.results([row()], "github")


def test_the_power_limit_is_one_line_for_all_and_hides_no_other_reason() -> None:
    capped = row("x", throttle=(tables.POWER_CAP,))
    both = row("y", throttle=(tables.POWER_CAP, "hw_thermal"))
    assert tables.notes([capped, both, row()]) == [
        "y 64x4096x4096 tn: the card was held back: hw_thermal",
        "at the card's power limit, as large problems are: x 64x4096x4096 tn, y 64x4096x4096 tn",
    ]


def test_the_default_is_called_so_and_a_foreign_family_is_named() -> None:
    assert tables.kernel_text(DEFAULT.kernel, DEFAULT.kernel) == "default"
    other = KernelConfig(family="tiny", knobs={"stages": 4})
    assert tables.kernel_text(other, DEFAULT.kernel) == "tiny stages=4"
    assert tables.kernel_text(OURS.kernel) == "tma tile=64x256x64 stages=4 swap_ab=true"


def test_values_differ_by_type_too() -> None:
    assert tables.knobs_text({"x": 1}, {"x": True}) == "x=1"
    assert tables.knobs_text({"x": True}, {"x": True}) == "default"


def test_a_count_and_a_batch_are_shown() -> None:
    problem = Problem(
        op="hgemm", dims={"m": 8, "n": 8, "k": 8, "batch": 4}, layout="tt", contract=HGEMM, count=32
    )
    assert cells(tables.results([row(problem=problem)], style="github"), 1)[0] == "8x8x8x4 tt 32x"


# --- against the best of several baselines

CUDNN = Paired(ratio=0.9, low=0.89, high=0.91, n=20)
DIMS = {
    "batch": 1,
    "heads_q": 8,
    "heads_kv": 2,
    "seqlen_q": 512,
    "seqlen_kv": 512,
    "head_dim": 128,
    "causal": 1,
}
PACKAGE = "flash-attn-3 is not installed"


def contest(name: str, count: int = 1, **changes: object) -> Row:
    """Level with torch, slower than cuDNN; a package is not there."""
    problem = Problem(op="fmha", dims=DIMS, layout="bshd", contract=HGEMM, name=name, count=count)
    made = row(
        problem=problem,
        flops=5_000_000_000,
        baseline_us={TORCH: 10.5, "cudnn": 9.0},
        outcomes={TORCH: "faster", "cudnn": "slower", "flash-attn-3": "missing"},
        missing={"flash-attn-3": PACKAGE},
    )
    return made.model_copy(update={"ratios": {**made.ratios, "cudnn": CUDNN}, **changes})


def without_cudnn(name: str) -> Row:
    return contest(
        name,
        baseline_us={TORCH: 10.5},
        ratios={TORCH: Paired(ratio=1.05, low=1.04, high=1.06, n=20)},
        outcomes={TORCH: "faster", "cudnn": "missing", "flash-attn-3": "missing"},
        missing={"cudnn": "no such mask", "flash-attn-3": PACKAGE},
    )


def test_every_time_and_the_best_baseline_are_columns() -> None:
    text = tables.results([contest("a", count=3), without_cudnn("b")], "github", BEST)
    assert dict(zip(cells(text, 0), cells(text, 1), strict=True)) == {
        "shape": "a 3x",
        "ours us": "10.00",
        "TFLOP/s": "500",
        "torch us": "10.50",
        "cudnn us": "9.000",
        "best": "cudnn",
        "vs best": "0.900",
        "95 %": "0.890-0.910",
        "roofline %": "90",
        "verdict": "slower",
    }
    second = dict(zip(cells(text, 0), cells(text, 2), strict=True))
    assert (second["cudnn us"], second["best"], second["vs best"]) == ("-", "torch", "1.050")
    assert second["verdict"] == "faster"


def test_a_baseline_without_any_time_is_a_line_and_one_without_some_is_told_where() -> None:
    rows = [contest("a"), without_cudnn("b")]
    assert tables.notes(rows) == [
        "b: no cudnn ratio: no such mask",
        f"flash-attn-3 on no shape: {PACKAGE}",
    ]
    assert "flash-attn-3 us" not in tables.results(rows, "simple", BEST) + tables.baselines(rows)


def test_reasons_that_differ_are_all_told() -> None:
    other = contest("b", missing={"flash-attn-3": "head_dim 256"})
    assert tables.notes([contest("a"), other]) == [f"flash-attn-3 on no shape: {PACKAGE}; head_dim 256"]


def test_a_problem_without_a_winner_says_which_baseline_refused_it() -> None:
    missing = {TORCH: "no kernel was right", "cudnn": "no such mask", "flash-attn-3": PACKAGE}
    outcomes = dict.fromkeys(missing, "missing")
    changes = {"winner": None, "ours_us": None, "ratios": {}, "missing": missing, "outcomes": outcomes}
    lost = contest("b", baseline_us={TORCH: 10.5}, why="no kernel was right", **changes)
    assert tables.notes([contest("a"), lost]) == [
        "b: no kernel was right",
        "b: no cudnn time: no such mask",
        f"flash-attn-3 on no shape: {PACKAGE}",
    ]
    line = cells(tables.results([contest("a"), lost], "github", BEST), 2)
    assert line == ["b", "-", "-", "10.50", "-", "-", "-", "-", "-", "none"]


def test_problems_nobody_ran_have_no_baseline_to_speak_of() -> None:
    missing = {TORCH: "no finals were run", "cudnn": "no finals were run"}
    changes = {"winner": None, "ours_us": None, "ratios": {}, "baseline_us": {}, "missing": missing}
    rows = [contest(name, why="no finals were run", **changes) for name in "ab"]
    assert tables.notes(rows) == ["a: no finals were run", "b: no finals were run"]


SUMMARY = Summary(
    baseline=TORCH,
    problems=24,
    compared=22,
    wins=12,
    ties=6,
    losses=4,
    missing=("1x8192x8192",),
    impossible=("64x64x64",),
    mean=1.02,
    geomean=1.01,
    flop_weighted=0.98,
    time_weighted=0.99,
    buckets=(Bucket(label="< 1 GFLOP", problems=10, geomean=1.1, wins=8),),
    roofline=0.8,
)


def test_summary_lines() -> None:
    assert summaries.summary_lines([SUMMARY]) == [
        "against torch: geometric mean 1.010, mean 1.020, FLOP-weighted 0.980, time-weighted 0.990",
        "  22 of 24 shapes: 12 faster, 6 ties, 4 slower (win rate 55 %);"
        " not counted: 1 missing (1x8192x8192), 1 impossible (64x64x64)",
        "  by size: < 1 GFLOP 1.100 (8 of 10 faster)",
    ]


def test_the_share_of_the_roofline_is_one_line() -> None:
    assert summaries.roofline_line(SUMMARY).startswith("80 % of the measured roofline")
    assert summaries.roofline_line(SUMMARY.model_copy(update={"roofline": None})) == ""


def test_one_tie_is_no_ties() -> None:
    (_, counts, *_) = summaries.summary_lines([SUMMARY.model_copy(update={"ties": 1})])
    assert ": 12 faster, 1 tie, 4 slower" in counts


def test_a_summary_of_nothing() -> None:
    nothing = SUMMARY.model_copy(update={"compared": 0, "impossible": ()})
    assert summaries.summary_lines([nothing]) == [
        "against torch: nothing to compare; not counted: 1 missing (1x8192x8192)"
    ]


@dataclass(frozen=True)
class Broken:
    rule: str
    reason: str


def test_legality() -> None:
    text = tables.legality([Broken("smem", "needs 240 KB")], [Broken("spills", "256 accumulators")], "github")
    assert cells(text, 1) == ["illegal", "smem", "needs 240 KB"]
    assert cells(text, 2) == ["unwise", "spills", "256 accumulators"]
    assert tables.legality([], []) == "legal: no rule is broken"


def test_builds_shows_figures_and_failures() -> None:
    build = Build(
        kernel=OURS.kernel,
        symbol="s",
        cubin="c",
        host_library="h",
        index=0,
        registers=168,
        spill_bytes=0,
        smem_bytes=200_000,
        threads=384,
        stages=4,
        params_bytes=1792,
        cubin_bytes=30_000,
        compile_s=6.83,
        batch_size=6,
        cached=False,
        warnings=("C7510: wgmma serialized",),
    )
    events: list[KernelBuilt | KernelFailed] = [
        KernelBuilt(proposal=Proposal(kernel=OURS.kernel, source="sampler"), build=build, at_s=1.0),
        KernelFailed(
            proposal=Proposal(kernel=DEFAULT.kernel, source="default"),
            failure=Failure(stage="build", reason="a | b"),
            at_s=2.0,
        ),
    ]
    text = tables.builds(events, DEFAULT.kernel, "github")
    assert cells(text, 1)[1:] == [
        "sampler",
        "168",
        "0",
        "200000",
        "4",
        "384",
        "6.8",
        "built; C7510: wgmma serialized",
    ]
    assert "default" in text
    assert r"build failed: a \| b" in text
    assert tables.builds([]) != ""


def test_a_terminal_gets_lines_that_fit_and_is_told_so() -> None:
    whole = tables.configs([row("ffn")], DEFAULT).splitlines()
    fitting = tables.configs([row("ffn")], DEFAULT, width=40).splitlines()
    assert [line[:39] for line in whole] == [line.rstrip("…") for line in fitting[: len(whole)]]
    assert all(len(line) == 40 and line.endswith("…") for line in fitting[: len(whole)])
    assert "cut to the terminal" in fitting[len(whole)]
    assert tables.configs([row("ffn")], DEFAULT, width=max(map(len, whole))).splitlines() == whole


def test_a_pipe_gets_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.terminal_width() is None
