"""What a contest does with entries, where no GPU is needed for it: a replay is a list of calls here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from cutlass_tuner.device import contest
from cutlass_tuner.device.attention import Attention
from cutlass_tuner.device.contest import Arena, Contestant
from cutlass_tuner.device.entrants import BaselineEntrant, entrant
from cutlass_tuner.device.workload import BaselineRefused, Binding
from cutlass_tuner.records import Tolerance
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.wire import BaselineEntry, Contest, LibraryEntry, TuneBaseline

from .flash_model import Flash
from .problems import workload

DIMS = (1, 2, 2, 33, 65, 32, 0)


@dataclass
class Calls:
    """Stands in for a CUDA graph of launches."""

    enqueues: list[Callable[[], object]]
    launches: int

    def replay(self) -> None:
        for launch in range(self.launches):
            self.enqueues[launch % len(self.enqueues)]()


@pytest.fixture
def arena(monkeypatch: pytest.MonkeyPatch) -> Arena:
    """Without stream, card and device."""

    def captured(_entry: object, bindings: list[Binding], launches: int, _workload: object) -> Calls:
        return Calls([binding.enqueue for binding in bindings], launches)

    class Stream:
        cuda_stream = 0

    made: Arena = object.__new__(Arena)
    made.stream = Stream()
    made._prepared, made._baselines = {}, {}
    monkeypatch.setattr(contest, "_captured", captured)
    return made


def checked(arena: Arena, asked: Attention, name: str = "torch") -> Contestant:
    entry = BaselineEntry(name=name, layout=asked.shape.layout)
    return arena._check(entry, asked, asked.rotation.launches(1.0), repeat=False)


def test_a_baseline_is_checked_before_and_after_timing(arena: Arena) -> None:
    asked = workload(DIMS, element="bf16", cold=True)
    assert len(asked.sets) > 2
    contestant = checked(arena, asked)
    before = contestant.evidence
    assert before.after_timing_mismatches is None
    assert before.elements == asked.sets[0].o.numel()
    assert (before.unwritten, before.nonfinite) == (0, 0)
    after = arena._checked_again(contestant)
    assert after.after_timing_mismatches == 0
    assert judge(after.model_copy(update={"exact_mismatches": 0}), deterministic=False).passed


def test_what_the_timed_launches_leave_is_what_is_checked(arena: Arena) -> None:
    """Of the first and of the last set: an output that only the checks before wrote does not count."""
    asked = workload(DIMS, element="bf16", cold=True)
    contestant = checked(arena, asked)
    last, elements = len(asked.sets) - 1, asked.sets[0].o.numel()

    def nothing() -> None:
        pass

    for index in (0, last):
        silent = [*contestant.bindings]
        silent[index] = Binding(nothing)
        told = Contestant(
            contestant.entrant, contestant.evidence, silent, Calls([b.enqueue for b in silent], last + 1)
        )
        assert arena._checked_again(told).after_timing_mismatches == elements


def test_a_kernel_owes_every_output(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = workload(DIMS)

    class Kernel(BaselineEntrant):
        every_output, deterministic = True, True

        def __init__(self) -> None:
            self.name, self.workload = "kernel", asked

        def bind(self, sets: list, scalar: float) -> list[Binding]:  # type: ignore[type-arg]
            return [Binding(lambda set_=set_: Flash().run(asked.shape, set_, scalar)) for set_ in sets]

    monkeypatch.setattr(contest, "entrant", lambda *_: Kernel())
    contestant = arena._check(BaselineEntry(name="kernel", layout="bshd"), asked, 1, repeat=True)
    assert contestant.evidence.elements == asked.sets[0].o.numel() + asked.sets[0].lse.numel()
    assert judge(arena._checked_again(contestant), deterministic=True).passed


def test_an_entry_that_refuses_costs_itself_alone(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = workload((1, 2, 2, 33, 65, 32, 1))
    monkeypatch.setattr(arena, "_problem", lambda *_: asked)
    request = request_of(asked)
    outcome = arena._enter(request, BaselineEntry(name="cudnn", layout="bshd"))
    assert (outcome.name, outcome.failure.stage) == ("cudnn", "plan")
    assert "bottom-right" in outcome.failure.reason
    outcome = arena._enter(request, LibraryEntry(name="header", path="tuned.so"))
    assert (outcome.failure.stage, "tuned.so" in outcome.failure.reason) == ("load", True)
    with pytest.raises(BaselineRefused):
        entrant(BaselineEntry(name="cudnn", layout="bshd"), asked, 0)


def test_only_matrix_products_are_tuned(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = workload(DIMS)
    monkeypatch.setattr(arena, "_problem", lambda *_: asked)
    request = TuneBaseline(
        workload="attention", problem=asked.problem, tolerance=asked._tolerance, l2="warm", limit=1
    )
    with pytest.raises(contest.ReferenceFailed, match="cuBLASLt"):
        arena._tune_baseline(request)


def test_a_tolerance_of_an_earlier_version_is_read() -> None:
    old = '{"output_roundoff": 1, "tiny": 2, "accumulator_roundoff": 3, "spread": 4}'
    assert Tolerance.model_validate_json(old).probability_spread == 0.0


def request_of(asked: Attention) -> Contest:
    return Contest(
        workload="attention",
        problem=asked.problem,
        entries=(),
        tolerance=asked._tolerance,
        l2="warm",
        rounds=1,
        sample_us=1.0,
    )
