"""A child that speaks the wire protocol and can misbehave: `python child.py MODE [FILE]`.

It misbehaves on every request, unless FILE is given: then only while FILE does not exist, and it
makes FILE first, so that the next child behaves.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REQUESTS = int(os.environ["CUTLASS_TUNER_REQUESTS_FD"])
REPLIES = int(os.environ["CUTLASS_TUNER_REPLIES_FD"])
MODE = sys.argv[1]
MARK = Path(sys.argv[2]) if len(sys.argv) > 2 else None

DEVICE = {
    "name": "NVIDIA H200",
    "arch": "sm_90a",
    "sm_count": 132,
    "memory_bytes": 150 << 30,
    "l2_bytes": 60 << 20,
    "smem_per_block_bytes": 232448,
    "driver": "580",
    "clock_mhz": 1980,
}
EVIDENCE = {
    "elements": 1,
    "unwritten": 0,
    "nonfinite": 0,
    "guard_touched": 0,
    "error_over_bound": 0.5,
    "max_abs_error": 0.0,
    "exact_mismatches": 0,
}


def say(data: bytes) -> None:
    while data:
        data = data[os.write(REPLIES, data) :]


def line(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def described() -> bytes:
    # torch carries this process's id, so that a test can tell one child from the next.
    return line(
        {"reply": "described", "device": DEVICE, "cublas": "1", "torch": str(os.getpid()), "cuda_python": "1"}
    )


def contest(names: list[str], samples: list[float]) -> bytes:
    timed = {"outcome": "timed", "samples_us": samples, "launches_per_sample": 1, "evidence": EVIDENCE}
    return line({"reply": "contest", "entries": [{**timed, "name": name} for name in names]})


def good(request: dict[str, Any]) -> bytes:
    if request["request"] == "contest":
        return contest([entry["name"] for entry in request["entries"]], [1.0])
    return described()


def misbehave(request: dict[str, object]) -> None:  # noqa: PLR0912, PLR0915
    print("about to misbehave:", MODE, flush=True)
    if MODE == "spin":
        while True:
            pass
    elif MODE == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif MODE == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif MODE == "exit3":
        sys.exit(3)
    elif MODE == "noisy":
        for _ in range(2000):
            os.write(1, b"o" * 999 + b"\n")
            os.write(2, b"e" * 999 + b"\n")
        say(good(request))
    elif MODE == "log-flood":
        while True:
            os.write(1, b"x" * 65536)
    elif MODE == "pipe-flood":
        while True:
            os.write(REPLIES, b"x" * 65536)
    elif MODE == "half-hang":
        say(good(request)[:20])
        time.sleep(1000)
    elif MODE == "half-exit":
        say(good(request)[:20])
        sys.exit(0)
    elif MODE == "garbage":
        say(b"\xff\xfeCUDA error: an illegal memory access\n")
    elif MODE == "wrong-kind":
        say(contest(["torch"], [1.0]))
    elif MODE == "wrong-names":
        say(contest(["somebody"], [1.0]))
    elif MODE == "nan-sample":
        say(contest(["torch"], [float("nan")]))
    elif MODE == "zero-sample":
        say(contest(["torch"], [0.0]))
    elif MODE == "extra-sample":
        say(contest(["torch"], [1.0] * 9))
    elif MODE == "unknown-key":
        say(good(request).replace(b"{", b'{"surprise": 1, ', 1))
    elif MODE == "twice":
        say(good(request) * 2)
    elif MODE == "late-second":
        say(good(request))
        time.sleep(0.1)
        say(good(request))
    elif MODE == "die-after":
        say(good(request))
        sys.exit(0)
    elif MODE in ("fatal", "mild"):
        failure = {"stage": "launch", "reason": "illegal address"}
        say(line({"reply": "broken", "failure": failure, "fatal": MODE == "fatal"}))
    elif MODE == "close-pipe":
        os.close(REPLIES)
        time.sleep(1000)
    elif MODE == "orphan":
        # A grandchild that inherits the reply pipe and outlives its parent.
        orphan = subprocess.Popen(["sleep", "1000"], pass_fds=(REPLIES,))
        print("orphan", orphan.pid, flush=True)
        sys.exit(4)
    elif MODE == "good":
        say(good(request))
    else:
        raise SystemExit(f"no mode {MODE}")


def first_time() -> bool:
    if MARK is None:
        return True
    if MARK.exists():
        return False
    MARK.touch()
    return True


def main() -> None:
    if MODE == "exit-before-reading":
        if first_time():
            time.sleep(0.2)  # let the request arrive and lie there
            sys.exit(7)
    elif MODE == "never-reads" and first_time():
        time.sleep(1000)
    elif MODE == "reads-some" and first_time():
        os.read(REQUESTS, 10_000)
        time.sleep(1000)
    for text in os.fdopen(REQUESTS, encoding="utf-8"):
        request = json.loads(text)
        if MODE in ("exit-before-reading", "never-reads", "reads-some") or not first_time():
            say(good(request))
        else:
            misbehave(request)


main()
