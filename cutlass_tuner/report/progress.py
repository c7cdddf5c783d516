"""Where a run stands: one live display on a terminal, one plain line now and then in a pipe.

Everything goes to stderr: stdout is for results.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from cutlass_tuner.report.tables import counted

PLAIN_EVERY_S = 30.0
REFRESH_PER_S = 4


class Progress:
    """Shows what `update` was last told. A context manager; `update` may be called from any thread.

    `title` names the run. On a terminal the display redraws by itself, so the clock runs while a
    compile takes a minute; on anything else a line is printed every `every_s` seconds and at the end.
    """

    def __init__(
        self,
        title: str = "",
        stream: TextIO | None = None,
        every_s: float = PLAIN_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self.title = title
        self._every_s = every_s
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._built = self._failed = self._rounds = self._measurements = 0
        self._geomean: float | None = None
        self._ends: float | None = None
        self._activity = ""
        self._live: Live | None = None
        self._ticker: threading.Thread | None = None
        self._closed = threading.Event()

    def update(
        self,
        *,
        built: int | None = None,
        failed: int | None = None,
        rounds: int | None = None,
        measurements: int | None = None,
        best_geomean: float | None = None,
        seconds_left: float | None = None,
        activity: str | None = None,
    ) -> None:
        """Tell what is new; what is left out stays as it was.

        `best_geomean` is the geometric mean over the problems of baseline/ours with the best kernel
        so far, as screening saw it: the finals measure again. `seconds_left` counts down by itself.
        `activity` is what happens now, in a few words.
        """
        with self._lock:
            self._built = self._built if built is None else built
            self._failed = self._failed if failed is None else failed
            self._rounds = self._rounds if rounds is None else rounds
            self._measurements = self._measurements if measurements is None else measurements
            self._geomean = self._geomean if best_geomean is None else best_geomean
            self._ends = self._ends if seconds_left is None else self._clock() + seconds_left
            self._activity = self._activity if activity is None else activity

    def note(self, text: str) -> None:
        """Print a line that stays: a warning, a milestone."""
        self._console.print(text, markup=False, soft_wrap=True)

    def __enter__(self) -> Progress:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(_Display(self), console=self._console, refresh_per_second=REFRESH_PER_S)
            self._live.start()
        else:
            self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._live is not None:
            self._live.stop()
        if self._ticker is not None:
            self._ticker.join()
            self._print_line()

    def _tick(self) -> None:
        while not self._closed.wait(self._every_s):
            self._print_line()

    def _print_line(self) -> None:
        self.note(" · ".join(self.parts()))

    def parts(self) -> list[str]:
        """What is shown: title, then most important first; what is unknown yet is left out."""
        with self._lock:
            now = self._clock()
            kernels = counted(self._built, "kernel") + (f" ({self._failed} failed)" if self._failed else "")
            clock = f"{_clock(now - self._started)} elapsed"
            if self._ends is not None:
                clock = f"{_clock(max(0.0, self._ends - now))} left"
            mean = "" if self._geomean is None else f"mean {self._geomean:.3f}x (screening)"
            numbers = ((self._rounds, "round"), (self._measurements, "measurement"))
            counts = [counted(number, noun) for number, noun in numbers if number]
            return [part for part in (self.title, clock, mean, kernels, *counts, self._activity) if part]


class _Display:
    """The live block: whole parts wrapped to the console's width; a part wider than that is cut."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(wrap(self._progress.parts(), options.max_width)):
            yield Text(line, style="bold" if number == 0 else "", no_wrap=True, overflow="ellipsis")


def wrap(parts: list[str], width: int, between: str = " · ") -> list[str]:
    """Lines of at most `width` cells that hold `parts` in order; only a part wider than that is wider."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + cell_len(between) + cell_len(part) <= width:
            lines[-1] += between + part
        else:
            lines.append(part)
    return lines


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
