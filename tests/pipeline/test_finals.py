"""The finals of one problem: one contest chooses, three others measure; ties go to kernels already in use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutlass_tuner.ops import registry
from cutlass_tuner.pipeline import baselines, finals
from cutlass_tuner.pipeline import bench as benches
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Failure, KernelConfig, Measurement
from cutlass_tuner.settings import settings
from cutlass_tuner.space import Space
from cutlass_tuner.wire import ContestResult, Refused, Timed
from pipeline import tuner
from pipeline.harness import ENTRANTS

OP = registry.op("hgemm")
SPACE = Space.of("hgemm", "sm_90a")
DEVICE = OP.nominal_device("sm_90a")
PROBLEM = OP.problem((512, 512, 512), None)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(benches, "CHILD", tuner.CHILD)
    monkeypatch.setenv("CUTLASS_TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.setenv("CHILD_SPREAD", "0.002")  # kernels of one tile tie
    settings.cache_clear()
    with Bench(OP, "cold", 0, tmp_path / "log") as made:
        yield made
    settings.cache_clear()


def kernel(tile_n: int, cluster_m: int = 1) -> KernelConfig:
    return SPACE.effective(SPACE.kernel(tile_m=128, tile_n=tile_n, cluster_m=cluster_m), DEVICE)


def finalists(*kernels: KernelConfig) -> list[finals.Finalist]:
    found = []
    for one in kernels:
        (launch, *_) = SPACE.launches(one, PROBLEM, DEVICE)
        (build,) = tuner.Builder().build([one])
        assert not isinstance(build, Failure)
        found.append(finals.Finalist(build, launch))
    return found


def play(
    bench: Bench, entrants: list[finals.Finalist], prefer: list[KernelConfig]
) -> tuple[finals.Outcome, list[Measurement]]:
    recorded: list[Measurement] = []

    def record(_: finals.Finalist, one: Measurement | Failure) -> None:
        assert isinstance(one, Measurement), one
        recorded.append(one)

    outcome = finals.play(
        bench,
        PROBLEM,
        entrants,
        tuned=lambda: "cd" * 64,
        prefer=prefer,
        record=record,
    )
    assert not isinstance(outcome, Failure), outcome
    return outcome, recorded


def asked(tmp_path: Path) -> list[dict]:  # type: ignore[type-arg]
    requests = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    return [request for request in requests if request["request"] == "contest"]


def test_the_winners_figures_are_not_from_the_contest_that_made_it_win(bench: Bench, tmp_path: Path) -> None:
    slow, fast = kernel(256), kernel(64)
    outcome, recorded = play(bench, finalists(slow, fast), [])
    winner = outcome.row.winner
    assert winner is not None and winner.kernel == fast

    semifinal, *final = asked(tmp_path)
    assert [e["name"] for e in semifinal["entries"][:1]] == ["torch"] and len(semifinal["entries"]) == 3
    assert semifinal["rounds"] >= 31 and len(final) == 3 and all(r["rounds"] >= 13 for r in final)
    assert all(r["check_after"] and r["steady_s"] > 0 for r in (semifinal, *final))
    for contest in final:
        assert [e["name"] for e in contest["entries"]] == [*ENTRANTS, winner.key]
        assert contest["entries"][ENTRANTS.index("cublaslt-tuned")]["algorithm"] == "cd" * 64
        assert [b.name for b in outcome.baselines] == [e["name"] for e in contest["entries"][:-1]]

    assert [m.kernel for m in recorded] == [slow, fast, fast, fast, fast]
    chosen, *measured = recorded[1:]
    shown = outcome.row.samples_us[outcome.row.entrants.index(winner.key)]
    assert shown == tuple(us for m in measured for us in m.samples_us)
    assert not set(shown) & set(chosen.samples_us)
    assert outcome.row.contests == tuple(r["rounds"] for r in final)
    torch = outcome.baselines[0]
    assert torch.samples_us == outcome.row.samples_us[0] and len(torch.samples_us) == len(shown)


def test_finalists_meet_inputs_that_the_search_never_saw(bench: Bench, tmp_path: Path) -> None:
    (one,) = finalists(kernel(64))
    bench.screen(one.build, PROBLEM, [one.launch], 0.0)
    play(bench, [one], [])
    searched, *finally_ = asked(tmp_path)
    seeds = {request["seed"] for request in finally_}
    assert len(finally_) == len(seeds) == 4 and searched["seed"] not in seeds


def test_the_semifinal_is_recorded_before_the_final_is_asked_for(bench: Bench, tmp_path: Path) -> None:
    contests: list[int] = []
    finals.play(
        bench,
        PROBLEM,
        finalists(kernel(64), kernel(128)),
        tuned=str,
        prefer=[],
        record=lambda *_: contests.append(len(asked(tmp_path))),
    )
    assert contests == [1, 1, 2, 3, 4]


def test_cublaslt_is_tuned_between_semifinal_and_final(bench: Bench, tmp_path: Path) -> None:
    """On a card as warm as in the final."""
    before: list[int] = []

    def tuned() -> str:
        before.append(len(asked(tmp_path)))
        return ""

    finals.play(bench, PROBLEM, finalists(kernel(64)), tuned=tuned, prefer=[], record=lambda *_: None)
    assert before == [1]


def test_one_wrong_answer_in_three_contests_is_one_too_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that is right in the semifinal and in two contests of the final, and wrong in the third."""
    play_contest, count = bench.contest, 0

    def last_is_wrong(*args: Any, **named: Any) -> ContestResult | Failure:
        nonlocal count
        count += 1
        result = play_contest(*args, **named)
        if count < 4 or isinstance(result, Failure):
            return result
        ours = result.entries[-1]
        assert isinstance(ours, Timed)
        wrong = ours.model_copy(update={"evidence": ours.evidence.model_copy(update={"exact_mismatches": 1})})
        return result.model_copy(update={"entries": (*result.entries[:-1], wrong)})

    monkeypatch.setattr(bench, "contest", last_is_wrong)
    outcome, recorded = play(bench, finalists(kernel(64)), [])
    assert [m.verdict.passed for m in recorded] == [True, True, True, False]
    assert outcome.row.winner is None and "wrong answer in the final" in outcome.row.why


