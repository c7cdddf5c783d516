"""Every way a child can fail becomes one recorded Failure, and the next request is served."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cutlass_tuner.measure import worker as worker_module
from cutlass_tuner.measure.worker import Worker
from cutlass_tuner.records import Contract, Failure, Problem, Tolerance
from cutlass_tuner.wire import BaselineEntry, Broken, Contest, ContestResult, Describe, Described

CHILD = Path(__file__).parent / "children" / "child.py"

Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts workers that misbehave once, and afterwards checks that nothing of them is left."""
    workers: list[Worker] = []

    def make(mode: str, *, once: bool = True, start_s: float = 10.0) -> Worker:
        mark = [str(tmp_path / "misbehaved")] if once else []
        command = [sys.executable, "-S", str(CHILD), mode, *mark]
        workers.append(Worker(command, tmp_path / "child.log", start_s=start_s))
        return workers[-1]

    before = open_descriptors()
    yield make
    for each in workers:
        each.close()
    with pytest.raises(ChildProcessError):  # no zombie: this process has no child at all
        os.waitpid(-1, os.WNOHANG)
    assert open_descriptors() == before


@contextlib.contextmanager
def alarm(after_s: float, error: type[BaseException]) -> Iterator[None]:
    """Raise `error` in the main thread unless the block ends before."""

    def ring(_signal: int, _frame: object) -> None:
        raise error

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def contest(entries: int = 1, rounds: int = 5) -> Contest:
    names = ["torch", *(f"entry{i}" for i in range(1, entries))]
    return Contest(
        workload="gemm",
        problem=Problem(
            op="hgemm",
            dims={"m": 64, "n": 64, "k": 64, "batch": 1},
            layout="tn",
            contract=Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32"),
        ),
        entries=tuple(BaselineEntry(name=name, layout="tn") for name in names),
        tolerance=Tolerance(output_roundoff=0, tiny=0, accumulator_roundoff=0, spread=0),
        l2="cold",
        rounds=rounds,
        sample_us=100,
    )


def failure(worker: Worker, timeout_s: float = 5.0) -> Failure:
    answer = worker.ask(contest(), timeout_s)
    assert isinstance(answer, Failure)
    assert answer.stage == "worker"
    return answer


def assert_serves(worker: Worker, restarts: int) -> None:
    assert isinstance(worker.ask(Describe(), 5.0), Described)
    assert worker.restarts == restarts


def test_one_child_serves_many_requests(start: Start) -> None:
    worker = start("good")
    assert worker.pid is None
    first, second = worker.ask(Describe(), 5.0), worker.ask(Describe(), 5.0)
    assert isinstance(first, Described)
    assert first.torch == str(worker.pid)
    assert first == second
    assert isinstance(worker.ask(contest(3), 5.0), ContestResult)
    assert worker.restarts == 0


@pytest.mark.parametrize("mode", ["spin", "stop", "half-hang", "never-reads"])
def test_a_hung_child_is_killed_at_the_deadline(start: Start, mode: str) -> None:
    worker = start(mode, start_s=0.0)
    began = time.monotonic()
    assert failure(worker, timeout_s=1.0).reason == "no answer within 1 s: killed"
    assert 0.9 < time.monotonic() - began < 4.0
    assert worker.pid is None
    worker.start_s = 10.0
    assert_serves(worker, restarts=1)


@pytest.mark.parametrize("mode", ["never-reads", "reads-some"])
def test_a_request_larger_than_the_pipe_meets_the_deadline_too(start: Start, mode: str) -> None:
    """A blocking write would hang the parent: to a pipe with a little room, it waits for the rest."""
    worker = start(mode, start_s=0.0)
    with alarm(20.0, TimeoutError):
        answer = worker.ask(contest(entries=5000), 1.0)
    assert isinstance(answer, Failure)
    assert "within 1 s" in answer.reason
    worker.start_s = 10.0
    reply = worker.ask(contest(entries=5000), 10.0)
    assert isinstance(reply, ContestResult)
    assert len(reply.entries) == 5000


def test_a_child_that_starts_gets_time_for_it(start: Start) -> None:
    """A fresh Python needs longer than this; a running child does not."""
    worker = start("good", start_s=10.0)
    assert isinstance(worker.ask(Describe(), 0.001), Described)
    hurried = start("good", start_s=0.0)
    assert isinstance(hurried.ask(Describe(), 0.001), Failure)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("segfault", "the measuring process died of SIGSEGV"),
        ("exit3", "the measuring process exited with status 3"),
        ("half-exit", "the measuring process exited with status 0 after 20 bytes of an answer"),
        ("close-pipe", "closed its reply pipe, but went on: killed"),
    ],
)
def test_a_child_that_goes_is_named_with_its_ending_and_its_last_words(
    start: Start, mode: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "EXIT_S", 0.5)
    worker = start(mode)
    found = failure(worker)
    assert found.reason == reason
    assert f"about to misbehave: {mode}" in found.detail
    assert_serves(worker, restarts=1)


