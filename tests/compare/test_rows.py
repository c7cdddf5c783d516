"""Rows and summaries: every ratio is of pairs, and nothing that is missing improves a figure."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from compare.samples import H200
from cutlass_tuner.compare import against, rows, summary
from cutlass_tuner.events import BaselineResult, FinalRow
from cutlass_tuner.ops import registry
from cutlass_tuner.records import (
    CardState,
    Config,
    Contract,
    Failure,
    KernelConfig,
    LaunchConfig,
    Problem,
)
from cutlass_tuner.results import (
    BEST,
    BEST_CUBLASLT,
    BEST_LAYOUT,
    LT,
    LT_TUNED,
    TORCH,
    Outcome,
    Row,
    headline,
    in_layout,
)
from cutlass_tuner.statistics import Paired, verdict

HGEMM = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
OURS = Config(kernel=KernelConfig(family="f", knobs={"stages": 4}), launch=LaunchConfig(knobs={"swizzle": 2}))
ROUNDS = 10
DRIFT = [1.0 + 0.015 * i for i in range(ROUNDS)]


def problem(m: int, count: int = 1) -> Problem:
    return Problem(
        op="hgemm", dims={"m": m, "n": 1024, "k": 1024, "batch": 1}, layout="tn", contract=HGEMM, count=count
    )


def flops(p: Problem) -> int:
    return 2 * p.dims["m"] * p.dims["n"] * p.dims["k"]


def bytes_(p: Problem) -> int:
    m, n, k = p.dims["m"], p.dims["n"], p.dims["k"]
    return 2 * (m * k + k * n + m * n)


def samples(us: float, rounds: int = ROUNDS) -> tuple[float, ...]:
    return tuple(us * d for d in DRIFT[:rounds])


def final(p: Problem, ours: float | None = 10.0, **baselines: float) -> FinalRow:
    """Names are written with "_" for "-" and "_at_" for "@"."""
    names = {name.replace("_at_", "@").replace("_", "-"): us for name, us in baselines.items()}
    entrants = {**names, **({OURS.key: ours} if ours else {})}
    return FinalRow(
        problem=p.key,
        l2="cold",
        entrants=tuple(entrants),
        samples_us=tuple(samples(us) for us in entrants.values()),
        winner=OURS if ours else None,
        why="" if ours else "no kernel was right",
    )


def table(
    finals: list[FinalRow],
    problems: list[Problem],
    baselines: list[BaselineResult] | None = None,
    names: tuple[str, ...] = (TORCH, LT, LT_TUNED),
) -> list[Row]:
    return rows(
        finals,
        baselines or [],
        problems,
        names=names,
        device=H200,
        flops=flops,
        bytes_=bytes_,
    )


def test_a_row_compares_with_every_baseline() -> None:
    p = problem(1024)
    [row] = table([final(p, 10.0, torch=12.0, cublaslt=10.0, cublaslt_tuned=9.0)], [p])
    assert row.winner == OURS
    assert row.ours_us == pytest.approx(10.0 * (DRIFT[4] + DRIFT[5]) / 2)
    assert {name: pair.ratio for name, pair in row.ratios.items()} == {
        TORCH: pytest.approx(1.2),
        LT: pytest.approx(1.0),
        LT_TUNED: pytest.approx(0.9),
    }
    assert row.outcomes == {TORCH: "faster", LT: "tie", LT_TUNED: "slower"}
    assert row.missing == {}
    assert row.best_layout is None
    assert row.tflops == pytest.approx(flops(p) / (row.ours_us or 0) / 1e6)
    assert row.roofline == pytest.approx((row.roofline_us or 0) / (row.ours_us or 1))


def test_ratios_are_of_pairs_not_of_medians() -> None:
    """The baseline stopped early, on a cooler card: its median is low, its ratio is not."""
    p = problem(1024)
    row = FinalRow(
        problem=p.key,
        l2="cold",
        entrants=(TORCH, OURS.key),
        samples_us=(samples(10.0, 6), samples(10.0)),
        winner=OURS,
        why="",
    )
    [made] = table([row], [p])
    assert made.ratios[TORCH].ratio == pytest.approx(1.0)
    assert made.ratios[TORCH].n == 6
    assert made.baseline_us[TORCH] < (made.ours_us or 0)


def test_best_layout_is_the_least_ratio_over_torchs_layouts() -> None:
    p = problem(1024)
    assert in_layout(TORCH, "tt") == "torch@tt"
    [row] = table([final(p, 10.0, torch=12.0, torch_at_tt=11.0, torch_at_nn=13.0)], [p])
    assert row.ratios[TORCH].ratio == pytest.approx(1.2)
    assert row.best_layout is not None
    assert row.best_layout.ratio == pytest.approx(1.1)
    [own] = table([final(p, 10.0, torch=12.0, torch_at_tt=15.0)], [p])
    assert own.best_layout is not None
    assert own.best_layout.ratio == pytest.approx(1.2)
    assert set(own.ratios) == {TORCH}


def test_a_problem_without_a_winner_or_without_finals_has_a_row_that_says_so() -> None:
    lost, unrun = problem(1024), problem(2048)
    first, second = table([final(lost, None, torch=12.0)], [lost, unrun])
    assert (first.winner, first.ours_us, first.why) == (None, None, "no kernel was right")
    assert first.baseline_us[TORCH] > 12.0
    assert first.missing[TORCH] == "no kernel was right"
    assert first.outcomes[TORCH] == "missing"
    assert second.why == "no finals were run"
    assert second.ratios == {}


def test_a_baseline_that_failed_says_why() -> None:
    p, other = problem(1024), problem(2048)
    failure = Failure(stage="launch", reason="out of memory")
    failed = [
        BaselineResult(name=LT_TUNED, problem=q.key, layout="tn", samples_us=(), workspace_bytes=0, failure=f)
        for q, f in ((p, failure), (other, failure.model_copy(update={"reason": "somebody else's"})))
    ]
    [row] = table([final(p, 10.0, torch=12.0)], [p], failed)
    assert row.missing == {LT: "not among the finals", LT_TUNED: "out of memory"}


def test_rows_come_in_the_problems_order_and_the_last_final_counts() -> None:
    a, b = problem(1024), problem(2048)
    made = table([final(b, 10.0, torch=10.0), final(a, 10.0, torch=10.0), final(b, 10.0, torch=20.0)], [a, b])
    assert [row.problem for row in made] == [a, b]
    assert made[1].ratios[TORCH].ratio == pytest.approx(2.0)


def test_a_winner_from_nowhere_is_an_error() -> None:
    p = problem(1024)
    row = final(p, None, torch=10.0).model_copy(update={"winner": OURS})
    with pytest.raises(ValueError, match="not among the entrants"):
        table([row], [p])


def test_below_the_floor_is_impossible_not_a_win() -> None:
    p = problem(8192)
    [row] = table([final(p, 1.0, torch=40.0)], [p])
    assert row.outcomes[TORCH] == "impossible"
    assert row.why.startswith("below the physical floor of ")
    assert row.why.endswith(": ours")
    [theirs] = table([final(p, 40.0, torch=1.0, cublaslt=40.0)], [p])
    assert theirs.outcomes == {TORCH: "impossible", LT: "tie", LT_TUNED: "missing"}
    assert theirs.why.endswith(": torch")


def test_one_impossible_sample_is_enough() -> None:
    p = problem(8192)
    good = final(p, 40.0, torch=40.0)
    spoiled = (good.samples_us[0], (1.0, *good.samples_us[1][1:]))
    [row] = table([good.model_copy(update={"samples_us": spoiled})], [p])
    assert row.outcomes[TORCH] == "impossible"


def test_throttling_is_kept() -> None:
    p = problem(1024)
    card = CardState(sm_clock_mhz=1500, power_w=700, temperature_c=80, throttle=("power cap",))
    [row] = table([final(p, 10.0, torch=10.0).model_copy(update={"card": card})], [p])
    assert row.throttle == ("power cap",)


# --- summaries


def test_summary_figures() -> None:
    small, large = problem(256, count=3), problem(8192)
    made = table([final(small, 10.0, torch=20.0), final(large, 40.0, torch=32.0)], [small, large])
    s = summary(made)
    assert (s.problems, s.compared, s.wins, s.ties, s.losses) == (2, 2, 1, 0, 1)
    assert s.win_rate == 0.5
    assert s.mean == pytest.approx((2.0 + 0.8) / 2)
    assert s.geomean == pytest.approx(math.sqrt(2.0 * 0.8))
    weights = (3 * flops(small), flops(large))
    assert s.flop_weighted == pytest.approx((2.0 * weights[0] + 0.8 * weights[1]) / sum(weights))
    assert s.time_weighted == pytest.approx((3 * 20.0 + 32.0) / (3 * 10.0 + 40.0))
    assert [(b.label, b.problems, b.wins) for b in s.buckets] == [("< 1 GFLOP", 1, 1), ("10-100 GFLOP", 1, 0)]
    assert s.buckets[0].geomean == pytest.approx(2.0)
    rooflines = [row.roofline or 0.0 for row in made]
    assert s.roofline == pytest.approx(math.sqrt(rooflines[0] * rooflines[1]))


def test_what_is_missing_or_impossible_is_counted_and_enters_no_figure() -> None:
    good, lost, unrun, wrong = problem(256), problem(512), problem(1024), problem(8192)
    finals = [final(good, 10.0, torch=20.0), final(lost, None, torch=5.0), final(wrong, 1.0, torch=40.0)]
    s = summary(table(finals, [good, lost, unrun, wrong]))
    assert (s.problems, s.compared, s.wins) == (4, 1, 1)
    assert s.missing == (lost.label, unrun.label)
    assert s.impossible == (wrong.label,)
    assert s.geomean == pytest.approx(2.0)
    assert s.win_rate == 1.0


def test_ties_are_not_wins() -> None:
    p = problem(1024)
    s = summary(table([final(p, 10.0, torch=10.04)], [p]))
    assert (s.wins, s.ties, s.losses) == (0, 1, 0)
    assert s.win_rate == 0.0


def test_nothing_to_compare_has_no_figures() -> None:
    s = summary(table([], [problem(256)]))
    assert (s.compared, s.mean, s.geomean, s.flop_weighted, s.time_weighted) == (0, None, None, None, None)
    assert s.win_rate is None
    assert s.buckets == ()
    assert summary([]).problems == 0


def test_best_layout_and_other_baselines_have_summaries_of_their_own() -> None:
    p = problem(1024)
    made = table([final(p, 10.0, torch=12.0, torch_at_tt=9.0, cublaslt_tuned=11.0)], [p])
    assert summary(made, BEST_LAYOUT).geomean == pytest.approx(0.9)
    assert summary(made, BEST_LAYOUT).losses == 1
    assert summary(made, LT_TUNED).geomean == pytest.approx(1.1)
    assert summary(made, LT).missing == (p.label,)


def test_a_final_of_several_contests_is_compared_contest_by_contest() -> None:
    """All rounds together would call it faster; one of four contests says slower, and so it is a tie."""
    p = problem(1024)
    theirs = [samples(9.7), *[samples(10.3)] * 3]
    one = final(p, 10.0, torch=10.0)
    several = one.model_copy(
        update={
            "samples_us": tuple(
                tuple(us for part in (theirs if name == TORCH else [samples(10.0)] * 4) for us in part)
                for name in one.entrants
            ),
            "contests": (ROUNDS,) * 4,
        }
    )
    [together] = table([several.model_copy(update={"contests": ()})], [p])
    [apart] = table([several], [p])
    assert together.outcomes[TORCH] == "faster"
    assert apart.outcomes[TORCH] == "tie" and apart.ratios[TORCH].ratio == pytest.approx(1.03)


@pytest.mark.parametrize(
    ("torch", "heuristic", "auto", "beats"),
    [
        ("faster", "faster", "faster", True),
        ("tie", "tie", "tie", True),
        ("faster", "missing", "missing", True),
        ("missing", "faster", "faster", False),
        ("impossible", "faster", "faster", False),
        ("slower", "faster", "faster", False),
        ("faster", "slower", "faster", False),
        ("faster", "faster", "slower", False),
        ("faster", "impossible", "faster", False),
    ],
)
def test_beating_the_baselines_means_losing_to_none_that_was_measured(
    torch: Outcome, heuristic: Outcome, auto: Outcome, beats: bool
) -> None:
    p = problem(1024)
    [row] = table([final(p, 10.0, torch=10.0, cublaslt=10.0, cublaslt_tuned=10.0)], [p])
    outcomes = {TORCH: torch, LT: heuristic, LT_TUNED: auto}
    assert row.model_copy(update={"outcomes": outcomes}).beats_baselines is beats


@pytest.mark.parametrize(("ratio", "beats"), [(0.996, True), (0.98, False)])
def test_an_unproven_loss_of_some_per_cent_does_not_count_as_level(ratio: float, beats: bool) -> None:
    p = problem(1024)
    [row] = table([final(p, 10.0, torch=10.0)], [p])
    unproven = Paired(ratio=ratio, low=0.9, high=1.1, n=39)
    assert verdict(unproven) == "tie"
    judged = row.model_copy(update={"ratios": {TORCH: unproven}, "outcomes": {TORCH: "tie"}})
    assert judged.beats_baselines is beats


# --- ops with other baselines

ATTENTION = (TORCH, "cudnn", "flash")


def refusal(p: Problem, name: str, reason: str) -> BaselineResult:
    failure = Failure(stage="launch", reason=reason)
    return BaselineResult(
        name=name, problem=p.key, layout="tn", samples_us=(), workspace_bytes=0, failure=failure
    )


def test_the_best_baseline_is_the_fastest_of_those_that_ran() -> None:
    p, other = problem(1024), problem(2048)
    finals = [final(p, 10.0, torch=12.0, cudnn=9.0, flash=11.0), final(other, 10.0, torch=12.0, flash=11.0)]
    first, second = table(finals, [p, other], [refusal(other, "cudnn", "no such mask")], ATTENTION)
    assert list(first.outcomes) == list(ATTENTION)
    assert (first.best_baseline, first.against(BEST)) == ("cudnn", (first.ratios["cudnn"], "slower"))
    assert (second.best_baseline, second.against(BEST)) == ("flash", (second.ratios["flash"], "faster"))
    assert second.missing == {"cudnn": "no such mask"} and second.outcomes["cudnn"] == "missing"
    s = summary([first, second], BEST)
    assert (s.compared, s.wins, s.losses, s.missing) == (2, 1, 1, ())
    assert s.geomean == pytest.approx(math.sqrt(0.9 * 1.1))
    assert summary([first, second], "cudnn").missing == (other.label,)


def test_a_baseline_that_was_wrong_is_never_the_best() -> None:
    p = problem(1024)
    wrong = refusal(p, "cudnn", "error is 7 times the bound")
    [row] = table([final(p, 10.0, torch=12.0, cudnn=5.0)], [p], [wrong], ATTENTION)
    assert row.best_baseline == TORCH and row.beats_baselines
    assert row.missing["cudnn"] == "error is 7 times the bound" and "cudnn" not in row.baseline_us


def test_an_impossible_best_baseline_is_no_loss_and_enters_no_mean() -> None:
    p = problem(8192)
    [row] = table([final(p, 40.0, torch=42.0, cudnn=1.0)], [p], names=ATTENTION)
    assert row.against(BEST)[1] == "impossible" and not row.beats_baselines
    assert summary([row], BEST).impossible == (p.label,) and summary([row], BEST).geomean is None


def test_without_a_winner_there_is_no_best_baseline_and_a_refusal_keeps_its_reason() -> None:
    p = problem(1024)
    [row] = table([final(p, None, torch=12.0)], [p], [refusal(p, "cudnn", "no such mask")], ATTENTION)
    assert (row.best_baseline, row.against(BEST)) == (None, (None, "missing"))
    assert row.missing[TORCH] == "no kernel was right" and row.missing["cudnn"] == "no such mask"


def test_losing_to_any_baseline_of_the_op_is_not_beating_them() -> None:
    p = problem(1024)
    [row] = table([final(p, 10.0, torch=12.0, cudnn=11.0, flash=9.0)], [p], names=ATTENTION)
    assert not row.beats_baselines
    [row] = table([final(p, 10.0, torch=12.0, cudnn=11.0, flash=10.0)], [p], names=ATTENTION)
    assert row.beats_baselines


def test_the_headline_comes_first_and_every_baseline_once() -> None:
    gemm, attention = registry.op("hgemm"), registry.op("fmha")
    assert against(gemm) == (TORCH, LT, LT_TUNED, BEST_CUBLASLT, BEST_LAYOUT)
    assert against(attention) == (BEST, *attention.baselines, BEST_LAYOUT)
    assert [against(op)[0] for op in (gemm, attention)] == [headline(gemm), headline(attention)]
    one_layout = replace(attention, baseline_layouts=("bshd",))
    assert BEST_LAYOUT not in against(one_layout)
