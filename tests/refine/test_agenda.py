"""Whose turn it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cutlass_tuner.fortunes import ROUND
from cutlass_tuner.ideas import Idea
from cutlass_tuner.records import KernelConfig, Proposal
from cutlass_tuner.refine.agenda import FLOOR, Agenda
from cutlass_tuner.refine.focus import Focus
from refine.stating import idea

COUNTS = {"p": 1, "q": 3}
FRESH = np.ones(4, dtype=np.bool_)


class Diary:
    """An agenda of ideas over a pool of four rows, and the sampler's kernels as they are asked for."""

    def __init__(self, *ideas: Idea, rows: tuple[bool, ...] = (True, True, False, False)) -> None:
        self.agenda, self.number = Agenda(COUNTS), 0
        self.agenda.finished("first", {"p": 0.0, "q": 0.0})
        for one in ideas:
            problems = np.array([key in one.targets for key in COUNTS])
            self.agenda.adopt(one, Focus(one.id, np.array(rows), problems), ())

    def turn(self) -> str:
        """The idea that is given the next batch, "" for the whole space."""
        space = self.agenda.turn(FRESH)
        return space.idea if space else ""

    def asked(self, name: str, times: int = ROUND) -> list[str]:
        keys = []
        for _ in range(times):
            self.number += 1
            kernel = KernelConfig(family="f", knobs={"tile_m": self.number})
            self.agenda.asked(Proposal(kernel=kernel, source="sampler", idea=name))
            keys.append(kernel.key)
        return keys

    def batch(self, name: str, times: int = ROUND, **log_ratio: float) -> None:
        for key in self.asked(name, times):
            self.agenda.finished(key, log_ratio)

    def turns(self, times: int, **log_ratio: float) -> list[str]:
        given = []
        for _ in range(times):
            given.append(self.turn())
            self.batch(given[-1], **log_ratio)
        return given


def test_ideas_and_the_whole_space_take_turns() -> None:
    diary = Diary(idea("a", "q", tile_m=(1,)))
    given = []
    for number in range(6):
        given.append(diary.turn())
        diary.batch(given[-1], q=-0.1 * number)
    assert given == ["a", "", "a", "", "a", ""]


def test_without_a_space_to_search_it_is_nobodys_turn() -> None:
    assert Diary().turns(2) == ["", ""]
    assert Diary(idea("a", "q")).turns(2) == ["", ""]


def test_seeds_take_no_turn() -> None:
    diary = Diary(idea("a", "q", tile_m=(1,)))
    diary.batch("a", q=-0.1)
    seed = KernelConfig(family="f", knobs={"tile_m": 0})
    diary.agenda.asked(Proposal(kernel=seed, source="textbook"))
    assert diary.turn() == ""
    diary.batch("", times=1)
    diary.agenda.asked(Proposal(kernel=seed, source="llm", idea="a"))
    assert diary.turn() == "a"


def test_the_most_promising_comes_first_and_then_those_that_got_least() -> None:
    diary = Diary(
        idea("light", "p", expected=1.2, tile_m=(1,)),
        idea("heavy", "q", expected=1.2, tile_m=(1,)),
        idea("bold", "p", expected=2.0, tile_m=(1,)),
    )
    assert [name for name in diary.turns(6) if name] == ["bold", "heavy", "bold"]  # of 2 : 1.6 : 0.6


def test_a_promise_is_what_is_left_of_it_and_weighted() -> None:
    stated = idea("a", "pq", expected=1.5, tile_m=(1,))
    agenda = Diary(stated).agenda
    left = math.log(1.5)
    assert agenda.promise(stated) == pytest.approx(left + FLOOR)
    agenda.finished("second", {"p": -left / 2})
    assert agenda.promise(stated) == pytest.approx(0.25 * left / 2 + 0.75 * left + FLOOR)
    agenda.finished("third", {"q": -2 * left})
    assert agenda.promise(stated) == pytest.approx(0.25 * left / 2 + FLOOR)
    assert agenda.promise(idea("b", ["gone"])) == 0.0


def test_what_an_idea_gained_lately_speaks_for_it() -> None:
    one, other = (idea(name, "q", expected=1.01, tile_m=(1,)) for name in ("one", "other"))
    diary = Diary(one, other)
    diary.batch("one", q=-0.2)
    diary.batch("other", q=-0.2)
    assert diary.agenda.due("one") == pytest.approx((0.75 * (FLOOR + 0.2)) / 2)
    assert diary.agenda.due("other") == pytest.approx((0.75 * FLOOR) / 2)
    diary.batch("", times=1)
    assert diary.turn() == "one"
    diary.batch("one", q=0.0)
    assert diary.agenda.due("one") == pytest.approx((0.75 * FLOOR) / 3)


def test_an_idea_that_lost_twice_gets_no_more() -> None:
    diary = Diary(idea("a", "q", tile_m=(1,)), idea("b", "p", tile_m=(1,)))
    given = diary.turns(12, p=0.1, q=0.1)
    assert (given.count("a"), given.count("b"), given[-3:]) == (2, 2, ["", "", ""])
    assert (diary.agenda.fate("a", FRESH), diary.agenda.fate("b", FRESH)) == ("lost", "lost")


def test_no_more_is_in_flight_than_could_lose_it() -> None:
    diary = Diary(idea("a", "q", tile_m=(1,)))
    pending = []
    for turn in ("a", "", "a", "", "", ""):
        assert diary.turn() == turn
        pending += [(turn, key) for key in diary.asked(turn)]
    gaining = next(key for turn, key in pending if turn == "a")
    diary.agenda.finished(gaining, {"q": -0.1})
    assert diary.turn() == "a"


def test_a_dropped_idea_is_closed() -> None:
    diary = Diary(idea("a", "q", tile_m=(1,)))
    diary.agenda.drop(["a"])
    assert (diary.turn(), diary.agenda.fate("a", FRESH)) == ("", "dropped")


def test_without_a_fresh_row_an_idea_is_exhausted() -> None:
    diary = Diary(idea("a", "q", tile_m=(1,)))
    diary.batch("a", times=1, q=-0.1)
    diary.batch("", times=1)
    left = np.array([False, True, True, True])
    taken = np.array([False, False, True, True])
    assert (diary.agenda.turn(left) is None, diary.agenda.turn(taken) is None) == (False, True)
    assert (diary.agenda.fate("a", left), diary.agenda.fate("a", taken)) == ("searching", "done")


def test_a_batch_is_completed_for_the_first_idea_with_siblings() -> None:
    diary = Diary(idea("none", "q"), idea("a", "q", tile_m=(1,)), idea("b", "q", tile_m=(1,)))
    inside, outside = FRESH, np.array([False, False, True, True])
    chosen = diary.agenda.completing(["", "none", "a", "b"], inside)
    assert chosen is not None and chosen.idea == "a"
    assert diary.agenda.completing(["a", "b"], outside) is None
    diary.agenda.drop(["a"])
    chosen = diary.agenda.completing(["a", "b"], inside)
    assert chosen is not None and chosen.idea == "b"
