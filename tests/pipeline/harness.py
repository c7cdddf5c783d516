"""Runs scripted tuners for tests, and reads what they left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutlass_tuner.events import Event, Finished, KernelBuilt, KernelFailed, Measured
from cutlass_tuner.records import Measurement
from cutlass_tuner.results import CONTROL, LT, LT_TUNED, TORCH, in_layout
from cutlass_tuner.study import Study

HERE = Path(__file__).parent
WITHIN_S = 60.0
SCREEN_ROUNDS = 3
"""Contests of more rounds are finals."""

SHAPES = "m,n,k\n512,512,512\n1024,4096,1024\n16,4096,4096\n"
CONTESTS = 3
"""Of a final."""
ENTRANTS = [TORCH, CONTROL, LT, LT_TUNED, *(in_layout(TORCH, layout) for layout in ("tt", "nn", "nt"))]
"""Whom a kernel of layout tn meets in the final, in order: all in the problem's layout but the last three."""
KEYS = ["hgemm:tn:512x512x512x1", "hgemm:tn:1024x4096x1024x1", "hgemm:tn:16x4096x4096x1"]

SPACE = """
op: hgemm
families:
  tma_ws:
    kernel:
      tile_n: {values: [64, 128, 256]}
      tile_k: {values: [64, 128]}
      cluster_m: {values: [1, 2]}
      cluster_n: {values: [1]}
      stages: {values: [auto, 3, 4]}
      epilogue: {values: [tma]}
      swap_ab: {values: [false]}
"""
"""A few hundred kernels: listing them takes no time."""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str

    def told(self) -> str:
        """The one line a user's mistake is told in; fails the test where there is another."""
        assert (self.status, self.out) == (2, ""), self
        assert self.err.startswith("cutlass-tuner: ") and self.err.count("\n") == 1, self.err
        return self.err


class Server:
    """The process that forks tuners (server.py)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Running:
    """A tuner that runs."""

    server: Server
    pid: int
    out: Path
    err: Path

    def wait(self, within_s: float = WITHIN_S) -> Done:
        status = self.server.ask({"wait": self.pid, "within_s": within_s})["status"]
        if status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.server.ask({"wait": self.pid, "within_s": WITHIN_S})
            raise AssertionError(f"still running after {within_s:g} s: {self.err.read_text()}")
        return Done(status, self.out.read_text(), self.err.read_text())

    def ended(self) -> bool:
        """Has it ended (and waits for `wait`)?"""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@dataclass
class Workplace:
    """A folder with shapes, a space, studies and logs, and commands that run there.

    `asked`, `answered`, `built` and `pids` are what child and builder wrote down since it was made.
    """

    server: Server
    folder: Path
    _count: int = field(default=0)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write("s.csv", SHAPES)
        self.write("space.yaml", SPACE)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def start(self, command: str, **environment: str) -> Running:
        """Start a command line; `environment` is added to a clean one."""
        self._count += 1
        out, err = self.folder / f".out{self._count}", self.folder / f".err{self._count}"
        logs = {
            name: str(self.folder / f".{name.lower()}") for name in ("ASKED", "ANSWERED", "BUILT", "PIDS")
        }
        request = {
            "arguments": command.split(),
            "environment": {"CUTLASS_TUNER_CACHE": str(self.folder / "cache"), **logs, **environment},
            "folder": str(self.folder),
            "out": str(out),
            "err": str(err),
        }
        return Running(self.server, self.server.ask(request)["pid"], out, err)

    def run(self, command: str, **environment: str) -> Done:
        return self.start(command, **environment).wait()

    def tune(self, options: str = "", **environment: str) -> Done:
        """A tune in the small space that must succeed, in the study "s"."""
        done = self.run(self.tuning(options), **environment)
        assert done.status == 0, done.err
        return done

    @staticmethod
    def tuning(options: str = "") -> str:
        return f"tune --op hgemm --shapes s.csv --space space.yaml --study s --jobs 1 {options}"

    @property
    def study(self) -> Study:
        return Study.load(self.folder / "studies", "s")

    @property
    def events(self) -> tuple[Event, ...]:
        return self.study.events()

    @property
    def journal(self) -> Path:
        return self.folder / "studies" / "s" / "events.jsonl"

    def lines(self, log: str) -> list[str]:
        """Whole lines: the last one may be half written yet."""
        path = self.folder / f".{log}"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def asked(self, kind: str = "contest") -> list[dict[str, Any]]:
        """Requests of a kind, as they came."""
        requests = [json.loads(line) for line in self.lines("asked")]
        return [request for request in requests if request["request"] == kind]


def screened(events: tuple[Event, ...]) -> list[Measurement]:
    """Measurements of the search, in order."""
    found = [event.measurement for event in events if isinstance(event, Measured)]
    return [one for one in found if len(one.samples_us) <= SCREEN_ROUNDS]


def config_of(one: Measurement) -> tuple[str, str, str]:
    return one.problem, one.kernel.key, one.launch.key


def rows(events: tuple[Event, ...]) -> dict[str, Finished]:
    """The last finals by problem."""
    return {event.row.problem: event for event in events if isinstance(event, Finished)}


def repeated(events: tuple[Event, ...]) -> list[object]:
    """What a study did twice though once is enough: kernels built, configs screened."""
    built = Counter(e.proposal.kernel.key for e in events if isinstance(e, KernelBuilt | KernelFailed))
    measured = Counter(config_of(one) for one in screened(events))
    return [what for what, times in [*built.items(), *measured.items()] if times > 1]


def until(condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def alive(pid: int) -> bool:
    """Is this process running (a zombie is not)?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
