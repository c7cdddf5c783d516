"""Kernels that crash or hang cost one contest: a recorded Failure, and the next contest is sound."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable

import pytest

from cutlass_tuner.pipeline import bench as bench_module
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Failure, Problem

from .conftest import ROUNDS, SAMPLE_US
from .handmade import Handmade

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

DEADLINE_S = 5.0
LATE_S = 10.0
"""The kernel would end by itself only after 25 s: whoever is earlier was killed."""
KILLED_AFTER_S = 1.5


def failure(bench: Bench, problem: Problem, handmade: Handmade, name: str) -> Failure:
    result = bench.contest(
        problem,
        [bench.reference(problem), handmade.entry(name)],
        ROUNDS,
        sample_us=SAMPLE_US,
        check_after=True,
    )
    assert isinstance(result, Failure), result
    print(f"{result.stage}: {result.reason}", flush=True)
    return result


@pytest.mark.parametrize(
    ("name", "says"), [("illegal_access", "illegal"), ("trapping", "launch|instruction")]
)
def test_a_crash_is_a_failure_and_the_next_contest_works(
    *,
    bench: Bench,
    square: Problem,
    handmade: Handmade,
    still_works: Callable[[], None],
    name: str,
    says: str,
) -> None:
    still_works()
    restarts = bench._worker.restarts
    failed = failure(bench, square, handmade, name)
    assert failed.stage in ("launch", "worker")
    assert failed.stage == "worker" or re.search(says, failed.reason, re.IGNORECASE)
    still_works()
    assert bench._worker.restarts == restarts + 1


def test_a_hang_ends_at_the_deadline_and_the_next_contest_works(
    bench: Bench,
    square: Problem,
    handmade: Handmade,
    still_works: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    still_works()  # so that the child is up and the deadline is the kernel's alone
    restarts = bench._worker.restarts
    with monkeypatch.context() as patch:
        patch.setattr(bench_module, "ANSWER_S", DEADLINE_S)
        began = time.monotonic()
        failed = failure(bench, square, handmade, "endless")
        took_s = time.monotonic() - began
    assert failed.stage == "worker"
    assert "no answer within" in failed.reason
    assert DEADLINE_S <= took_s < DEADLINE_S + LATE_S
    still_works()
    assert bench._worker.restarts == restarts + 1


def test_a_child_killed_from_outside_is_a_failure_and_the_next_contest_works(
    bench: Bench, square: Problem, handmade: Handmade, still_works: Callable[[], None]
) -> None:
    still_works()
    pid = bench._worker.pid
    assert pid is not None
    killer = threading.Timer(KILLED_AFTER_S, os.kill, (pid, signal.SIGKILL))
    killer.start()
    failed = failure(bench, square, handmade, "endless")
    killer.join()
    assert failed.stage == "worker"
    assert "died of SIGKILL" in failed.reason
    still_works()
