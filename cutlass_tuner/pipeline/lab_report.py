"""What the lab found, written down: a page, pictures, and the curves as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from cutlass_tuner.compare.regret import Expectation, Run, by_cost
from cutlass_tuner.errors import UserError
from cutlass_tuner.pipeline.lab_arms import DEFAULT
from cutlass_tuner.pipeline.lab_page import (
    BUILDS,
    COMPILE,
    COST_TARGET,
    DEVICE,
    IDEAS,
    command,
    head,
    page,
)
from cutlass_tuner.pipeline.lab_verdict import Outcome, verdict
from cutlass_tuner.records import Record
from cutlass_tuner.report import curves

GRID = 240
"""Points of a curve against seconds."""

PAGE = "report.md"
CURVES = "lab.json"


class Curves(Record):
    """`lab.json`: every run's curves and all expectations, enough to draw everything again.

    `kernels[i]` is the key of the kernel that runs call i; `sources` counts who proposed the recorded ones;
    `known` maps a problem's key to log(time / torch) of its best recorded kernel.
    """

    study: str
    gpu: str
    recorded: str
    command: str
    builds: int
    kernels: tuple[str, ...]
    sources: dict[str, int]
    known: dict[str, float]
    runs: tuple[Run, ...]
    expectations: tuple[Expectation, ...]
    version: int = 1


def write(outcome: Outcome) -> list[str]:
    """Write the report's files to the folder asked for; a line for each thing to know about them."""
    out = outcome.options.out
    missing = curves.plots_missing()
    pictures = {} if missing else dict(_draw(outcome))
    try:
        (out / CURVES).write_text(_curves(outcome).model_dump_json() + "\n", encoding="utf-8")
        (out / PAGE).write_text(page(outcome, pictures), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"cannot write to {out}: {error.strerror}; choose another folder with --out"
        ) from error
    return [*filter(None, [missing]), f"report: {out / PAGE}"]


def summary(outcome: Outcome) -> str:
    """The table of arms and the verdict, for a terminal."""
    table = curves.arms_table(outcome.standings, COST_TARGET)
    notes = [f"note: {note}" for note in outcome.notes]
    return "\n".join([head(outcome), "", table, "", *verdict(outcome), *notes])


def _curves(outcome: Outcome) -> Curves:
    recorded = outcome.recorded
    problems = zip(recorded.problems, recorded.known.tolist(), strict=True)
    return Curves(
        study=outcome.study.name,
        gpu=outcome.study.header.environment.gpu,
        recorded=outcome.study.header.created,
        command=command(outcome),
        builds=outcome.options.builds,
        kernels=tuple(recorded.candidates.kernel(row).key for row in range(len(recorded))),
        sources=recorded.sources,
        known={problem.key: round(value, 6) for problem, value in problems},
        runs=tuple(outcome.runs),
        expectations=tuple(outcome.expectations),
    )


# --- pictures


def _draw(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Draw every picture; its name, and what is to be seen."""
    out, banded = outcome.options.out, _banded(outcome)
    builds = np.arange(outcome.options.builds + 1, dtype=np.float64)
    lines = [curves.curve(arm, builds, outcome.curves(arm), band=arm in banded) for arm in outcome.by_arm]
    curves.draw_curves(
        out / f"{BUILDS}.png", lines, "kernels built", f"{outcome.study.name}: regret by builds"
    )
    yield BUILDS, "Regret against kernels built"
    kinds: tuple[tuple[str, Literal["compile_s", "device_s"], str, str], ...] = (
        (COMPILE, "compile_s", "compiling, CPU seconds", "regret by compile time"),
        (DEVICE, "device_s", "measuring, seconds on the GPU", "regret by device time"),
    )
    for name, cost, axis, title in kinds:
        lines = [_by_cost(arm, runs, cost, arm in banded) for arm, runs in outcome.by_arm.items()]
        curves.draw_curves(out / f"{name}.png", lines, axis, f"{outcome.study.name}: {title}")
        yield name, f"Regret against seconds of {axis.split(',')[0]}"
    points = [(e.expected, e.achieved, e.bottleneck) for e in outcome.expectations if e.achieved is not None]
    if points:
        curves.draw_calibration(out / f"{IDEAS}.png", points, "what ideas expected, and what they got")
        yield IDEAS, "Each idea's expectation against what its kernels reached"


def _banded(outcome: Outcome) -> set[str | None]:
    """The arms that the verdict compares."""
    return {outcome.leader(llm=True), outcome.leader(llm=False), DEFAULT}


def _by_cost(
    arm: str, runs: Sequence[Run], cost: Literal["compile_s", "device_s"], band: bool
) -> curves.Curve:
    """Up to where the first of the runs ends: further on, the mean would be of the others alone."""
    x = np.linspace(0.0, min(getattr(run, cost)[-1] for run in runs), GRID)
    return curves.curve(arm, x, by_cost(runs, cost, x), band=band)
