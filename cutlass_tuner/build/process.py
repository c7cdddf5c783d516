"""Running compilers: each in a process group of its own, so that a time limit kills all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal

from cutlass_tuner.settings import PACKAGE

_POLL_S = 0.02

# The child must find this very package, also where it is a checkout that is merely the working directory.
_RUN_MODULE = (
    "import runpy, sys; sys.path.append({!r}); runpy.run_module({!r}, run_name='__main__', alter_sys=True)"
)

Ending = Literal["exited", "timed out", "cancelled", "superseded"]


@dataclass(frozen=True)
class Ended:
    """How one command ended. `status` is its exit status, negative the signal that killed it."""

    status: int
    log: str
    cpu_s: float
    ending: Ending

    @property
    def ok(self) -> bool:
        return self.ending == "exited" and self.status == 0


def module_command(module: str, *arguments: str) -> list[str]:
    """Runs one of this package's modules as a program, from any folder."""
    return [sys.executable, "-c", _RUN_MODULE.format(str(PACKAGE.parent), module), *arguments]


class _Job:
    def __init__(self, command: Sequence[str], folder: Path, log: Path) -> None:
        self._log = log
        with log.open("wb") as sink:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Intermediate files of a killed compiler go away with the folder.
                env={**os.environ, "TMPDIR": str(folder)},
            )

    def poll(self, ending: Ending = "exited", *, wait: bool = False) -> Ended | None:
        pid, status, usage = os.wait4(self._process.pid, 0 if wait else os.WNOHANG)
        if pid == 0:
            return None
        self._process.returncode = os.waitstatus_to_exitcode(status)
        log = self._log.read_text(errors="replace")
        return Ended(self._process.returncode, log, usage.ru_utime + usage.ru_stime, ending)

    def kill(self, why: Ending) -> Ended:
        ended = self.poll()
        if ended is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            ended = self.poll(why, wait=True)
            assert ended is not None
        return ended


def run_together(
    commands: Sequence[Sequence[str]], folder: Path, timeout_s: float, cancelled: Event
) -> list[Ended]:
    """Run all commands at once in `folder`; when one fails the rest is pointless and is killed.

    Returns how each ended, in order. `cancelled`, once set, ends all of them within milliseconds. Raises
    OSError when one cannot be started; none is left running then either.
    """
    deadline = time.monotonic() + timeout_s
    ended: dict[int, Ended] = {}
    jobs: dict[int, _Job] = {}
    try:
        for i, command in enumerate(commands):
            jobs[i] = _Job(command, folder, folder / f"{i}.log")
        while jobs:
            for i in list(jobs):
                done = jobs[i].poll()
                if done is not None:
                    ended[i] = done
                    del jobs[i]
            why: Ending | None = None
            if cancelled.is_set():
                why = "cancelled"
            elif any(not done.ok for done in ended.values()):
                why = "superseded"
            elif time.monotonic() > deadline:
                why = "timed out"
            if why is not None:
                ended |= {i: job.kill(why) for i, job in jobs.items()}
                break
            if jobs:
                cancelled.wait(_POLL_S)
    except BaseException:  # a command that cannot be started, or Ctrl-C
        for job in jobs.values():
            job.kill("cancelled")
        raise
    return [ended[i] for i in range(len(commands))]
