"""Screening: launches that ideas suggest, contests that were disturbed, and the best measured once more.

The bench is real but for its contests, whose times are scripted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.events import Answered, Measured, RunFailed
from cutlass_tuner.ideas import Answer, Idea, Suggestion
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.pipeline.screening import REMEASURE_ROUNDS, REMEASURED, Screening
from cutlass_tuner.records import Build, Failure, KernelConfig, LaunchConfig, Problem
from cutlass_tuner.study import Study
from cutlass_tuner.wire import ContestResult, Entry, KernelEntry, Refused, Timed
from pipeline.recording import (
    EVIDENCE,
    LAUNCH,
    OP,
    PROBLEMS,
    READBACK,
    SPACE,
    built,
    kernels,
    log_ratio,
    measured,
    write,
)

PROBLEM = PROBLEMS[0]
HUNG = Failure(stage="worker", reason="no answer within 30 s: killed")
FAST, MIDDLE, SLOW, SLOWEST = sorted(kernels()[:4], key=lambda kernel: log_ratio(kernel, PROBLEM))


class Scripted(Bench):
    """`us` gives a kernel's time beside torch's 20 us, by its key, or a list of failures to come first."""

    def __init__(self, folder: Path) -> None:
        super().__init__(OP, "cold", 0, folder / "log")
        self.us: dict[str, float] = {}
        self.failing: dict[str, list[Failure]] = {}
        self.refusing: dict[str, Failure] = {}
        self.torch_us: list[tuple[float, ...]] = []
        self.torch_fails = False
        self.wrong = False
        self.contests: list[tuple[str, tuple[str, ...], int]] = []

    def contest(  # type: ignore[override]
        self, problem: Problem, entries: Sequence[Entry], rounds: int, **_: object
    ) -> ContestResult | Failure:
        ours = [entry for entry in entries if isinstance(entry, KernelEntry)]
        self.contests.append((problem.key, tuple(entry.name for entry in ours), rounds))
        if self.torch_fails and not ours:
            return HUNG
        for entry in ours:
            if waiting := self.failing.get(entry.name.split("|")[0]):
                return waiting.pop(0)
        reference = self.torch_us.pop(0) if self.torch_us else (20.0,) * rounds
        torch = Timed(name="torch", samples_us=reference, launches_per_sample=1, evidence=EVIDENCE)
        return ContestResult(entries=(torch, *(self._entry(entry, rounds) for entry in ours)))

    def _entry(self, entry: KernelEntry, rounds: int) -> Timed | Refused:
        kernel = entry.name.split("|")[0]
        if kernel in self.refusing:
            return Refused(name=entry.name, failure=self.refusing[kernel])
        knobs = dict(knob.split("=") for knob in kernel.split(":")[1].split(","))
        cluster = (int(knobs["cluster_m"]), int(knobs["cluster_n"]), 1)
        evidence = EVIDENCE.model_copy(update={"exact_mismatches": 5} if self.wrong else {})
        return Timed(
            name=entry.name,
            samples_us=(self.us[kernel],) * rounds,
            launches_per_sample=1,
            evidence=evidence,
            readback=READBACK.model_copy(update={"cluster": cluster, "stages": int(knobs["stages"])}),
        )


def build_of(kernel: KernelConfig) -> Build:
    return built(kernel, 0.0).build


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """FAST was screened on the first problem at 10 us, MIDDLE at 11, SLOW at 12, SLOWEST at 13."""
    header = write(tmp_path, [built(kernel, 0.0) for kernel in (FAST, MIDDLE, SLOW, SLOWEST)]).header
    with Study.open_or_create(tmp_path, header, PROBLEMS) as opened:
        for kernel, us in ((FAST, 10.0), (MIDDLE, 11.0), (SLOW, 12.0), (SLOWEST, 13.0)):
            opened.append(measured(kernel, PROBLEM, math.log(us / 20.0), 1.0))
        yield opened


@pytest.fixture
def bench(tmp_path: Path) -> Scripted:
    made = Scripted(tmp_path)
    made.us = {FAST.key: 10.0, MIDDLE.key: 11.0, SLOW.key: 12.0, SLOWEST.key: 13.0}
    return made


def again(
    screening: Screening, more: Callable[[], bool] = lambda: True
) -> dict[str, tuple[KernelConfig, float]]:
    """What is measured once more: who leads then, and at which time."""
    leaders = screening.remeasure(build_of, more)
    return {key: (best.measurement.kernel, 20.0 / best.speedup) for key, best in leaders.items()}


def longer(bench: Scripted) -> list[str]:
    """Kernels measured in more rounds."""
    return [names[0].split("|")[0] for _, names, rounds in bench.contests if names and rounds > 3]


# --- the best once more


def test_the_best_is_measured_again_and_only_once(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    bench.us[FAST.key] = 10.5
    assert again(screening) == {PROBLEM.key: (FAST, pytest.approx(10.5))}
    assert bench.contests == [(PROBLEM.key, (f"{FAST.key}|{LAUNCH.key}",), REMEASURE_ROUNDS)]
    assert screening.best[PROBLEM.key] == pytest.approx(math.log(10.5 / 20.0))
    assert screening.measured == 1
    again(screening)
    again(Screening(bench, SPACE, study))
    assert len(bench.contests) == 1


def test_who_leads_then_is_measured_again_as_well(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    bench.us[FAST.key] = 11.5
    assert again(screening) == {PROBLEM.key: (MIDDLE, pytest.approx(11.0))}
    assert longer(bench) == [FAST.key, MIDDLE.key]


def test_it_costs_three_contests_a_problem_at_most_and_what_was_measured_again_leads(
    study: Study, bench: Scripted
) -> None:
    screening = Screening(bench, SPACE, study)
    bench.us |= {FAST.key: 16.0, MIDDLE.key: 15.0, SLOW.key: 14.0}
    assert again(screening) == {PROBLEM.key: (SLOW, pytest.approx(14.0))}
    assert longer(bench) == [FAST.key, MIDDLE.key, SLOW.key] and len(longer(bench)) == REMEASURED
    assert again(screening) == {PROBLEM.key: (SLOWEST, pytest.approx(13.0))}


def test_nothing_is_measured_once_time_is_up(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    assert again(screening, lambda: False) == {PROBLEM.key: (FAST, pytest.approx(10.0))}
    assert not bench.contests


def test_one_failure_is_no_fault_of_a_kernel_that_ran_before(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    bench.failing[FAST.key] = [HUNG]
    assert again(screening) == {PROBLEM.key: (FAST, pytest.approx(10.0))}
    assert not study.ledger.run_failures and longer(bench) == [FAST.key, FAST.key]
    assert (PROBLEM.key, (), 1) in bench.contests  # torch alone was asked whether the GPU is well


def test_a_kernel_that_fails_twice_in_a_row_leads_no_more(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    bench.failing[FAST.key] = [HUNG, HUNG]
    assert again(screening) == {PROBLEM.key: (MIDDLE, pytest.approx(11.0))}
    (failed,) = study.ledger.run_failures
    assert (failed.kernel, failed.launch, failed.failure) == (FAST, LAUNCH, HUNG)
    assert [one.measurement.kernel for one in screening.contenders(PROBLEM)] == [MIDDLE, SLOW, SLOWEST]
    assert screening.best[PROBLEM.key] == pytest.approx(math.log(11.0 / 20.0))
    again(screening)
    assert longer(bench) == [FAST.key, FAST.key, MIDDLE.key]


def test_what_the_machine_did_that_day_is_held_against_nobody(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    bench.failing[FAST.key] = [HUNG.model_copy(update={"lasting": False})] * 2
    assert again(screening) == {PROBLEM.key: (MIDDLE, pytest.approx(11.0))}
    assert not study.ledger.run_failures and len(screening.contenders(PROBLEM)) == 4


def test_a_gpu_that_is_gone_is_no_fault_of_a_kernel(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    bench.failing[FAST.key], bench.torch_fails = [HUNG], True
    with pytest.raises(UserError, match=r"no longer runs torch\.matmul"):
        again(screening)
    assert not study.ledger.run_failures


def test_a_kernel_that_is_gone_from_the_cache_makes_room(study: Study, bench: Scripted) -> None:
    gone = Failure(stage="build", reason="the disk is full", lasting=False)
    screening = Screening(bench, SPACE, study)
    leaders = screening.remeasure(lambda k: gone if k == FAST else build_of(k), lambda: True)
    assert leaders[PROBLEM.key].measurement.kernel == MIDDLE
    assert longer(bench) == [MIDDLE.key] and not study.ledger.run_failures


def test_a_wrong_answer_takes_a_kernel_out(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    bench.wrong = True
    leaders = again(screening)
    assert leaders[PROBLEM.key][0] == SLOWEST
    assert [m.verdict.passed for m in study.measurements(PROBLEM.key)] == [True] * 4 + [False] * 3
    again(screening)
    assert PROBLEM.key not in screening.best and screening.geomean() is None


def test_a_recording_without_more_rounds_adds_nothing(study: Study, bench: Scripted) -> None:
    """It gives the same samples again, which are taken to be as good as it gets."""
    screening = Screening(bench, SPACE, study)

    def same(build: Build, launch: LaunchConfig, problem: Problem) -> object:
        return next(m for m in study.measurements(problem.key) if m.kernel == build.kernel)

    screening._longer = same  # type: ignore[method-assign,assignment]
    before, asked = study.events(), list[KernelConfig]()

    def ready(kernel: KernelConfig) -> Build:
        asked.append(kernel)
        return build_of(kernel)

    assert screening.remeasure(ready, lambda: True)[PROBLEM.key].measurement.kernel == FAST
    assert study.events() == before and screening.measured == 0 and asked == [FAST]


# --- suggested launches


def suggesting(
    kernel: KernelConfig, *launches: LaunchConfig, targets: Sequence[Problem] = PROBLEMS[:1]
) -> Idea:
    return Idea(
        id="one", hypothesis="", bottleneck="l2", targets=tuple(p.key for p in targets), expected=1.0,
        family="tma_ws", suggestions=(Suggestion(kernel=kernel, launches=launches),),
    )  # fmt: skip


def tried(bench: Scripted, problem: Problem = PROBLEM) -> list[str]:
    return [name.split("|")[1] for key, names, _ in bench.contests if key == problem.key for name in names]


def test_a_suggested_launch_is_tried_on_the_ideas_targets_alone(study: Study, bench: Scripted) -> None:
    screening = Screening(bench, SPACE, study)
    new = kernels()[7]
    bench.us[new.key] = 18.0
    odd = SPACE.launch(swizzle=8, raster="along_n")
    screening.screen(build_of(new), PROBLEMS[:2])
    plain = tried(bench)
    bench.contests.clear()
    other = kernels()[8]
    bench.us[other.key] = 18.0
    screening.suggest([suggesting(other, odd)])
    screening.screen(build_of(other), PROBLEMS[:2])
    wanted = SPACE.effective_launch(other, odd, PROBLEM, study.header.device).key
    assert wanted in tried(bench) and wanted not in plain
    assert len(tried(bench)) == len(set(tried(bench)))
    bench.contests.clear()
    third = kernels()[9]
    bench.us[third.key] = 18.0
    screening.suggest([suggesting(third, odd, targets=PROBLEMS[1:2])])
    screening.screen(build_of(third), PROBLEMS[:2])
    assert tried(bench) and wanted not in tried(bench)


def test_suggestions_of_earlier_runs_are_known(study: Study, bench: Scripted) -> None:
    other = kernels()[8]
    bench.us[other.key] = 18.0
    odd = SPACE.launch(swizzle=8, raster="along_n")
    idea = suggesting(other, odd)
    study.append(Answered(round=1, transport="t", answer=Answer(), ideas=(idea,), at_s=0.0))
    Screening(bench, SPACE, study).screen(build_of(other), PROBLEMS[:1])
    assert SPACE.effective_launch(other, odd, PROBLEM, study.header.device).key in tried(bench)


# --- disturbed contests


STALLED = (20.0, 20.0, 60.0)


def test_a_disturbed_contest_is_held_once_more(study: Study, bench: Scripted) -> None:
    other = kernels()[8]
    bench.us[other.key] = 19.0
    bench.torch_us = [STALLED]
    screening = Screening(bench, SPACE, study)
    outcome = screening.screen(build_of(other), PROBLEMS[:1])
    assert outcome == {PROBLEM.key: pytest.approx(math.log(19.0 / 20.0))}
    first, second = bench.contests
    assert first[:2] == second[:2] and (first[2], second[2]) == (3, 6)
    mine = [m for m in study.measurements(PROBLEM.key) if m.kernel == other]
    assert mine and all(m.reference_us != STALLED for m in mine)


def test_a_kernel_whose_contest_stays_disturbed_has_no_time_which_is_not_its_fault(
    study: Study, bench: Scripted
) -> None:
    """As in a recording, where none can be held again."""
    other = kernels()[8]
    bench.us[other.key] = 5.0
    bench.torch_us = [STALLED]
    bench._replay = SimpleNamespace(offered=lambda kernel, problem, launches: launches)  # type: ignore[assignment]
    screening = Screening(bench, SPACE, study)
    outcome = screening.screen(build_of(other), PROBLEMS[:1])
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.lasting) == ("torch's own times disagree", False)
    assert screening.best[PROBLEM.key] == pytest.approx(math.log(10.0 / 20.0))
    assert not [e for e in study.events() if isinstance(e, RunFailed)] and len(bench.contests) == 1
    assert [m for m in study.measurements(PROBLEM.key) if m.kernel == other]


def test_a_wrong_kernel_fails_for_good(study: Study, bench: Scripted) -> None:
    other = kernels()[8]
    bench.us[other.key], bench.wrong = 5.0, True
    outcome = Screening(bench, SPACE, study).screen(build_of(other), PROBLEMS[:1])
    assert isinstance(outcome, Failure) and outcome.lasting and outcome.stage == "verify"
    assert [e for e in study.events() if isinstance(e, Measured)]
