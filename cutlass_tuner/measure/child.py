"""One running child process: its pipes, its process group and its death.

Requests go down one pipe, replies come up another; their numbers reach the child by environment.
stdout and stderr go to a log file, so that no print, assert or driver message can pass for a reply.
The request pipe's other end is held by this process alone: should it be killed outright, the child
reads end of file and leaves.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import subprocess
import termios
import time
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.wire import REPLIES, REQUESTS

KILL_WAIT_S = 30.0
"""A process that outlives SIGKILL by this much hangs in the kernel, in practice in the GPU driver."""


class Child:
    """A child in its own session. `requests` and `replies` are this side's non-blocking ends."""

    def __init__(self, command: list[str], log_path: Path, env: dict[str, str]) -> None:
        """Start `command`. Raises OSError when it can't be started."""
        log_path.parent.mkdir(parents=True, exist_ok=True)
        child_reads, self.requests = os.pipe()
        self.replies, child_writes = os.pipe()
        try:
            with log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**env, REQUESTS: str(child_reads), REPLIES: str(child_writes)},
                    pass_fds=(child_reads, child_writes),
                    start_new_session=True,
                )
        except BaseException:
            os.close(self.requests)
            os.close(self.replies)
            raise
        finally:
            os.close(child_reads)
            os.close(child_writes)
        os.set_blocking(self.requests, False)
        os.set_blocking(self.replies, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self, within_s: float = 0.0) -> bool:
        """Does it end within this time? Doesn't reap: its process id and group stay ours until `kill`."""
        deadline = time.monotonic() + within_s
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def unread_bytes(self) -> int:
        """How much of what was written to the request pipe it never took out."""
        count = array.array("i", [0])
        fcntl.ioctl(self.requests, termios.FIONREAD, count)
        return count[0]

    def kill(self) -> str:
        """End the whole process group, reap it, close the pipes. Returns how the child ended.

        Safe on one that already ended: then the text says how, and its own children go with it.
        Raises UserError for a process that even SIGKILL doesn't end.
        """
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        try:
            status = self._process.wait(timeout=KILL_WAIT_S)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"the measuring process {self.pid} does not end on SIGKILL, so the GPU driver holds it: "
                "look at dmesg, then reset the GPU or reboot; everything measured so far is kept"
            ) from None
        finally:
            for descriptor in (self.requests, self.replies):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self.requests = self.replies = -1
        return _ending(status)


def _ending(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    with contextlib.suppress(ValueError):
        return f"died of {signal.Signals(-status).name}"
    return f"died of signal {-status}"


def visible(gpu: int) -> dict[str, str]:
    """Environment of a child that is to see one GPU. An inherited CUDA_VISIBLE_DEVICES is a list that
    `gpu` indexes."""
    inherited = os.environ.get("CUDA_VISIBLE_DEVICES")
    if inherited is None:
        return {"CUDA_VISIBLE_DEVICES": str(gpu)}
    names = [name.strip() for name in inherited.split(",") if name.strip()]
    if gpu >= len(names):
        raise UserError(f"--gpu {gpu}: CUDA_VISIBLE_DEVICES={inherited} leaves {len(names)} GPUs")
    return {"CUDA_VISIBLE_DEVICES": names[gpu]}
