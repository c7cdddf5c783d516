"""Kernels that NVIDIA's nvMatmulHeuristics would choose: an optional package, no GPU needed.

The library runs in a process of its own (`nvmmh_child`), so that neither a crash in it nor the CUDA driver
that it loads ever reaches this one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.hgemm.matmul_heuristics import Advice, MatmulHeuristics, Query
from cutlass_tuner.records import DeviceFacts, Failure, KernelConfig, Problem, Proposal
from cutlass_tuner.space import Space

SOURCE = "nvmmh"
MODULE = "nvMatmulHeuristics"
CHILD = [sys.executable, "-m", "cutlass_tuner.propose.nvmmh_child"]

GPUS = {
    "NVIDIA H100 80GB HBM3": "H100_SXM",
    "NVIDIA H100 PCIe": "H100_PCIE",
    "NVIDIA H100 NVL": "H100_NVL",
    "NVIDIA H200": "H200_SXM",
    "NVIDIA H20": "H20_SXM",
}
"""Hopper GPUs by the driver's name, and the library's names for them."""

ANSWERS = 128
"""Asked of each problem: more than the library has, which is a few dozen."""
TIMEOUT_S = 60.0


def available(device: DeviceFacts | None = None) -> str | None:
    """Why the library cannot be asked (with a device: asked about it), None where it can."""
    if importlib.util.find_spec(MODULE) is None:
        return f"{MODULE} is not installed; pip install 'cutlass-tuner[heuristics]'"
    if device is not None and device.name not in GPUS:
        return f"{MODULE} does not know the GPU {device.name!r}; it knows {', '.join(GPUS)}"
    return None


def proposals(
    space: Space, problems: Sequence[Problem], device: DeviceFacts, limit: int
) -> list[Proposal] | Failure:
    """At most `limit` legal effective kernels, each once: every problem's best, then every problem's second,
    and so on. A Failure where the library is missing, does not know the GPU or the op, or did not answer.
    """
    model = space.op.matmul_heuristics
    if model is None:
        return Failure(stage="propose", reason=f"{MODULE} cannot be asked about op {space.op.name}")
    why = available(device)
    if why is not None:
        return Failure(stage="propose", reason=why)
    answers = ask(GPUS[device.name], [model.query(problem) for problem in problems])
    if isinstance(answers, Failure):
        return answers
    ranked = [
        list(_kernels(space, model, problem, advice, device))
        for problem, advice in zip(problems, answers, strict=True)
    ]
    kernels = {kernel.key: kernel for kernel in _round_robin(ranked)}
    return [Proposal(kernel=kernel, source=SOURCE) for kernel in list(kernels.values())[:limit]]


def ask(gpu: str, queries: Sequence[Query]) -> list[list[Advice]] | Failure:
    """The library's answers to each query, best first, repetitions included."""
    request = {"gpu": gpu, "queries": [asdict(query) for query in queries], "count": ANSWERS}
    try:
        done = subprocess.run(
            CHILD,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Failure(stage="propose", reason=f"{MODULE} did not answer: {error}", lasting=False)
    if done.returncode != 0:
        said = (done.stderr.splitlines() or ["it said nothing"])[-1]
        reason = f"the process that asks {MODULE} ended with status {done.returncode}: {said}"
        return Failure(stage="propose", reason=reason, detail=done.stderr[-2000:])
    try:
        return [[Advice(**one) for one in answer] for answer in json.loads(done.stdout)]
    except (ValueError, TypeError) as error:
        reason = f"the process that asks {MODULE} gave no list of kernels: {error}"
        return Failure(stage="propose", reason=reason, detail=done.stdout[-2000:])


def _kernels(
    space: Space, model: MatmulHeuristics, problem: Problem, advice: Sequence[Advice], device: DeviceFacts
) -> Iterator[KernelConfig]:
    """The legal effective kernels of one problem's answers, each once, best first."""
    seen = set[str]()
    for one in advice:
        kernel = _kernel(space, model, problem, one, device)
        if kernel is not None and kernel.key not in seen:
            seen.add(kernel.key)
            yield kernel


def _kernel(
    space: Space, model: MatmulHeuristics, problem: Problem, advice: Advice, device: DeviceFacts
) -> KernelConfig | None:
    """None for a kernel that is illegal, or that a narrowed space leaves out."""
    if model.family not in space.families:
        return None
    try:
        asked = space.kernel(model.family, **model.knobs(problem, advice))
    except UserError:  # a value that is not in the space
        return None
    kernel = space.effective(asked, device)
    return kernel if space.check(kernel, None, problem, device).legal else None


def _round_robin(ranked: Sequence[Sequence[KernelConfig]]) -> Iterator[KernelConfig]:
    for rank in range(max(map(len, ranked), default=0)):
        yield from (kernels[rank] for kernels in ranked if rank < len(kernels))
