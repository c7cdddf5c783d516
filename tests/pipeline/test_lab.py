"""The lab on a made-up recorded study: what is replayed, what is counted, and what is said of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cutlass_tuner.compare.regret import MISS, Run
from cutlass_tuner.errors import UserError
from cutlass_tuner.events import FinalRow, Finished
from cutlass_tuner.ideas import Idea, Suggestion
from cutlass_tuner.options import LabOptions
from cutlass_tuner.pipeline import lab, setup
from cutlass_tuner.pipeline.lab_arms import ARMS, Lab, Replay, Round, _Wish, replay
from cutlass_tuner.pipeline.lab_data import Recorded, recorded, round_noise, screened, screening_s
from cutlass_tuner.pipeline.lab_replies import ReplySet, expectations, read_set
from cutlass_tuner.pipeline.lab_report import Curves
from cutlass_tuner.records import KernelConfig, Proposal
from cutlass_tuner.report import curves
from cutlass_tuner.study import Study
from pipeline import recording as made

FIRST, SECOND, THIRD = made.kernels()[:3]
WHOLE = made.whole_study()


def strangers(count: int) -> list[KernelConfig]:
    """Legal kernels that are not recorded."""
    known = {kernel.key for kernel in made.kernels()}
    rows = range(997, len(made.whole()), 997)
    return [k for row in rows if (k := made.whole().kernel(row)).key not in known][:count]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return made.write(tmp_path_factory.mktemp("studies"), WHOLE)


@pytest.fixture(scope="module")
def table(study: Study) -> Recorded:
    return recorded(study, made.SPACE)[0]


@pytest.fixture
def made_lab(table: Recorded) -> Callable[..., Lab]:
    def make(*rounds: Round, builds: int = 30, starts: tuple[Proposal, ...] = ()) -> Lab:
        return Lab(
            recorded=table,
            knobs=made.SPACE.kernel_knobs(),
            emitter=setup.emitter(made.OP),
            estimate_us=made.OP.prior(table.candidates, table.problems, made.DEVICE),
            starts={"heuristics": starts},
            replies=(rounds,),
            builds=builds,
        )

    return make


def idea(name: str, *kernels: KernelConfig) -> Idea:
    return Idea(
        id=name, hypothesis="h", bottleneck="l2", targets=(made.PROBLEMS[0].key,), expected=1.1,
        family="tma_ws", suggestions=tuple(Suggestion(kernel=kernel) for kernel in kernels),
    )  # fmt: skip


# --- the record


def test_the_table_holds_every_kernel_with_its_recorded_times(table: Recorded) -> None:
    assert len(table) == made.KERNELS
    row = table.candidates.row(FIRST)
    assert row is not None
    assert table.log_ratio[row].tolist() == pytest.approx([made.log_ratio(FIRST, p) for p in made.PROBLEMS])
    assert table.known.tolist() == pytest.approx(
        [min(made.log_ratio(k, p) for k in made.kernels()) for p in made.PROBLEMS]
    )
    assert set(table.compile_s) == {made.COMPILE_S} and set(table.device_s) == {made.SCREEN_S}
    assert table.sources == {"sampler": made.KERNELS}
    assert table.notes == ()


def test_finals_are_no_part_of_the_record() -> None:
    problem = made.PROBLEMS[0]
    later = made.measured(FIRST, problem, -2.0, 99.0, rounds=31)
    ledger = screened([*made.one_kernel(FIRST, 0.0), later])
    assert [len(one.samples_us) for one in ledger.measured[problem.key]] == [3]
    cut_short = [event for event in made.one_kernel(FIRST, 0.0) if event.event != "told"]
    assert len(screened([*cut_short, later]).measured[problem.key]) == 2


def test_runs_are_judged_by_what_was_measured_again_together(tmp_path: Path) -> None:
    """In one contest, in many rounds and after the last finals of the problem; a search hears screening."""
    problem = made.PROBLEMS[0]
    over = Finished(
        row=FinalRow(problem=problem.key, l2="cold", entrants=(), samples_us=(), winner=None, why=""),
        at_s=20.0,
    )
    events = [*made.one_kernel(FIRST, 0.0), *made.one_kernel(SECOND, 5.0), *made.one_kernel(THIRD, 10.0)]
    semifinal = [made.measured(FIRST, problem, -3.0, 19.0, rounds=31), over]
    alone = made.measured(THIRD, problem, -2.0, 21.0, rounds=9)
    alone = alone.model_copy(
        update={"measurement": alone.measurement.model_copy(update={"reference_us": (20.5,) * 9})}
    )
    together = [made.measured(one, problem, -0.5, 22.0, rounds=31) for one in (FIRST, SECOND)]
    table, _ = recorded(made.write(tmp_path, [*events, *semifinal, alone, *together]), made.SPACE)
    rows = [table.candidates.row(one) for one in (FIRST, SECOND, THIRD)]
    place = table.problems.index(problem)
    assert table.log_ratio[rows[:2], place] == pytest.approx([-0.5, -0.5], abs=0.01)
    assert table.log_ratio[rows[2], place] == table.screened[rows[2], place]
    assert (table.screened[rows[:2], place] != table.log_ratio[rows[:2], place]).all()


def test_seeds_that_share_their_replies_prove_nothing(
    folder: Path, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "plots_missing", lambda: "no plots")
    arms = ("llm+random", "random")
    said = lab(options(study, tmp_path, replies=(folder, folder), arms=arms, seeds=8, builds=8))
    assert "of 2 sets of replies" in said and "no difference is proven" in said
    assert "shapes share kernels, so this is no test" in said


def test_a_kernel_measured_on_a_problem_that_was_added_later_counts_there() -> None:
    added = made.PROBLEMS[2]
    events = [*made.one_kernel(FIRST, 0.0, made.PROBLEMS[:2]), made.measured(FIRST, added, 0.1, 9.0)]
    assert added.key in screened(events).measured


def test_screening_lasts_from_the_build_or_the_kernel_before() -> None:
    events = [
        made.built(FIRST, 10.0),
        made.built(SECOND, 11.0),
        made.told(FIRST, {}, 14.0),
        made.told(SECOND, {}, 15.5),
        made.built(THIRD, 100.0),
        made.told(THIRD, {}, 101.0),
    ]
    assert screening_s(events) == {FIRST.key: 4.0, SECOND.key: 1.5, THIRD.key: 1.0}


def test_what_is_not_whole_is_left_out_and_said(tmp_path: Path) -> None:
    foreign = KernelConfig(family="other", knobs={"tile_m": 1})
    events = [
        *made.one_kernel(FIRST, 0.0),
        made.failed(SECOND, 5.0),
        made.built(THIRD, 6.0),
        made.built(foreign, 7.0),
        made.told(foreign, {}, 8.0),
    ]
    study = made.write(tmp_path, events, space_digest="another")
    table, _ = recorded(study, made.SPACE)
    assert len(table) == 2
    assert table.failed.tolist() == [table.candidates.kernel(row) == SECOND for row in range(2)]
    assert table.compile_s.tolist() == [made.COMPILE_S] * 2  # the failed one: as long as is usual
    notes = " / ".join(table.notes)
    for said in ("in another space", "1 recorded kernels are not", "1 kernels were built but never screened"):
        assert said in notes


def test_a_problem_without_a_right_kernel_is_left_out(tmp_path: Path) -> None:
    table, _ = recorded(
        made.write(tmp_path, list(made.one_kernel(FIRST, 0.0, made.PROBLEMS[:2]))), made.SPACE
    )
    assert table.problems == made.PROBLEMS[:2]
    assert "1 problems have no right kernel" in table.notes[0]


@pytest.mark.parametrize(
    ("events", "header", "said"),
    [
        ([], {}, "no right measurement"),
        ([made.failed(FIRST, 0.0)], {}, "no right measurement"),
        (WHOLE, {"simulated": "gold"}, "itself simulated, from gold"),
    ],
)
def test_nothing_to_replay(events: list[object], header: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        recorded(made.write(tmp_path, events, **header), made.SPACE)  # type: ignore[arg-type]


def test_noise_is_what_rounds_scatter_beyond_what_they_share() -> None:
    problem, rng = made.PROBLEMS[0], np.random.default_rng(1)
    events = []
    for number in range(400):
        log = np.array([0.0, 0.5]) + rng.normal(0.0, 0.02, 2)  # every second round is half as slow again
        event = made.measured(FIRST, problem, 0.0, float(number))
        us = {"samples_us": tuple(20.0 * np.exp(log)), "reference_us": (20.0, 20.0)}
        events.append(event.model_copy(update={"measurement": event.measurement.model_copy(update=us)}))
    noise = round_noise(screened(events), made.PROBLEMS)
    assert noise[0] == pytest.approx(0.02, rel=0.15)
    assert noise[1:].tolist() == [0.0, 0.0]


def test_a_seed_hears_the_same_times_in_every_arm_and_others_than_another_seed(table: Recorded) -> None:
    assert np.array_equal(table.told(1), table.told(1))
    gaps = (table.told(1) - table.told(2)) / table.noise
    assert np.std(gaps) == pytest.approx(math.sqrt(2.0), rel=0.2)


# --- one run


def test_every_arm_names_its_parts() -> None:
    assert len(ARMS) == 11
    assert all(name.split("+") == [*arm.proposers, arm.sampler] for name, arm in ARMS.items())


@pytest.mark.parametrize("name", ["portfolio", "random"])
def test_a_run_builds_recorded_kernels_once_each_until_all_are_built(
    name: str, made_lab: Callable[..., Lab]
) -> None:
    run = replay(made_lab(builds=made.KERNELS + 40), name, 3)
    assert sorted(run.rows) == list(range(made.KERNELS))
    assert run.regret[0] == pytest.approx(1.0)
    assert run.regret[-1] == 0.0
    assert all(a >= b for a, b in zip(run.regret, run.regret[1:], strict=False))
    assert run.compile_s[-1] == pytest.approx(made.KERNELS * made.COMPILE_S)
    assert run.device_s[-1] == pytest.approx(made.KERNELS * made.SCREEN_S)
    assert run == replay(made_lab(builds=made.KERNELS + 40), name, 3)


def test_a_model_of_the_times_is_better_than_chance(made_lab: Callable[..., Lab]) -> None:
    at = {
        name: np.mean([replay(made_lab(), name, seed).regret[20] for seed in range(5)])
        for name in ("portfolio", "random")
    }
    assert at["portfolio"] < at["random"]


def test_misses_cost_a_build_and_bring_nothing(made_lab: Callable[..., Lab]) -> None:
    kernels = [FIRST, *strangers(3), SECOND]
    starts = tuple(Proposal(kernel=kernel, source="textbook") for kernel in kernels)
    shared = made_lab(builds=12, starts=starts)
    run = replay(shared, "heuristics+portfolio", 0)
    places = [n for n, row in enumerate(run.rows) if row == MISS]
    assert run.misses == 3 and len(run.rows) == 12
    assert {run.sources[n] for n in places} == {"heuristics"}
    for n in places:
        assert run.regret[n + 1] == run.regret[n]
        assert run.compile_s[n + 1] - run.compile_s[n] == pytest.approx(made.COMPILE_S)
        assert run.device_s[n + 1] - run.device_s[n] == pytest.approx(made.SCREEN_S)
    assert run.rows.count(MISS) + len({row for row in run.rows if row != MISS}) == 12


def test_a_list_of_misses_alone_is_built_before_the_search_goes_on(made_lab: Callable[..., Lab]) -> None:
    starts = tuple(Proposal(kernel=kernel, source="textbook") for kernel in strangers(4))
    run = replay(made_lab(builds=10, starts=starts), "heuristics+portfolio", 0)
    assert run.rows[:4] == (MISS,) * 4 and MISS not in run.rows[4:]


def test_a_reply_of_misses_alone_is_built_before_the_next_is_read(made_lab: Callable[..., Lab]) -> None:
    starts = (Proposal(kernel=FIRST, source="default"),)
    rounds = Round((idea("one", *strangers(2)),)), Round((idea("two", SECOND),))
    run = replay(made_lab(*rounds, starts=starts), "llm+heuristics+portfolio", 0)
    assert run.rows[:2] == (MISS, MISS)
    assert run.sources.index("llm", 2) < run.sources.index("default")


def test_misses_are_spread_among_the_kernels_that_are_recorded() -> None:
    wish = _Wish("llm", {"a", "b", "c", "d"}, ["1", "2"])
    assert [wish.built(key) for key in ("x", "a", "b", "b", "c", "d")] == [[], [], ["1"], [], [], ["2"]]
    assert wish.over() == []
    early = _Wish("llm", {"a", "b"}, ["1", "2", "3"])
    assert early.built("a") == ["1"]
    assert early.over() == ["2", "3"] and not early.waiting


def test_the_next_reply_is_read_once_all_of_the_last_is_told(made_lab: Callable[..., Lab]) -> None:
    kernels = made.kernels()
    rounds = (
        Round((idea("one", *kernels[20:23]), idea("two", kernels[23]))),
        Round((idea("three", kernels[40]),)),
    )
    shared = made_lab(*rounds, builds=40)
    run = replay(shared, "llm+random", 0)
    row = {shared.recorded.candidates.kernel(n).key: n for n in range(made.KERNELS)}
    first = [run.rows.index(row[kernel.key]) for kernel in kernels[20:24]]
    second = run.rows.index(row[kernels[40].key])
    assert second > max(first)
    assert {run.sources[place] for place in (*first, second)} == {"llm"}
    assert run.sources.count("llm") == 5


def test_a_language_models_kernels_and_the_heuristics_go_before_the_samplers(
    made_lab: Callable[..., Lab],
) -> None:
    starts = (Proposal(kernel=FIRST, source="default"),)
    run = replay(
        made_lab(Round((idea("one", made.kernels()[30]),)), starts=starts), "llm+heuristics+portfolio", 0
    )
    assert set(run.sources[:2]) == {"llm", "default"}


def test_seeds_take_turns_with_the_sets_of_replies(table: Recorded, made_lab: Callable[..., Lab]) -> None:
    kernels = made.kernels()
    one = made_lab(Round((idea("one", kernels[20]),)))
    two = made_lab(Round((idea("two", kernels[21]),)))
    both = Lab(**{**vars(one), "replies": one.replies + two.replies})

    def first(seed: int) -> KernelConfig:
        return table.candidates.kernel(replay(both, "llm+portfolio", seed).rows[0])

    assert [first(seed) for seed in range(3)] == [kernels[20], kernels[21], kernels[20]]


def test_a_recorded_failure_is_told_as_one(tmp_path: Path, made_lab: Callable[..., Lab]) -> None:
    events = [*made.one_kernel(FIRST, 0.0), *made.one_kernel(SECOND, 5.0), made.failed(THIRD, 9.0)]
    table, _ = recorded(made.write(tmp_path, events), made.SPACE)
    estimate_us = made.OP.prior(table.candidates, table.problems, made.DEVICE)
    shared = Lab(**{**vars(made_lab()), "recorded": table, "estimate_us": estimate_us})
    one = Replay(shared, ARMS["random"], 0)
    run = one.run()
    states = [trial.state.name for trial in one.search.optuna_study.trials]
    assert sorted(states) == ["COMPLETE", "COMPLETE", "PRUNED"]
    assert len(run.rows) == 3 and run.regret[-1] == 0.0


# --- replies


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two replies about recorded and unknown kernels, and one that is none."""
    found = tmp_path / "replies"
    found.mkdir()
    stranger = strangers(1)[0]
    two_shapes = stated("b", stranger, shapes=["s1", "s2"])
    (found / "1.json").write_text(text(stated("a", FIRST, SECOND, expected=1.2), two_shapes))
    (found / "2.json").write_text("I would rather not.")
    (found / "10.json").write_text(text(stated("c", THIRD, parent="a"), drop=("a",)))
    (found / "model.txt").write_text("some-model\n")
    return found


