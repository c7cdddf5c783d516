"""`kill -9` of the tuner at random instants: what the child answered is counted against the store."""

from __future__ import annotations

import os
import random
import signal
from time import sleep

import pytest

from cutlass_tuner.events import KernelBuilt, Measured
from pipeline.child import stage
from pipeline.harness import Workplace, alive, repeated, rows, until

KILLS = 24
BUILDS = 40
LONGEST_S = 0.12
FINALS_KILLS = 4

Answer = tuple[str, str]
"""A problem and a config: one line of a contest's answer."""


def contests(lines: list[str]) -> list[list[Answer]]:
    """The child's own log: what it answered, contest by contest."""
    parts = [line.split("\t") for line in lines]
    return [[(problem, name) for name in names] for problem, _, *names in parts]


def lost(answered: list[list[Answer]], stored: list[Answer]) -> int:
    """How many contests of one run are not wholly stored: 0, or 1, which is then the last.

    Fails the test where anything else is missing, or is stored and was not answered.
    """
    said = [answer for contest in answered for answer in contest]
    assert stored == said[: len(stored)]
    missing = len(said) - len(stored)
    assert missing <= (len(answered[-1]) if answered else 0)
    return int(missing > 0)


def stored(place: Workplace) -> list[Answer]:
    """Measurements in the study, in order; it may not exist yet."""
    if not place.journal.with_name("study.json").exists():
        return []
    found = [event.measurement for event in place.events if isinstance(event, Measured)]
    return [(one.problem, f"{one.kernel.key}|{one.launch.key}") for one in found]


def killed(place: Workplace, delay_s: float, finals: bool) -> bool:
    """Run the tuner and kill it `delay_s` after its first answer (of the finals); False if it was done."""

    def begun() -> int:
        return len([line for line in place.lines("answered") if not finals or "\tscreen\t" not in line])

    before = begun()
    running = place.start(place.tuning(f"--builds {BUILDS}"), CHILD_S="0.01", BUILD_S="0.05")
    until(lambda: begun() > before or running.ended())
    sleep(delay_s)
    ended = running.ended()
    os.kill(running.pid, signal.SIGKILL)
    done = running.wait()
    assert done.status == (0 if ended else -signal.SIGKILL), done.err
    # Its child reads the end of the pipe and leaves; then its log is complete.
    until(lambda: not any(alive(int(pid)) for pid in place.lines("pids")))
    return not ended


def test_nothing_answered_is_lost_and_nothing_is_measured_twice(place: Workplace) -> None:
    """At most the contest whose answer was on its way when the kill came, at each kill."""
    rng = random.Random(0)
    kills, losses, torn = 0, 0, 0
    answered_before, stored_before = 0, 0
    while kills < KILLS:
        finals = kills >= KILLS - FINALS_KILLS
        if not killed(place, rng.uniform(0.0, 0.05 if finals else LONGEST_S), finals):
            break
        kills += 1
        torn += not place.journal.read_bytes().endswith(b"\n")
        answered, kept = contests(place.lines("answered")), stored(place)
        assert len(answered) > answered_before
        losses += lost(answered[answered_before:], kept[stored_before:])
        answered_before, stored_before = len(answered), len(kept)
        assert repeated(place.events) == []
    assert kills >= 20

    place.tune(f"--builds {BUILDS}")
    assert lost(contests(place.lines("answered"))[answered_before:], stored(place)[stored_before:]) == 0
    assert repeated(place.events) == []
    assert len({e.build.kernel.key for e in place.events if isinstance(e, KernelBuilt)}) == BUILDS
    assert all(event.row.winner for event in rows(place.events).values())
    assert len(rows(place.events)) == 3
    print(f"{answered_before} contests answered, {kills} kills, {losses} lost, {torn} torn lines")


def test_a_kill_in_the_final_keeps_the_semifinal(place: Workplace) -> None:
    running = place.start(place.tuning("--builds 2"), CHILD_HANGS_ON="final&k=")
    until(lambda: bool(place.asked()) and stage(place.asked()[-1]) == "final")
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    (hanging,) = (int(pid) for pid in place.lines("pids"))
    os.kill(hanging, signal.SIGKILL)
    assert "\tsemis\t" in place.lines("answered")[-1]
    assert lost(contests(place.lines("answered")), stored(place)) == 0


def test_the_count_tells_a_store_with_holes_from_one_without() -> None:
    a, b, c, d = ("p", "a"), ("p", "b"), ("p", "c"), ("q", "a")
    answered = [[a, b], [c], [d, a]]
    assert lost(answered, [a, b, c, d, a]) == 0
    assert lost(answered, [a, b, c, d]) == lost(answered, [a, b, c]) == 1
    assert lost([], []) == 0
    for holes in ([a, b], [a, c, d, a], [a, b, c, d, a, a]):
        with pytest.raises(AssertionError):
            lost(answered, holes)
