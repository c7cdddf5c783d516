"""A recorded device: ratios as recorded, of rounds as recorded, and no time that nobody measured."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cutlass_tuner.events import BaselineResult, FinalRow, RunFailed
from cutlass_tuner.measure.figures import Figures
from cutlass_tuner.measure.recorded import RecordedDevice
from cutlass_tuner.records import (
    Config,
    Contract,
    DeviceFacts,
    Evidence,
    Failure,
    KernelConfig,
    LaunchConfig,
    Measurement,
    Problem,
    Readback,
    Tolerance,
    Verdict,
)
from cutlass_tuner.results import CONTROL, LT, LT_TUNED, TORCH
from cutlass_tuner.wire import (
    BaselineEntry,
    Broken,
    Contest,
    ContestResult,
    Describe,
    Described,
    KernelEntry,
    Refused,
    Timed,
    TuneBaseline,
    TunedBaseline,
)

MISSED = "not recorded in R"
PROBLEM, OTHER = (
    Problem(
        op="hgemm",
        dims={"m": m, "n": 64, "k": 64, "batch": 1},
        layout="tn",
        contract=Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32"),
    )
    for m in (64, 128)
)
DESCRIBED = Described(
    device=DeviceFacts(
        name="NVIDIA H200", arch="sm_90a", sm_count=132, memory_bytes=1, l2_bytes=1, smem_per_block_bytes=1,
        driver="580", clock_mhz=1980,
    ),
    cublas="13.1", torch="2.11", cuda_python="",
)  # fmt: skip
LAUNCH, SPLIT = LaunchConfig(knobs={"splits": 1}), LaunchConfig(knobs={"splits": 2})
RIGHT = Evidence(
    elements=4096, unwritten=0, nonfinite=0, guard_touched=0, error_over_bound=0.9, max_abs_error=0.01,
    exact_mismatches=0,
)  # fmt: skip
PLAYED = RIGHT.model_copy(update={"repeat_mismatches": 0, "after_timing_mismatches": 0})
WRONG = RIGHT.model_copy(update={"error_over_bound": 7.0})
TORCH_EVIDENCE = PLAYED.model_copy(update={"max_abs_error": 0.5})


def kernel(tile: int) -> KernelConfig:
    return KernelConfig(family="tma_ws", knobs={"tile_m": tile})


def name(tile: int, launch: LaunchConfig = LAUNCH) -> str:
    return Config(kernel=kernel(tile), launch=launch).key


def measured(
    tile: int,
    ratios: Sequence[float],
    torch_us: float = 10.0,
    *,
    launch: LaunchConfig = LAUNCH,
    evidence: Evidence = RIGHT,
    reference: str = TORCH,
) -> Measurement:
    return Measurement(
        kernel=kernel(tile),
        launch=launch,
        problem=PROBLEM.key,
        reference=reference,
        samples_us=tuple(torch_us * ratio for ratio in ratios),
        reference_us=tuple(torch_us for _ in ratios),
        launches_per_sample=17,
        l2="cold",
        readback=Readback(
            grid=(1, 1, 1), cluster=(1, 1, 1), threads=384, smem_bytes=1, stages=4, workspace_bytes=tile,
            zeroed_bytes=0,
        ),
        evidence=evidence,
        verdict=Verdict(passed=evidence.error_over_bound <= 1, reasons=()),
    )  # fmt: skip


def final(**ratios: Sequence[float]) -> FinalRow:
    """A final in which torch took 20 us; `tile_N` is a kernel."""
    named = {name(int(who.removeprefix("tile_"))) if "tile_" in who else who: r for who, r in ratios.items()}
    rounds = len(next(iter(named.values())))
    return FinalRow(
        problem=PROBLEM.key,
        l2="cold",
        entrants=(TORCH, *named),
        samples_us=((20.0,) * rounds, *(tuple(20.0 * ratio for ratio in r) for r in named.values())),
        winner=None,
        why="",
    )


def baseline(which: str, **found: object) -> BaselineResult:
    base = BaselineResult(
        name=which, problem=PROBLEM.key, layout="tn", samples_us=(1.0,), workspace_bytes=33, evidence=PLAYED
    )
    return base.model_copy(update=found)


def failed(tile: int, launch: LaunchConfig | None, reason: str) -> RunFailed:
    failure = Failure(stage="worker", reason=reason)
    return RunFailed(kernel=kernel(tile), launch=launch, problem=PROBLEM.key, failure=failure, at_s=1.0)


def device(*measurements: Measurement, **others: object) -> RecordedDevice:
    return RecordedDevice(DESCRIBED, Figures.of(measurements, **others), MISSED)  # type: ignore[arg-type]


def contest(
    *tiles: int,
    rounds: int = 3,
    stop_above: float = 0.0,
    final: bool = False,
    launch: LaunchConfig = LAUNCH,
    theirs: Sequence[str] = (TORCH,),
    problem: Problem = PROBLEM,
) -> Contest:
    ours = [
        KernelEntry(
            name=name(tile, launch), cubin="", host_library="", index=0, symbol="", launch=launch,
            launch_codes=(), deterministic=True,
        )
        for tile in tiles
    ]  # fmt: skip
    return Contest(
        workload="gemm",
        problem=problem,
        entries=(*(BaselineEntry(name=one, layout="tn") for one in theirs), *ours),
        tolerance=Tolerance(output_roundoff=1, tiny=1, accumulator_roundoff=1, spread=1),
        l2="cold",
        rounds=rounds,
        sample_us=200.0,
        stop_above=stop_above,
        check_after=final,
    )


def entries(asked: RecordedDevice, request: Contest) -> list[Timed | Refused]:
    reply = asked.ask(request, 1.0)
    assert isinstance(reply, ContestResult), reply
    assert [entry.name for entry in reply.entries] == [entry.name for entry in request.entries]
    return list(reply.entries)


def ratios(asked: RecordedDevice, request: Contest) -> list[list[float]]:
    """Of every entry but the reference, to the reference of the same round."""
    reference, *others = entries(asked, request)
    assert isinstance(reference, Timed)
    found = []
    for one in others:
        assert isinstance(one, Timed), one
        found.append([us / theirs for us, theirs in zip(one.samples_us, reference.samples_us, strict=False)])
    return found


def reason(entry: Timed | Refused) -> str:
    assert isinstance(entry, Refused)
    return entry.failure.reason


def test_it_describes_the_recorded_device_and_is_there_from_the_start() -> None:
    asked = device()
    assert asked.pid is not None
    assert asked.ask(Describe(), 1.0) == DESCRIBED
    asked.close()


def test_what_is_replayed_is_the_ratio_to_torch_of_the_same_rounds() -> None:
    """The card was slower when the second kernel was measured: times do not compare then, ratios do."""
    asked = device(measured(64, [0.5, 0.6, 0.7], 10.0), measured(128, [0.9, 0.8, 0.7], 30.0))
    found = ratios(asked, contest(64, 128))
    assert found == [pytest.approx([0.5, 0.6, 0.7]), pytest.approx([0.9, 0.8, 0.7])]
    reference = entries(asked, contest(64))[0]
    assert isinstance(reference, Timed) and reference.samples_us == (20.0,) * 3  # of 10 and 30, three each


def test_the_rest_of_a_measurement_is_as_recorded() -> None:
    _, ours = entries(device(measured(64, [0.5])), contest(64))
    assert isinstance(ours, Timed) and ours.readback is not None
    assert (ours.evidence, ours.launches_per_sample, ours.workspace_bytes) == (RIGHT, 17, 64)
    assert ours.readback.workspace_bytes == 64


def test_there_are_no_more_rounds_than_recorded_and_no_more_than_asked_for() -> None:
    asked = device(measured(64, [0.5, 0.6, 0.7, 0.8]), measured(128, [0.9]))
    assert [len(r) for r in ratios(asked, contest(64, 128, rounds=3))] == [3, 1]
    assert [len(r) for r in ratios(asked, contest(64, rounds=9))] == [4]


def test_what_is_not_recorded_is_refused_beside_what_is() -> None:
    asked = device(measured(64, [0.5]))
    _, missed, timed = entries(asked, contest(256, 64))
    assert reason(missed) == MISSED and isinstance(timed, Timed)
    assert reason(entries(asked, contest(64, launch=SPLIT))[1]) == MISSED


def test_a_problem_that_is_not_recorded_fails_as_a_whole() -> None:
    reply = device(measured(64, [0.5])).ask(contest(64, problem=OTHER), 1.0)
    assert isinstance(reply, Failure) and reply.reason == f"128x64x64 is {MISSED}"


def test_measurements_beside_another_reference_are_left_out() -> None:
    reply = device(measured(64, [0.5], reference=LT)).ask(contest(64), 1.0)
    assert isinstance(reply, Failure)


def test_an_entry_that_starts_too_slow_is_dropped_after_its_first_round() -> None:
    asked = device(measured(64, [1.36, 1.0, 1.0]), measured(128, [1.34, 2.0, 2.0]))
    assert [len(r) for r in ratios(asked, contest(64, 128, stop_above=1.35))] == [1, 3]
    assert [len(r) for r in ratios(asked, contest(64, 128))] == [3, 3]


def test_the_longest_measurement_stands_for_a_config_then_the_latest() -> None:
    one, two, three = measured(64, [0.5]), measured(64, [0.6, 0.6]), measured(64, [0.7, 0.7])
    assert ratios(device(one, three, two), contest(64)) == [pytest.approx([0.6, 0.6])]
    assert ratios(device(two, three, one), contest(64)) == [pytest.approx([0.7, 0.7])]


def test_a_wrong_answer_outweighs_every_right_one() -> None:
    wrong, right = measured(64, [0.5], evidence=WRONG), measured(64, [0.6, 0.6])
    for order in ([wrong, right], [right, wrong]):
        _, ours = entries(device(*order), contest(64))
        assert isinstance(ours, Timed) and ours.evidence == WRONG


def test_a_search_and_finals_are_replayed_from_their_own_figures() -> None:
    asked = device(
        measured(64, [0.5, 0.5]), measured(64, [0.8] * 9, 20.0, evidence=PLAYED), measured(128, [0.6, 0.6])
    )
    assert ratios(asked, contest(64, 128)) == [pytest.approx([0.5] * 2), pytest.approx([0.6] * 2)]
    assert ratios(asked, contest(64, rounds=9, final=True)) == [pytest.approx([0.8] * 9)]
    # The second kernel was in no final: both then have what the search said.
    beside = ratios(asked, contest(64, 128, rounds=9, final=True))
    assert beside == [pytest.approx([0.5] * 2), pytest.approx([0.6] * 2)]


def test_finalists_meet_in_every_round() -> None:
    asked = device(measured(64, [0.5, 0.6, 0.7]), measured(128, [0.9]))
    assert [len(r) for r in ratios(asked, contest(64, 128, final=True))] == [1, 1]
    refused, *others = reversed(entries(asked, contest(64, 128, 256, final=True)))
    assert reason(refused) == MISSED
    assert {len(one.samples_us) for one in others if isinstance(one, Timed)} == {1}


def test_what_failed_fails_again_with_its_reason() -> None:
    asked = device(
        measured(64, [0.5]),
        measured(64, [0.5], launch=SPLIT),
        failures=[failed(64, SPLIT, "hung"), failed(128, None, "no smem")],
    )
    assert isinstance(entries(asked, contest(64))[1], Timed)
    assert reason(entries(asked, contest(64, launch=SPLIT))[1]) == "hung"
    assert reason(entries(asked, contest(128))[1]) == "no smem"
    assert reason(entries(asked, contest(128, launch=SPLIT))[1]) == "no smem"


def test_launches_that_are_recorded_are_offered_or_one_that_misses() -> None:
    asked = device(measured(64, [0.5], launch=SPLIT), failures=[failed(128, LAUNCH, "hung")])
    both = [LAUNCH, SPLIT]
    assert asked.offered(kernel(64), PROBLEM, both) == [SPLIT]
    assert asked.offered(kernel(128), PROBLEM, both) == [LAUNCH]
    assert asked.offered(kernel(256), PROBLEM, both) == [LAUNCH]
    assert asked.offered(kernel(64), OTHER, both) == [LAUNCH]
    assert asked.offered(kernel(64), PROBLEM, []) == []


# --- baselines


def played(**others: object) -> RecordedDevice:
    return device(
        measured(64, [0.5, 0.5], 10.0),
        finals=[final(**{CONTROL: [1.01, 0.99], LT: [1.1, 1.2], "tile_64": [0.7, 0.8]})],
        baselines=[baseline(TORCH, evidence=TORCH_EVIDENCE), baseline(CONTROL), baseline(LT)],
        **others,
    )


def test_baselines_keep_their_ratio_to_torch_in_the_final() -> None:
    theirs = (TORCH, CONTROL, LT)
    found = ratios(played(), contest(theirs=theirs, final=True))
    assert found == [pytest.approx([1.01, 0.99]), pytest.approx([1.1, 1.2])]
    torch, _, lt = entries(played(), contest(theirs=theirs, final=True))
    assert isinstance(torch, Timed) and isinstance(lt, Timed)
    assert torch.samples_us == (10.0, 10.0)
    assert (torch.evidence, lt.evidence) == (TORCH_EVIDENCE, PLAYED)
    assert (lt.workspace_bytes, lt.launches_per_sample) == (33, 17)


def test_baselines_without_a_final_are_refused_and_torch_is_taken_to_be_right() -> None:
    torch, lt, ours = entries(device(measured(64, [0.5])), contest(64, theirs=(TORCH, LT), final=True))
    assert isinstance(torch, Timed) and isinstance(ours, Timed)
    assert torch.evidence.elements == RIGHT.elements and torch.evidence.error_over_bound == 0.0
    assert reason(lt) == MISSED


def test_a_baseline_that_failed_says_what_it_said() -> None:
    why = Failure(stage="load", reason="offers no algorithm")
    asked = device(measured(64, [0.5]), baselines=[baseline(LT, evidence=None, failure=why)])
    assert reason(entries(asked, contest(theirs=(TORCH, LT)))[1]) == "offers no algorithm"


def test_a_final_of_several_contests_stands_for_its_winner() -> None:
    """Three contests of two rounds are three measurements; the row of the final has all six rounds."""
    six = [0.70, 0.71, 0.72, 0.73, 0.74, 0.75]
    contests = [measured(64, six[i : i + 2], 20.0, evidence=PLAYED) for i in (0, 2, 4)]
    semifinal = measured(64, [0.6] * 4, 20.0, evidence=PLAYED)
    row = final(tile_64=six)
    found = ratios(device(semifinal, *contests, finals=[row]), contest(64, rounds=9, final=True))
    assert found == [pytest.approx(six)]
    lied = WRONG.model_copy(update={"after_timing_mismatches": 1})
    wrong = device(measured(64, [0.7], 20.0, evidence=lied), *contests, finals=[row])
    _, ours = entries(wrong, contest(64, final=True))
    assert isinstance(ours, Timed) and ours.evidence == lied


def test_cublaslts_best_algorithm_is_the_recorded_one() -> None:
    request = TuneBaseline(
        workload="gemm", problem=PROBLEM, tolerance=contest().tolerance, l2="cold", limit=100
    )
    known = baseline(LT_TUNED, algorithm="ab", tried=3, tried_us=(3.0, 2.0, 2.5), rejected=2)
    reply = device(measured(64, [0.5]), baselines=[known]).ask(request, 1.0)
    assert reply == TunedBaseline(algorithm="ab", tried_us=(3.0, 2.0, 2.5), workspace_bytes=33, rejected=2)
    unknown = device(measured(64, [0.5])).ask(request, 1.0)
    assert isinstance(unknown, Broken) and not unknown.fatal and unknown.failure.reason == MISSED
    why = Failure(stage="load", reason="offers no algorithm")
    refused = device(baselines=[baseline(LT_TUNED, failure=why)]).ask(request, 1.0)
    assert isinstance(refused, Broken) and refused.failure == why


def test_torch_is_not_dropped_where_a_kernel_is_much_faster() -> None:
    """A limit below torch's own time drops kernels alone: a kernel's samples are paired with torch's."""
    answer = device(measured(64, (0.5, 0.5, 0.5)), measured(128, (0.9, 0.9, 0.9))).ask(
        contest(64, 128, stop_above=0.7), 1.0
    )
    assert isinstance(answer, ContestResult)
    assert [len(one.samples_us) for one in answer.entries if isinstance(one, Timed)] == [3, 3, 1]