def text(*ideas: object, drop: tuple[str, ...] = ()) -> str:
    return json.dumps({"ideas": ideas, "drop": drop})


def stated(name: str, *kernels: KernelConfig, **fields: object) -> dict[str, object]:
    """An idea as a reply states it, about the first shape."""
    configs = [
        {"kernel": {k: v for k, v in kernel.knobs.items() if k != "layout"}, "launches": []}
        for kernel in kernels
    ]
    return {
        "id": name, "parent": "", "hypothesis": "h", "bottleneck": "l2", "family": "tma_ws", "shapes": ["s1"],
        "expected": 1.05, "configs": configs, "allow": [], "couplings": [], **fields,
    }  # fmt: skip


def test_replies_are_read_in_their_natural_order(folder: Path, study: Study, table: Recorded) -> None:
    found = read_set(folder, study, made.OP, made.SPACE, table)
    assert [[one.id for one in r.ideas] for r in found.rounds] == [["a", "b"], [], ["c"]]
    assert found.rounds[2].dropped == ("a",)
    assert (found.model, found.failed) == ("some-model", 0)
    assert found.rejected >= 1


def test_expectations_are_judged_by_what_is_recorded(folder: Path, study: Study, table: Recorded) -> None:
    found = expectations([read_set(folder, study, made.OP, made.SPACE, table)], table)
    assert [one.name for one in found] == ["a", "b", "c"]
    best = min(made.log_ratio(kernel, made.PROBLEMS[0]) for kernel in (FIRST, SECOND))
    assert found[0].achieved == pytest.approx(math.exp(-best))
    assert found[0].expected == 1.2
    assert found[1].achieved is None


