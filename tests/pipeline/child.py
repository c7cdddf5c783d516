"""A measuring child without a GPU: the real protocol, and a made-up but repeatable machine behind it.

A kernel's time is a smooth function of its tile, its launch and the problem, so that a search has something
to find. Only the standard library is imported: a child starts in 20 ms, and tests start hundreds.

Environment. CHILD_HANGS_ON, CHILD_DIES_ON, CHILD_BREAKS_ON (a poisoned CUDA context, reported) and
CHILD_LIES_ON (wrong answers) name parts, joined by "&", that all stand in an entry's name, its problem's key
or its stage (screen, semis, final). CHILD_GPU is the GPU's name (none: there is none), CHILD_S the seconds a
contest takes, CHILD_SPREAD how much kernels of one tile may differ, as a part of the reference's time.
ASKED is a file of requests as they came, ANSWERED one of contests answered: the problem, the stage, the
kernels. PIDS is a file of process ids. Of attention's baselines cuDNN refuses a causal mask on unlike
lengths, and the packages are not installed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import time
from pathlib import Path
from typing import Any

DEVICE = {
    "name": os.environ.get("CHILD_GPU", "NVIDIA H200"),
    "arch": "sm_90a",
    "sm_count": 132,
    "memory_bytes": 150 * 10**9,
    "l2_bytes": 60 << 20,
    "smem_per_block_bytes": 232_448,
    "driver": os.environ.get("CHILD_DRIVER", "580.0"),
    "clock_mhz": 1980,
}
GIVEN_BYTES = {"torch": 33 << 20, "cublaslt": 34 << 20, "cublaslt-tuned": 35 << 20}
"""Workspaces, each another size, so that a mix-up shows."""
ALGORITHM = "ab" * 64
SPREAD = float(os.environ.get("CHILD_SPREAD", "0.1"))
TRIED_US = (3.0, 2.0, 2.5)

Json = dict[str, Any]
number = itertools.count()


def noise(*parts: object) -> float:
    """A repeatable number in [0, 1)."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


def problem_key(request: Json) -> str:
    problem = request["problem"]
    return f"{problem['op']}:{problem['layout']}:{'x'.join(map(str, problem['dims'].values()))}"


def stage(request: Json) -> str:
    if request["rounds"] <= 3:
        return "screen"
    return "final" if len([e for e in request["entries"] if e["kind"] == "baseline"]) > 1 else "semis"


def reference_us(request: Json) -> float:
    dims = request["problem"]["dims"]
    if "head_dim" in dims:
        rows, keys = dims["batch"] * dims["heads_q"] * dims["seqlen_q"], dims["seqlen_kv"]
        return 5.0 + 4 * rows * keys * dims["head_dim"] / 500e6
    m, n, k = (dims[x] for x in "mnk")
    return 3.0 + max(2 * m * n * k / 700e6, 2 * (m * k + k * n + m * n) / 4e6)


SPEEDS = {"cudnn": 0.8, "efficient": 2.0}
"""Of attention's baselines that are no other than torch's own choice: their time / its."""


def refusal(entry: Json, request: Json) -> str:
    """Why a baseline does not do a problem, "" where it does."""
    dims = request["problem"]["dims"]
    if entry["name"].startswith("flash-attn-"):
        return f"{entry['name']} is not installed"
    if entry["name"] == "cudnn" and dims["causal"] and dims["seqlen_q"] != dims["seqlen_kv"]:
        return "cuDNN has no bottom-right causal mask"
    return ""


def kernel_knobs(entry: Json) -> dict[str, str]:
    return dict(part.split("=") for part in entry["name"].split("|")[0].split(":")[1].split(","))


def readback(entry: Json, request: Json) -> Json:
    """What was asked, but for CHILD_RUNS_OTHERWISE_ON, where a stage is lost."""
    knobs = kernel_knobs(entry)
    lost = matches("CHILD_RUNS_OTHERWISE_ON", entry, request)
    return {
        "grid": [1, 1, 1],
        "cluster": [int(knobs["cluster_m"]), int(knobs.get("cluster_n", 1)), 1],
        "threads": 384,
        "smem_bytes": 1,
        "stages": int(knobs["stages"]) - lost,
        "workspace_bytes": 0,
        "zeroed_bytes": 0,
    }


