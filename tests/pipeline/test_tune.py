"""`tune` from shapes to winners, over a scripted child and builder: what is recorded, and who may win."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from cutlass_tuner.events import (
    BaselineMeasured,
    Event,
    KernelBuilt,
    KernelFailed,
    KernelTold,
    Measured,
    RunFailed,
)
from cutlass_tuner.records import KernelConfig
from cutlass_tuner.results import LT, LT_TUNED, TORCH
from pipeline.child import ALGORITHM, GIVEN_BYTES, TRIED_US
from pipeline.harness import CONTESTS, ENTRANTS, HERE, KEYS, Done, Server, Workplace, rows, screened

BUILDS = 20
SPLIT = "--builds 6 --fix scheduler=streamk"


@pytest.fixture(scope="module")
def tuned(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, Done]:
    place = Workplace(server, tmp_path_factory.mktemp("tuned"))
    return place, place.tune(f"--builds {BUILDS}")


@pytest.fixture(scope="module")
def best(tuned: tuple[Workplace, Done]) -> KernelConfig:
    """The kernel that wins on the first shape."""
    winner = rows(tuned[0].events)[KEYS[0]].row.winner
    assert winner is not None
    return winner.kernel


@pytest.fixture(scope="module")
def splitting(server: Server, tmp_path_factory: pytest.TempPathFactory) -> list[KernelConfig]:
    """The kernels that win where all may split K: they have many launches."""
    place = Workplace(server, tmp_path_factory.mktemp("split"))
    place.tune(SPLIT)
    return winners(place)


@pytest.fixture(scope="module")
def split(splitting: list[KernelConfig]) -> KernelConfig:
    """The one that wins on the first shape."""
    return splitting[0]


def winners(place: Workplace) -> list[KernelConfig]:
    """The winning kernel of every shape; fails the test where a shape has none."""
    found = []
    for key in KEYS:
        row = rows(place.events)[key].row
        assert row.winner is not None, f"{key}: {row.why}"
        found.append(row.winner.kernel)
    return found


def test_every_line_of_the_study_is_an_event(tuned: tuple[Workplace, Done]) -> None:
    parse: TypeAdapter[Event] = TypeAdapter(Event)
    lines = tuned[0].journal.read_bytes().splitlines()
    assert [parse.validate_json(line) for line in lines] == list(tuned[0].events)


def test_as_many_kernels_as_asked_for_each_once(tuned: tuple[Workplace, Done]) -> None:
    events = tuned[0].events
    built = [e.proposal.kernel.key for e in events if isinstance(e, KernelBuilt | KernelFailed)]
    assert len(built) == len(set(built)) == BUILDS
    told = Counter(e.kernel.key for e in events if isinstance(e, KernelTold))
    assert told == Counter(e.build.kernel.key for e in events if isinstance(e, KernelBuilt))
    assert {one.kernel.key for one in screened(events)} == set(told)


def test_every_shape_has_a_verified_winner_in_the_table(tuned: tuple[Workplace, Done]) -> None:
    place, done = tuned
    assert len(winners(place)) == len(KEYS)
    for event in rows(place.events).values():
        row = event.row
        assert row.winner is not None
        mine = [m for m in place.study.measurements(row.problem) if m.kernel == row.winner.kernel]
        final = mine[-CONTESTS:]
        assert all(m.verdict.passed for m in final)
        assert {m.evidence.repeat_mismatches for m in final} == {0}
        assert {m.evidence.after_timing_mismatches for m in final} == {0}
        shown = row.samples_us[row.entrants.index(row.winner.key)]
        assert shown == tuple(us for m in final for us in m.samples_us)
    for label in ("512x512x512", "1024x4096x1024", "16x4096x4096"):
        assert f"\n{label} tn" in done.out
    assert "3 of 3 shapes" in done.out


def test_a_row_has_every_baseline_the_problems_own_layout_first(tuned: tuple[Workplace, Done]) -> None:
    for event in rows(tuned[0].events).values():
        row = event.row
        assert row.winner is not None
        assert row.entrants == (*ENTRANTS, row.winner.key) and row.entrants[0] == TORCH
        assert len({len(samples) for samples in row.samples_us}) == 1


def test_baselines_are_recorded_with_all_that_makes_them_fair(tuned: tuple[Workplace, Done]) -> None:
    baselines = tuned[0].study.ledger.baselines
    for key in KEYS:
        for name in (TORCH, LT, LT_TUNED):
            result = baselines[key, name]
            assert result.layout == "tn" and result.failure is None and result.samples_us
            assert result.workspace_bytes == GIVEN_BYTES[name]
        tuned_lt = baselines[key, LT_TUNED]
        assert (tuned_lt.algorithm, tuned_lt.tried, tuned_lt.tried_us) == (ALGORITHM, 3, TRIED_US)
        for layout in ("tt", "nn", "nt"):
            assert baselines[key, f"torch@{layout}"].layout == layout


def test_what_the_child_is_asked_of_cublaslt(tuned: tuple[Workplace, Done]) -> None:
    place, _ = tuned
    requests = place.asked("tune_baseline")
    assert [r["problem"]["dims"]["m"] for r in requests] == [512, 1024, 16]
    assert all(r["limit"] == 100 and r["workspace_bytes"] >= 32 << 20 for r in requests)
    played = [e for r in place.asked() for e in r["entries"] if e["name"] == LT_TUNED]
    assert [e["algorithm"] for e in played] == [ALGORITHM] * 3 * CONTESTS
    assert all(r["entries"][0]["name"] == TORCH for r in place.asked())
    found = [e.result for e in place.events if isinstance(e, BaselineMeasured) and not e.result.samples_us]
    assert [(r.name, r.workspace_bytes) for r in found] == [(LT_TUNED, 32 << 20)] * 3


def test_a_kernel_that_lies_never_wins(best: KernelConfig, place: Workplace) -> None:
    place.tune(f"--builds {BUILDS}", CHILD_LIES_ON=best.key)
    seen = [m for m in screened(place.events) if m.kernel == best]
    assert seen and not any(m.verdict.passed for m in seen)
    assert best not in winners(place)
    told = [e for e in place.events if isinstance(e, KernelTold) and e.kernel == best]
    assert [e.log_ratio for e in told] == [{}]


def test_what_ran_otherwise_than_asked_is_no_measurement(best: KernelConfig, place: Workplace) -> None:
    place.tune(f"--builds {BUILDS}", CHILD_RUNS_OTHERWISE_ON=best.key)
    failed = [e for e in place.events if isinstance(e, RunFailed)]
    assert {e.kernel.key for e in failed} == {best.key}
    assert all(e.failure.stage == "plan" and "ran where" in e.failure.reason for e in failed)
    assert not [m for m in screened(place.events) if m.kernel == best]
    assert best not in winners(place)


@pytest.mark.parametrize("stage", ["semis", "final"])
def test_a_kernel_that_lies_only_in_the_finals_makes_room(
    stage: str, split: KernelConfig, place: Workplace
) -> None:
    place.tune(SPLIT, CHILD_LIES_ON=f"{split.key}&{stage}&{KEYS[0]}")
    assert winners(place)[0] != split
    wrong = [e for e in place.events if isinstance(e, Measured) and not e.measurement.verdict.passed]
    assert {e.measurement.kernel.key for e in wrong} == {split.key}
    finals = [r for r in place.asked() if r["check_after"] and r["problem"]["dims"]["n"] == 512]
    assert len([r for r in finals if any(split.key in e["name"] for e in r["entries"])]) <= 1 + CONTESTS


def test_a_kernel_that_hangs_is_recorded_and_condemned(split: KernelConfig, place: Workplace) -> None:
    place.tune(SPLIT, CHILD_HANGS_ON=split.key, ANSWER_S="1.0")
    lost = [e for e in place.events if isinstance(e, RunFailed)]
    assert {(e.kernel.key, e.failure.stage) for e in lost} == {(split.key, "worker")}
    assert len({e.problem for e in lost}) == 2
    assert "no answer within 1" in lost[0].failure.reason
    assert place.study.ledger.condemned == {split.key}
    assert split not in winners(place)
    # Its launches at once, then two alone; on the second problem one contest condemns it.
    hung = [r for r in place.asked() if any(split.key in e["name"] for e in r["entries"])]
    assert [len(r["entries"]) - 1 for r in hung][1:3] == [1, 1] and len(hung) == 4


def test_a_condemned_kernel_wins_nowhere_though_some_launches_were_right(
    splitting: list[KernelConfig], place: Workplace
) -> None:
    """It was right on the shape that is screened first, and is condemned on the next one."""
    best = splitting[1]
    place.tune(SPLIT, CHILD_DIES_ON=f"{best.key}&splits=4,")
    assert place.study.ledger.condemned == {best.key}
    assert any(m.kernel == best and m.verdict.passed for m in place.study.measurements(KEYS[1]))
    assert best not in winners(place)
    finals = [e["name"] for r in place.asked() if r["check_after"] for e in r["entries"]]
    assert not [name for name in finals if best.key in name]


@pytest.mark.parametrize(
    ("variable", "reason"),
    [("CHILD_DIES_ON", "died of SIGABRT"), ("CHILD_BREAKS_ON", "CUDA_ERROR_ILLEGAL_ADDRESS")],
)
def test_kernels_that_kill_the_child_are_condemned(variable: str, reason: str, place: Workplace) -> None:
    environment = {variable: "tile_n=64"}
    place.tune("--builds 12", **environment)
    lost = [e for e in place.events if isinstance(e, RunFailed)]
    assert {e.failure.stage for e in lost} == {"worker"}
    assert all(reason in e.failure.reason for e in lost)
    deadly = {
        e.build.kernel.key
        for e in place.events
        if isinstance(e, KernelBuilt) and e.build.kernel.knobs["tile_n"] == 64
    }
    assert deadly and place.study.ledger.condemned == deadly
    assert all(len({e.problem for e in lost if e.kernel.key == key}) == 2 for key in deadly)
    assert all(kernel.key not in deadly for kernel in winners(place))
    # Going on with this study asks nothing of them again.
    before = len(place.asked())
    place.tune("--builds 12", **environment)
    assert len(place.asked()) == before


def test_one_guilty_launch_leaves_the_others_their_times(split: KernelConfig, place: Workplace) -> None:
    place.tune(SPLIT, CHILD_DIES_ON=f"{split.key}&splits=4,&{KEYS[1]}")
    lost = [e for e in place.events if isinstance(e, RunFailed)]
    assert lost and all(e.launch and "splits=4," in e.launch.key for e in lost)
    assert {(e.kernel.key, e.problem) for e in lost} == {(split.key, KEYS[1])}
    others = [m for m in screened(place.events) if m.kernel == split and m.problem == KEYS[1]]
    assert others and all(m.verdict.passed for m in others)
    assert not place.study.ledger.condemned


def test_a_finalist_that_kills_the_child_is_found_and_replaced(split: KernelConfig, place: Workplace) -> None:
    place.tune(SPLIT, CHILD_DIES_ON=f"{split.key}&semis&{KEYS[0]}")
    lost = [e for e in place.events if isinstance(e, RunFailed)]
    assert {(e.kernel.key, e.problem) for e in lost} == {(split.key, KEYS[0])}
    assert winners(place)[0] != split


def test_a_shape_without_a_right_kernel_says_why(place: Workplace) -> None:
    done = place.tune("--builds 4", CHILD_LIES_ON=KEYS[2])
    row = rows(place.events)[KEYS[2]].row
    assert row.winner is None and "error is 7 times the bound" in row.why
    assert row.why in done.out
    assert all(rows(place.events)[key].row.winner for key in KEYS[:2])


def test_a_kernel_that_does_not_build_is_recorded(place: Workplace) -> None:
    done = place.tune("--builds 12", BUILD_FAILS_ON="tile_k=128")
    failed = [e for e in place.events if isinstance(e, KernelFailed)]
    built = [e for e in place.events if isinstance(e, KernelBuilt)]
    assert {e.proposal.kernel.knobs["tile_k"] for e in failed} == {128}
    assert {e.proposal.kernel.knobs["tile_k"] for e in built} == {64}
    assert {e.failure.reason for e in failed} == {"scripted to fail"}
    assert len(failed) + len(built) == 12
    assert f"{len(built)} kernels ({len(failed)} failed)" in done.err
    assert "tile_k=128" in place.run("show s").out


def test_progress_is_quiet_in_a_pipe_and_stdout_has_only_results(tuned: tuple[Workplace, Done]) -> None:
    done = tuned[1]
    assert done.out.startswith("shape ") and "\x1b" not in done.out + done.err
    lines = done.err.splitlines()
    assert lines[0].startswith("no language model is asked")
    assert lines[1] == f"search ended: builds used up: {BUILDS} of {BUILDS}"
    assert len(lines) == 3 and lines[2].startswith("tune hgemm, 3 shapes")


def test_a_process_of_its_own_does_the_same(tmp_path: Path, server: Server) -> None:
    """The forked tuners of the other tests are the real thing: so is this one, started as users start it."""
    place = Workplace(server, tmp_path / "own")
    done = subprocess.run(
        [sys.executable, str(HERE / "tuner.py"), *place.tuning("--builds 4").split()],
        cwd=place.folder,
        env={**os.environ, "CUTLASS_TUNER_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(winners(place)) == 3
    assert done.stdout.startswith("shape ")
