"""Starts tuners quickly: imports everything once, then forks a tuner for each request.

What is forked is a process of its own that runs the real command line, in a session of its own, with its
output in files; starting it costs milliseconds where imports cost seconds. One JSON line in, one out:
{"arguments", "environment", "folder", "out", "err"} -> {"pid"}, and {"wait": pid, "within_s"} -> {"status"},
the exit status, negative the signal, null while it runs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

# No threads before a fork.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import tuner  # noqa: E402

from cutlass_tuner import pipeline, settings  # noqa: E402

assert pipeline.tune  # imported for all tuners to come


def start(request: dict[str, Any]) -> int:
    """Returns the process id here; in the new process it does not return."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        del os.environ[name]  # a developer's own key is not for tests
    os.chdir(request["folder"])
    for descriptor, path in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.update(request["environment"])
    settings.settings.cache_clear()
    # An uncaught error prints its traceback and a status leaves as such: what an interpreter of its own does.
    raise SystemExit(tuner.main(request["arguments"]))


def wait(pid: int, within_s: float) -> int | None:
    deadline = time.monotonic() + within_s
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.003)


def main() -> None:
    for line in iter(sys.stdin.buffer.raw.readline, b""):  # type: ignore[attr-defined]
        request = json.loads(line)
        if "wait" in request:
            reply = {"status": wait(request["wait"], request["within_s"])}
        else:
            Path(request["out"]).touch()
            reply = {"pid": start(request)}
        os.write(1, json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main()