def kernel_us(entry: Json, request: Json) -> float:
    """Best near a tile that depends on the problem; every knob matters a little."""
    knobs, dims = kernel_knobs(entry), request["problem"]["dims"]
    if "head_dim" in dims:
        assert int(knobs["head_dim"]) == dims["head_dim"], "a kernel of another problem"
        assert (knobs["mask"] == "causal") == (dims["causal"] > 0), "a kernel of another problem"
        tile, best = (int(knobs["tile_kv"]), int(knobs["tile_q"])), (128, 192)
    else:
        tile, best = (int(knobs["tile_n"]), int(knobs["tile_m"])), (256 if dims["n"] >= 1024 else 64, 128)
    off = sum(abs(math.log2(side / wanted)) for side, wanted in zip(tile, best, strict=True))
    return reference_us(request) * (0.9 + 0.1 * off + SPREAD * noise(entry["name"], problem_key(request)))


def matches(variable: str, entry: Json, request: Json) -> bool:
    wanted = os.environ.get(variable)
    if wanted is None or entry["kind"] != "kernel":
        return False
    told = f"{entry['name']} {problem_key(request)} {stage(request)}"
    return all(part in told for part in wanted.split("&"))


def entry_outcome(entry: Json, request: Json, seed: int) -> Json:
    kernel = entry["kind"] == "kernel"
    refused = "" if kernel else refusal(entry, request)
    if refused:
        failure = {"stage": "launch", "reason": refused}
        return {"outcome": "refused", "name": entry["name"], "failure": failure}
    us = kernel_us(entry, request) if kernel else reference_us(request) * SPEEDS.get(entry["name"], 1.0)
    return timed(entry, request, us, seed)


def timed(entry: Json, request: Json, us: float, seed: int) -> Json:
    kernel = entry["kind"] == "kernel"
    lies = matches("CHILD_LIES_ON", entry, request)
    elements = math.prod(request["problem"]["dims"].values()) or 1
    twice = 0 if request["check_after"] else None
    return {
        "outcome": "timed",
        "name": entry["name"],
        "samples_us": [us * (1 + 0.002 * noise(entry["name"], seed, i)) for i in range(request["rounds"])],
        "launches_per_sample": 10,
        "workspace_bytes": 0 if kernel else GIVEN_BYTES.get(entry["name"], 33 << 20),
        "evidence": {
            "elements": elements,
            "unwritten": 0,
            "nonfinite": 0,
            "guard_touched": 0,
            "error_over_bound": 7.0 if lies else 0.9,
            "max_abs_error": 0.01,
            "exact_mismatches": 64 if lies else 0,
            "repeat_mismatches": twice,
            "after_timing_mismatches": twice,
        },
        "readback": readback(entry, request) if kernel else None,
    }


def contest(request: Json) -> Json:
    if "CHILD_DIES_ON_CONTESTS" in os.environ:
        os.abort()
    time.sleep(float(os.environ.get("CHILD_S", "0")))
    for entry in request["entries"]:
        if matches("CHILD_HANGS_ON", entry, request):
            time.sleep(3600)
        if matches("CHILD_DIES_ON", entry, request):
            os.abort()
        if matches("CHILD_BREAKS_ON", entry, request):
            failure = {"stage": "launch", "reason": "CUDA_ERROR_ILLEGAL_ADDRESS"}
            return {"reply": "broken", "failure": failure, "fatal": True}
    seed = next(number)
    return {
        "reply": "contest",
        "entries": [entry_outcome(entry, request, seed) for entry in request["entries"]],
    }


def answer(request: Json) -> Json:
    if request["request"] == "describe":
        versions = {"cublas": "13.1.0", "torch": "2.11.0", "cuda_python": "13.3"}
        return {"reply": "described", "device": DEVICE, **versions}
    if request["request"] == "contest":
        return contest(request)
    return {
        "reply": "tuned_baseline",
        "algorithm": ALGORITHM,
        "tried_us": TRIED_US,
        "workspace_bytes": request["workspace_bytes"],
        "rejected": 0,
    }


def note(variable: str, text: str) -> None:
    """One line, in one write: a kill leaves it whole or not at all."""
    if variable in os.environ:
        with Path(os.environ[variable]).open("ab", buffering=0) as log:
            log.write(f"{text}\n".encode())


def main() -> None:
    note("PIDS", str(os.getpid()))
    if DEVICE["name"] == "none":
        raise SystemExit("no CUDA-capable device is detected")
    with (
        os.fdopen(int(os.environ["CUTLASS_TUNER_REQUESTS_FD"])) as requests,
        os.fdopen(int(os.environ["CUTLASS_TUNER_REPLIES_FD"]), "w") as replies,
    ):
        for line in requests:
            note("ASKED", line.strip())
            request = json.loads(line)
            reply = answer(request)
            replies.write(json.dumps(reply) + "\n")
            replies.flush()
            if request["request"] == "contest" and reply["reply"] == "contest":
                kernels = [entry["name"] for entry in request["entries"] if entry["kind"] == "kernel"]
                note("ANSWERED", "\t".join([problem_key(request), stage(request), *kernels]))


if __name__ == "__main__":
    main()