@pytest.mark.parametrize(
    ("mode", "part"),
    [
        ("garbage", "answered nonsense: Invalid JSON"),
        ("unknown-key", "Extra inputs are not permitted"),
        ("wrong-names", "outcomes for ['somebody'], asked were ['torch']"),
        ("nan-sample", "a sample of nan us for torch"),
        ("zero-sample", "a sample of 0.0 us for torch"),
        ("extra-sample", "9 samples of torch in 5 rounds"),
        ("twice", "answered more than one line"),
    ],
)
def test_nonsense_is_not_an_answer_and_ends_the_child(start: Start, mode: str, part: str) -> None:
    worker = start(mode)
    found = failure(worker)
    assert part in found.reason
    assert "\n" not in found.reason
    assert worker.pid is None
    assert_serves(worker, restarts=1)


def test_the_wrong_kind_of_reply_is_nonsense(start: Start) -> None:
    worker = start("wrong-kind")
    answer = worker.ask(Describe(), 5.0)
    assert isinstance(answer, Failure)
    assert answer.reason == "answered nonsense: a 'contest' reply to a 'describe' request"
    assert_serves(worker, restarts=1)


def test_a_flood_without_an_end_of_line_is_cut_off(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "REPLY_BYTES", 1 << 20)
    worker = start("pipe-flood")
    found = failure(worker, timeout_s=30.0)
    assert "without an end of line: killed" in found.reason
    assert_serves(worker, restarts=1)


def test_output_goes_to_the_log_and_the_answer_counts(start: Start) -> None:
    worker = start("noisy")
    assert isinstance(worker.ask(contest(), 5.0), ContestResult)
    text = worker.log_path.read_text()
    assert text.count("o" * 999) == 2000
    assert text.count("e" * 999) == 2000
    assert worker.restarts == 0


def test_a_flooded_log_does_not_fill_the_disk(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "LOG_BYTES", 1 << 20)
    monkeypatch.setattr(worker_module, "TICK_S", 0.01)
    worker = start("log-flood", start_s=0.0)
    found = failure(worker, timeout_s=1.0)
    assert "killed" in found.reason
    assert len(found.detail) <= worker_module.LOG_TAIL_BYTES
    # A second of this flood is gigabytes; between two looks at it, some megabytes come in.
    assert worker.log_path.stat().st_size < 300 << 20


def test_the_tail_shows_only_this_request(start: Start) -> None:
    worker = start("exit3", once=False)
    worker.log_path.write_text("old news\n")
    assert "old news" not in failure(worker).detail


def test_a_fatal_broken_is_returned_and_the_child_replaced(start: Start) -> None:
    worker = start("fatal")
    answer = worker.ask(contest(), 5.0)
    assert isinstance(answer, Broken)
    assert answer.failure.reason == "illegal address"
    assert worker.pid is None
    assert_serves(worker, restarts=1)


def test_a_mild_broken_keeps_the_child(start: Start) -> None:
    worker = start("mild")
    assert isinstance(worker.ask(contest(), 5.0), Broken)
    assert_serves(worker, restarts=0)


# A second line that comes during the next request can't be told from its reply, so that case has a pause.
@pytest.mark.parametrize(("mode", "pause_s"), [("die-after", 0.0), ("die-after", 0.3), ("late-second", 0.3)])
def test_trouble_after_the_reply_does_not_meet_the_next_request(
    start: Start, mode: str, pause_s: float
) -> None:
    """A child that dies late is noticed, or at least never took the next request, which is asked again."""
    worker = start(mode)
    assert isinstance(worker.ask(contest(), 5.0), ContestResult)
    time.sleep(pause_s)
    assert_serves(worker, restarts=1)


def test_a_child_that_ended_before_it_took_the_request_is_replaced(start: Start) -> None:
    worker = start("exit-before-reading")
    assert_serves(worker, restarts=1)


def test_but_only_once(start: Start) -> None:
    worker = start("exit-before-reading", once=False)
    assert failure(worker).reason == "the measuring process exited with status 7"
    assert worker.restarts == 1


