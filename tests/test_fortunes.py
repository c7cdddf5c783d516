"""The rules by which an idea wins on or has lost: of what its kernels gained, in the order of the journal."""

from __future__ import annotations

import math

import pytest

from cutlass_tuner.fortunes import GAIN, NO_SPACE, ROUND, Fortunes
from cutlass_tuner.ideas import Idea, Suggestion
from cutlass_tuner.records import KernelConfig, Proposal

P, Q, ELSEWHERE = "p", "q", "elsewhere"


def kernel(number: int) -> KernelConfig:
    return KernelConfig(family="f", knobs={"tile_m": number})


def idea(suggestions: int = 0, searches: bool = True) -> Idea:
    return Idea(
        id="i", hypothesis="h", bottleneck="dram", targets=(P, Q), expected=1.1, family="f",
        suggestions=tuple(Suggestion(kernel=kernel(number)) for number in range(suggestions)),
        narrowed={"tile_m": (1,)} if searches else {},
    )  # fmt: skip


class Played:
    """One idea `i`, after a first kernel of nobody's that is as fast as torch everywhere."""

    def __init__(self, stated: Idea, refused: tuple[str, ...] = ()) -> None:
        self.all = Fortunes()
        self.all.finished("first", {P: 0.0, Q: 0.0, ELSEWHERE: 0.0})
        self.all.adopt(stated, refused)
        self.next = 100

    def suggested(self, number: int, **log_ratio: float) -> None:
        self.all.asked(Proposal(kernel=kernel(number), source="llm", idea="i"))
        self.all.finished(kernel(number).key, log_ratio)

    def sampled(self, times: int = 1, **log_ratio: float) -> None:
        for _ in range(times):
            self.next += 1
            self.all.asked(Proposal(kernel=kernel(self.next), source="sampler", idea="i"))
            self.all.finished(kernel(self.next).key, log_ratio)

    @property
    def fate(self) -> str:
        return self.all.fate("i")


def test_suggestions_and_then_a_round_without_gain_lose() -> None:
    played = Played(idea(suggestions=2))
    played.suggested(0, p=0.1)
    played.suggested(1)  # failed
    played.sampled(ROUND - 1, p=0.0, q=0.01)
    assert played.fate == "searching"
    played.sampled(p=-0.9 * GAIN)  # a tie
    assert played.fate == "lost"


def test_without_suggestions_two_rounds_in_a_row_lose() -> None:
    played = Played(idea())
    played.sampled(2 * ROUND - 1, p=0.2)
    assert played.fate == "searching"
    played.sampled(elsewhere=-0.5)  # no target of its own
    assert played.fate == "lost"


@pytest.mark.parametrize("by", ["suggestion", "sampler"])
def test_a_gain_on_any_target_begins_anew(by: str) -> None:
    played = Played(idea(suggestions=1))
    if by == "suggestion":
        played.suggested(0, p=0.5, q=-1.1 * GAIN)
    else:
        played.suggested(0, p=0.5)
        played.sampled(ROUND - 1, p=0.5)
        played.sampled(p=0.5, q=-1.1 * GAIN)
    played.sampled(2 * ROUND - 1, p=0.5, q=0.0)
    assert played.fate == "searching"
    played.sampled(p=0.5)
    assert played.all.of["i"].lost
    assert played.fate == "done"  # it gained once: used up, not refuted


def test_a_gain_is_over_everybodys_best_at_the_time() -> None:
    played = Played(idea())
    played.all.asked(Proposal(kernel=kernel(1), source="sampler"))
    played.all.finished(kernel(1).key, {P: -0.3})
    played.sampled(2 * ROUND, p=-0.3)
    assert played.fate == "lost"
    assert played.all.best[P] == -0.3


def test_a_targets_first_time_is_a_gain_of_what_it_beats_torch_by() -> None:
    played = Played(idea())
    played.all.best.clear()
    played.sampled(p=0.4)
    assert (played.all.of["i"].gained, list(played.all.of["i"].recent)) == (True, [{P: 0.0}])
    played.sampled(q=-0.2)
    assert played.all.of["i"].recent[-1] == {Q: pytest.approx(0.2)}


def test_a_kernel_told_again_is_no_other_kernel() -> None:
    played = Played(idea())
    played.sampled(p=0.5)
    for _ in range(3 * ROUND):
        played.all.finished(kernel(played.next).key, {Q: -0.5})
    assert (played.all.of["i"].sampled, played.all.of["i"].gained, played.all.best[Q]) == (1, False, -0.5)


def test_what_the_machine_failed_on_counts_for_nothing() -> None:
    played = Played(idea())
    for number in range(3 * ROUND):
        played.all.asked(Proposal(kernel=kernel(number), source="sampler", idea="i"))
        played.all.withdrawn(kernel(number).key)
    assert (played.all.of["i"].asked, played.all.of["i"].in_flight, played.fate) == (0, 0, "waiting")
    played.all.withdrawn("first")
    played.sampled(2 * ROUND)  # while a kernel that cannot be built does count
    assert played.fate == "lost"


def test_fates() -> None:
    played = Played(idea(suggestions=2, searches=False))
    assert played.fate == "waiting"
    played.suggested(0, p=-0.1)
    assert played.fate == "waiting"  # for its other suggestion
    played.suggested(1, p=0.1)
    assert played.fate == "done"
    played = Played(idea(suggestions=1))
    assert (played.fate, played.all.fate("i", exhausted=True)) == ("waiting", "waiting")
    played.suggested(0, p=-0.1)
    assert (played.fate, played.all.fate("i", exhausted=True)) == ("searching", "done")
    played.all.drop(["i", "nobody's"])
    assert played.fate == "dropped"


def test_what_can_never_come_is_not_waited_for() -> None:
    refused = (kernel(1).key, NO_SPACE)
    played = Played(idea(suggestions=2), refused)
    played.suggested(0, p=math.log(2))
    assert played.fate == "done"


def test_a_suggestion_that_somebody_else_had_built_is_done_too() -> None:
    played = Played(idea(suggestions=1, searches=False))
    played.all.asked(Proposal(kernel=kernel(0), source="default"))
    played.all.finished(kernel(0).key, {P: 0.3})
    assert played.fate == "done"