def test_ideas_of_several_sets_keep_apart(table: Recorded) -> None:
    one = ReplySet("d", "m", (Round((idea("x", FIRST),)),), 0, 0)
    assert [e.name for e in expectations([one, one], table)] == ["1:x", "2:x"]


# --- the whole


def options(study: Study, out: Path, **given: object) -> LabOptions:
    values: dict[str, object] = {
        "data": "recorded", "studies": study.folder.parent, "out": out, "builds": 16, "seeds": 3, "jobs": 1,
        "arms": ("heuristics+portfolio", "portfolio", "random"),
    } | given  # fmt: skip
    return LabOptions(**values)  # type: ignore[arg-type]


def runs(out: Path) -> tuple[Run, ...]:
    return Curves.model_validate_json((out / "lab.json").read_text()).runs


def test_a_lab_with_a_language_model(folder: Path, study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = lab(
        options(study, out, replies=(folder,), arms=("llm+portfolio", "heuristics+portfolio", "random"))
    )
    assert (
        "lab on recorded (NVIDIA H200, recorded 2026-11-30): 60 recorded kernels, 3 shapes, 16 builds" in said
    )
    assert "the best arm with a language model" in said and "sign test, p = " in said
    page = (out / "report.md").read_text()
    for part in (
        "## In short", "## Arms", "## Where the language model is behind", "## What the ideas expected",
        "60 from sampler", "by some-model: 3 replies, 3 ideas, 4 kernels of which 3 are recorded",
        "random is uniform over what earlier searches thought", "cutlass-tuner lab recorded --replies",
    ):  # fmt: skip
        assert part in page.replace("\n", " "), part
    if not curves.plots_missing():
        for picture in ("regret-builds", "regret-compile", "regret-device", "calibration"):
            assert f"({picture}.png)" in page
            assert (out / f"{picture}.png").stat().st_size > 10_000
    stored = json.loads((out / "lab.json").read_text())
    assert len(stored["runs"]) == 9 and len(stored["kernels"]) == made.KERNELS
    assert len(stored["runs"][0]["regret"]) == 17


def test_the_same_runs_whatever_the_number_of_processes(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "plots_missing", lambda: "no plots")
    found = []
    for jobs in (1, 2):
        lab(options(study, tmp_path, jobs=jobs, arms=("gp", "tpe"), builds=8, seeds=2))
        found.append(runs(tmp_path))
    assert found[0] == found[1]
    assert [(run.arm, run.seed) for run in found[0]] == [("tpe", 0), ("tpe", 1), ("gp", 0), ("gp", 1)]


def test_without_matplotlib_all_else_is_written(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "plots_missing", lambda: "no plots: matplotlib is not installed")
    said = lab(options(study, tmp_path, arms=("random",), seeds=1))
    assert "no plots: matplotlib is not installed" in said.splitlines()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.json", "report.md"]
    assert ".png" not in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"arms": ("magic",)}, "--arm magic: no such arm; there are llm\\+portfolio, "),
        ({"arms": ("llm+tpe",)}, "--arm llm\\+tpe needs replies .* --replies"),
        ({"replies": (Path("/nowhere"),)}, "--replies /nowhere: no such folder"),
    ],
)
def test_mistakes(given: dict[str, object], said: str, study: Study, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        lab(options(study, tmp_path, **given))


def test_an_arm_that_cannot_run_is_named(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "plots_missing", lambda: "no plots")
    monkeypatch.setattr("cutlass_tuner.propose.nvmmh.available", lambda device=None: "it is not installed")
    said = lab(options(study, tmp_path, arms=("random", "nvmmh+portfolio"), seeds=1))
    assert "note: no arm with nvMatmulHeuristics: it is not installed" in said
    with pytest.raises(UserError, match="no arm can run: no arm with nvMatmulHeuristics"):
        lab(options(study, tmp_path, arms=("nvmmh+portfolio",)))
