"""A made-up recorded study on the real space: few kernels, known times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from cutlass_tuner.events import Event, KernelBuilt, KernelFailed, KernelTold, Measured, StudyHeader
from cutlass_tuner.ops import registry
from cutlass_tuner.records import (
    Build,
    Environment,
    Evidence,
    Failure,
    KernelConfig,
    LaunchConfig,
    Measurement,
    Problem,
    Proposal,
    Readback,
    Verdict,
)
from cutlass_tuner.space import Candidates, Space
from cutlass_tuner.study import Study

OP = registry.op("hgemm")
SPACE = Space.of("hgemm", "sm_90a")
DEVICE = OP.nominal_device("sm_90a")
PROBLEMS = tuple(
    OP.problem(extents, "tn") for extents in ((2048, 2048, 2048), (64, 4096, 4096), (256, 512, 1024))
)
KERNELS = 60
COMPILE_S, SCREEN_S, WAIT_S = 12.0, 2.0, 5.0

LAUNCH = LaunchConfig(knobs={knob.name: knob.default for knob in SPACE.launch_knobs()})
READBACK = Readback(
    grid=(1, 1, 1), cluster=(1, 1, 1), threads=384, smem_bytes=1, stages=3, workspace_bytes=0, zeroed_bytes=0
)
EVIDENCE = Evidence(
    elements=1, unwritten=0, nonfinite=0, guard_touched=0, error_over_bound=0.1, max_abs_error=0.1,
    exact_mismatches=0,
)  # fmt: skip
ENVIRONMENT = Environment(
    gpu="NVIDIA H200", arch="sm_90a", sm_count=132, driver="580.1", cuda="13.0", compiler="nvcc 13.0.88",
    cublas="13.1", torch="2.13", cutlass="4.2.0", flags=("-O3",), tuner="0.1.0",
)  # fmt: skip


@cache
def whole() -> Candidates:
    return SPACE.candidates(PROBLEMS, DEVICE)


@cache
def kernels() -> tuple[KernelConfig, ...]:
    """The first kernels that tune would build, and others drawn by lot: `KERNELS` in all."""
    table = whole()
    starts = OP.seeds(SPACE, table, OP.prior(table, PROBLEMS, DEVICE), PROBLEMS, DEVICE)[:12]
    drawn = np.random.default_rng(0).choice(len(table), 2 * KERNELS, replace=False).tolist()
    keys = {one.kernel.key: one.kernel for one in starts}
    keys |= {table.kernel(row).key: table.kernel(row) for row in drawn}
    return tuple(keys.values())[:KERNELS]


def log_ratio(kernel: KernelConfig, problem: Problem) -> float:
    """A time that follows the analytic estimate, with something of the kernel's own."""
    table = whole()
    row = table.row(kernel)
    assert row is not None
    estimate = OP.prior(table.take(np.array([row])), [problem], DEVICE)[0, 0]
    surprise = int(kernel.digest[:4], 16) / 0xFFFF - 0.5
    return float(np.log(estimate / 20.0)) + 0.3 * surprise


def measured(kernel: KernelConfig, problem: Problem, log: float, at_s: float, rounds: int = 3) -> Measured:
    """Rounds that scatter by about a per cent, each kernel's in its own way, around exp(log) times torch's
    time, which is their median."""
    below, above = (int(kernel.digest[place], 16) / 1500 for place in (0, 1))
    scatter = np.linspace(-below, above, rounds)
    scatter[rounds // 2] = 0.0
    one = Measurement(
        kernel=kernel, launch=LAUNCH, problem=problem.key, reference="torch",
        samples_us=tuple((20.0 * np.exp(log + scatter)).tolist()), reference_us=(20.0,) * rounds,
        launches_per_sample=20, l2="cold", readback=READBACK, evidence=EVIDENCE, verdict=Verdict(passed=True),
    )  # fmt: skip
    return Measured(measurement=one, at_s=at_s)


def built(
    kernel: KernelConfig, at_s: float, source: str = "sampler", compile_s: float = COMPILE_S
) -> KernelBuilt:
    build = Build(
        kernel=kernel, symbol="s", cubin="c", host_library="h", index=0, registers=1, spill_bytes=0,
        smem_bytes=1, threads=128, stages=2, params_bytes=1, cubin_bytes=1, compile_s=compile_s, batch_size=1,
        cached=False,
    )  # fmt: skip
    return KernelBuilt(proposal=Proposal(kernel=kernel, source=source), build=build, at_s=at_s)


def failed(kernel: KernelConfig, at_s: float) -> KernelFailed:
    failure = Failure(stage="build", reason="too many registers")
    return KernelFailed(proposal=Proposal(kernel=kernel, source="sampler"), failure=failure, at_s=at_s)


def told(kernel: KernelConfig, ratios: dict[str, float], at_s: float) -> KernelTold:
    return KernelTold(kernel=kernel, log_ratio=ratios, at_s=at_s)


def one_kernel(kernel: KernelConfig, at_s: float, problems: Sequence[Problem] = PROBLEMS) -> Iterator[Event]:
    """Built, measured and told, `SCREEN_S` seconds of it measuring."""
    yield built(kernel, at_s)
    ratios = {problem.key: log_ratio(kernel, problem) for problem in problems}
    for problem in problems:
        yield measured(kernel, problem, ratios[problem.key], at_s + 1.0)
    yield told(kernel, ratios, at_s + SCREEN_S)


def whole_study() -> list[Event]:
    """Every kernel in turn, `WAIT_S` between them."""
    each = SCREEN_S + WAIT_S
    return [event for number, kernel in enumerate(kernels()) for event in one_kernel(kernel, each * number)]


def write(
    root: Path, events: Sequence[Event], problems: Sequence[Problem] = PROBLEMS, **header: object
) -> Study:
    """The study `recorded` under `root`, as it is read."""
    values = {
        "name": "recorded", "op": "hgemm", "family": "tma_ws", "environment": ENVIRONMENT, "device": DEVICE,
        "space_digest": SPACE.digest, "l2": "cold", "created": "2026-11-30T12:00:00+00:00",
    } | header  # fmt: skip
    head = StudyHeader.model_validate(values)
    with Study.open_or_create(root, head, problems) as study:
        for event in events:
            study.append(event)
    return Study.load(root, "recorded")
