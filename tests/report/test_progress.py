"""The display: every part at any width, live on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import io
import sys
import time

import pytest
from rich.cells import cell_len
from rich.console import Console

from cutlass_tuner.report.progress import Progress, _Display, wrap

FIELDS = [
    "tune hgemm",
    "2:05 left",
    "mean 0.987x (screening)",
    "35 kernels (2 failed)",
    "3 rounds",
    "1,234 measurements",
    "building tile=128x256x64 cluster=2x1 schedule=pingpong",
]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def busy(clock: Clock, stream: io.StringIO | None = None, every_s: float = 30.0) -> Progress:
    progress = Progress("tune hgemm", stream or io.StringIO(), every_s, clock)
    progress.update(built=35, failed=2, rounds=3, measurements=1234, best_geomean=0.987, seconds_left=125)
    progress.update(activity=FIELDS[-1])
    return progress


def test_parts_and_their_order() -> None:
    assert busy(Clock()).parts() == FIELDS


def test_what_is_not_told_stays_and_what_is_unknown_is_left_out() -> None:
    clock = Clock()
    progress = Progress(stream=io.StringIO(), clock=clock)
    clock.now += 61
    assert progress.parts() == ["1:01 elapsed", "0 kernels"]
    progress.update(built=1, rounds=1)
    progress.update(measurements=1)
    assert progress.parts() == ["1:01 elapsed", "1 kernel", "1 round", "1 measurement"]


def test_time_left_counts_down_by_itself_and_not_below_zero() -> None:
    clock = Clock()
    progress = busy(clock)
    clock.now += 60
    assert progress.parts()[1] == "1:05 left"
    clock.now += 3600
    assert progress.parts()[1] == "0:00 left"
    progress.update(seconds_left=3725)
    assert progress.parts()[1] == "1:02:05 left"


@pytest.mark.parametrize("width", [10, 20, 40, 60, 80, 140, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(_Display(busy(Clock())))
    lines = captured.get().splitlines()
    assert lines
    assert all(cell_len(line) <= width for line in lines), lines
    assert ("…" in captured.get()) == (width < max(map(cell_len, FIELDS)))  # a cut is shown as one
    if width >= 60:
        assert " · ".join(line.strip() for line in lines) == " · ".join(FIELDS)


def test_wrap_keeps_parts_whole() -> None:
    assert wrap(["aaa", "bbb", "cc"], 9) == ["aaa · bbb", "cc"]
    assert wrap(["aaa", "bbb"], 8) == ["aaa", "bbb"]
    assert wrap(["too wide", "b"], 4) == ["too wide", "b"]
    assert wrap([], 80) == []


def test_a_pipe_gets_plain_lines_now_and_then_and_one_at_the_end() -> None:
    stream = io.StringIO()
    with busy(Clock(), stream, every_s=0.05) as progress:
        time.sleep(0.3)
        progress.update(built=99)
    lines = stream.getvalue().splitlines()
    assert 3 <= len(lines) <= 8
    assert "\x1b" not in stream.getvalue()
    assert lines[0] == " · ".join(FIELDS)
    assert "99 kernels" in lines[-1]


def test_a_pipe_is_quiet_between() -> None:
    stream = io.StringIO()
    with busy(Clock(), stream) as progress:
        for built in range(1000):
            progress.update(built=built)
        assert stream.getvalue() == ""
    assert len(stream.getvalue().splitlines()) == 1


def test_a_terminal_gets_a_live_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with busy(Clock(), stream) as progress:
        progress.update(activity="measuring [bold]x[/bold]")
        time.sleep(0.5)
        progress.note("a warning [bold]1/2[/bold]")
    shown = stream.getvalue()
    assert "measuring [bold]x[/bold]" in shown  # text, not markup
    assert "a warning [bold]1/2[/bold]" in shown
    assert "\x1b[" in shown


def test_it_writes_to_stderr_and_survives_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Progress("run") as progress:
        progress.update(built=5)
        raise KeyboardInterrupt
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "5 kernels" in captured.err
    assert sys.stderr is not None
