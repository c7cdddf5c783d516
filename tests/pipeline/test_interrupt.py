"""Ctrl-C: the run ends at once and cleanly, nothing stays behind, and the same command goes on."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from time import sleep

import pytest

from cutlass_tuner.events import KernelBuilt
from pipeline.harness import Workplace, alive, repeated, rows, until

INSTANTS = 5


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
def test_ctrl_c_in_mid_search(send: Callable[[int, int], None], place: Workplace) -> None:
    running = place.start(place.tuning("--builds 20"), STALLS_AFTER="3")
    until(lambda: len(place.lines("answered")) >= 10)
    # The first compilers that never end: a child and a compiler are there to be left behind.
    until(lambda: len(place.lines("pids")) >= 2)
    send(running.pid, signal.SIGINT)
    done = running.wait(10.0)
    assert (done.status, done.out) == (130, "")
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1] == "cutlass-tuner: stopped"
    assert "no finals were run; the same command goes on from here" in done.err
    assert [pid for pid in place.lines("pids") if alive(int(pid))] == []

    kept = place.events
    built = [e.build.kernel.key for e in kept if isinstance(e, KernelBuilt)]
    assert built
    shown = place.run("show s")
    assert shown.status == 0 and "no finals were run" in shown.out

    place.tune("--builds 20")
    assert place.events[: len(kept)] == kept
    assert repeated(place.events) == []
    assert len(rows(place.events)) == 3
    assert len([e for e in place.events if isinstance(e, KernelBuilt)]) == 20


def test_ctrl_c_at_any_instant_is_no_traceback(place: Workplace) -> None:
    rng = random.Random(1)
    for _ in range(INSTANTS):
        asked = len(place.lines("asked"))
        running = place.start(place.tuning("--builds 40"), CHILD_S="0.01")
        until(lambda asked=asked: len(place.lines("asked")) > asked)  # type: ignore[misc]
        sleep(rng.uniform(0.0, 0.4))
        os.kill(running.pid, signal.SIGINT)
        done = running.wait(10.0)
        assert done.status == 130, done.err
        assert "Traceback" not in done.err and done.err.endswith("cutlass-tuner: stopped\n")
        assert [pid for pid in place.lines("pids") if alive(int(pid))] == []
    place.tune("--builds 40")
    assert repeated(place.events) == []