@pytest.mark.parametrize("preferred", [0, 1])
def test_a_tie_goes_to_the_kernel_another_shape_uses(preferred: int, bench: Bench, tmp_path: Path) -> None:
    pair = [kernel(64, cluster_m=1), kernel(64, cluster_m=2)]
    outcome, _ = play(bench, finalists(*pair), [pair[preferred]])
    assert outcome.row.winner is not None
    assert outcome.row.winner.kernel == pair[preferred]


def test_preference_gives_no_real_difference_away(bench: Bench, tmp_path: Path) -> None:
    slow, fast = kernel(256), kernel(64)
    outcome, _ = play(bench, finalists(slow, fast), [slow])
    assert outcome.row.winner is not None and outcome.row.winner.kernel == fast


def test_without_an_algorithm_the_tuned_baseline_is_left_out(bench: Bench) -> None:
    names = [entry.name for entry in baselines.entries(OP, PROBLEM, "")]
    assert names == [name for name in ENTRANTS if name != "cublaslt-tuned"]


def test_baselines_keep_the_problems_own_layout(bench: Bench) -> None:
    entries = baselines.entries(OP, OP.problem((512, 512, 512), "tt"), "ab")
    assert [entry.layout for entry in entries] == ["tt"] * 4 + ["tn", "nn", "nt"]


def test_a_winner_refused_in_one_contest_of_the_final_makes_room_and_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_contest, count = bench.contest, 0
    failure = Failure(stage="launch", reason="out of memory")

    def once_refused(*args: Any, **named: Any) -> ContestResult | Failure:
        nonlocal count
        count += 1
        result = play_contest(*args, **named)
        if count != 2 or isinstance(result, Failure):
            return result
        refused = Refused(name=result.entries[-1].name, failure=failure)
        return result.model_copy(update={"entries": (*result.entries[:-1], refused)})

    monkeypatch.setattr(bench, "contest", once_refused)
    told: list[Measurement | Failure] = []
    (one,) = finalists(kernel(64))
    outcome = finals.play(
        bench, PROBLEM, [one], tuned=str, prefer=[], record=lambda f, seen: told.append(seen)
    )
    assert isinstance(outcome, finals.Outcome)
    assert outcome.row.winner is None
    assert outcome.row.why == "the chosen kernel failed in the final: out of memory"
    assert failure in told and one.config.key not in outcome.row.entrants