def test_killed_by_hand_between_requests(start: Start) -> None:
    worker = start("good")
    pid = _running_pid(worker)
    os.kill(pid, signal.SIGKILL)
    # SIGKILL takes a moment, in which a dying child may still take a request: that would be "during".
    while _alive(pid):
        time.sleep(0.001)
    assert_serves(worker, restarts=1)
    assert worker.pid != pid


def test_killed_by_hand_during_a_request(start: Start) -> None:
    worker = start("stop")

    def kill() -> None:
        while worker.pid is None or not worker.log_path.read_text():
            time.sleep(0.01)
        os.kill(worker.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    assert failure(worker, timeout_s=30.0).reason == "the measuring process died of SIGKILL"
    killer.join()
    assert_serves(worker, restarts=1)


def _running_pid(worker: Worker) -> int:
    assert isinstance(worker.ask(Describe(), 5.0), Described)
    assert worker.pid is not None
    return worker.pid


def test_the_whole_group_goes_with_the_child(start: Start) -> None:
    """A grandchild that holds the reply pipe neither hides the death nor survives it."""
    worker = start("orphan")
    began = time.monotonic()
    found = failure(worker, timeout_s=20.0)
    assert found.reason == "the measuring process exited with status 4"
    assert time.monotonic() - began < 10.0
    orphan = int(found.detail.split("orphan ")[1].split()[0])
    for _ in range(100):
        if not _alive(orphan):
            break
        time.sleep(0.05)
    assert not _alive(orphan)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


def test_an_interrupted_request_ends_the_child(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C: a late reply to this request must not meet the next one."""
    worker = start("spin")
    with pytest.raises(KeyboardInterrupt), alarm(0.5, KeyboardInterrupt):
        worker.ask(contest(), 30.0)
    assert worker.pid is None
    assert_serves(worker, restarts=1)


def test_a_terminals_interrupt_does_not_reach_the_child(start: Start) -> None:
    worker = start("good")
    worker.ask(Describe(), 5.0)
    assert worker.pid is not None
    assert os.getsid(worker.pid) == os.getpgid(worker.pid) == worker.pid != os.getsid(0)


def test_a_parent_that_vanishes_leaves_an_end_of_file(tmp_path: Path) -> None:
    """The parent is killed outright: no other process holds the request pipe, so the child leaves."""
    script = (
        "import sys, subprocess, time; from pathlib import Path\n"
        "from cutlass_tuner.measure.worker import Worker; from cutlass_tuner.wire import Describe\n"
        f"w = Worker([sys.executable, '-S', {str(CHILD)!r}, 'good'], Path({str(tmp_path / 'log')!r}))\n"
        "w.ask(Describe(), 10)\n"
        "subprocess.Popen(['sleep', '5'], close_fds=False)\n"  # a compiler that runs meanwhile
        "print(w.pid, flush=True); time.sleep(60)\n"
    )
    reading, writing = os.pipe()
    parent = os.spawnve(
        os.P_NOWAIT,
        sys.executable,
        [sys.executable, "-c", f"import os; os.dup2({writing}, 1)\n{script}"],
        _env(writing),
    )
    os.close(writing)
    with os.fdopen(reading) as output:
        pid = int(output.readline())
    assert _alive(pid)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    for _ in range(60):
        if not _alive(pid):
            break
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        assert not _alive(pid)


def _env(inherited: int) -> dict[str, str]:
    os.set_inheritable(inherited, True)
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root}


def test_close_is_idempotent_and_a_later_ask_starts_again(start: Start) -> None:
    worker = start("good")
    pid = _running_pid(worker)
    worker.close()
    worker.close()
    assert worker.pid is None
    assert not _alive(pid)
    assert_serves(worker, restarts=1)


def test_the_context_manager_closes(start: Start) -> None:
    with start("good") as worker:
        pid = _running_pid(worker)
    assert not _alive(pid)


def test_a_command_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    worker = Worker([str(tmp_path / "nothing")], tmp_path / "deep" / "child.log")
    answer = worker.ask(Describe(), 1.0)
    assert isinstance(answer, Failure)
    assert "can't be started" in answer.reason
    worker.close()


def test_the_environment_given_replaces_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_PARENT", "1")
    code = "import os, sys; print(sorted(os.environ)); sys.exit(0)"
    with Worker([sys.executable, "-S", "-c", code], tmp_path / "log", env={"ONLY": "1"}) as worker:
        answer = worker.ask(Describe(), 5.0)
    assert isinstance(answer, Failure)
    printed = (tmp_path / "log").read_text()
    assert "ONLY" in printed
    assert "CUTLASS_TUNER_REPLIES_FD" in printed
    assert "FROM_PARENT" not in printed
