"""A study's results as JSON (everything, typed) and CSV (one line a problem, for spreadsheets)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from cutlass_tuner.records import Environment, L2Mode, Problem, Record
from cutlass_tuner.results import Outcome


class ExportRow(Record):
    """One problem of a GEMM study and the best verified kernel on it.

    Times are device microseconds a call, medians of one final. `speedup_*` is the baseline's time
    divided by ours, of paired samples, above 1 where ours is faster; `speedup_torch_best_layout` is
    against torch with its operands stored as it likes best. `speedup_torch_low` and `_high` bound the
    ratio to torch with 95 % confidence. `outcome_*` is the verdict of each ratio (`results.Outcome`).
    `roofline` is the part of the measured roofline that ours reaches, 1 = all of it. `tflops` counts
    2·m·n·k·batch for a GEMM. `kernel` and `launch` are the keys that the study's records use,
    `run_command` is the same configuration as `cutlass-tuner run` takes it. Fields about our kernel
    are None where no kernel of ours was right, and `why` says so.
    """

    problem: Problem
    kernel: str | None = None
    launch: str | None = None
    run_command: str | None = None
    symbol: str | None = None
    time_us: float | None = None
    torch_us: float | None = None
    cublaslt_us: float | None = None
    cublaslt_tuned_us: float | None = None
    speedup_torch: float | None = None
    speedup_torch_low: float | None = None
    speedup_torch_high: float | None = None
    speedup_torch_best_layout: float | None = None
    speedup_cublaslt: float | None = None
    speedup_cublaslt_tuned: float | None = None
    outcome_torch: Outcome = "missing"
    outcome_cublaslt: Outcome = "missing"
    outcome_cublaslt_tuned: Outcome = "missing"
    roofline: float | None = None
    tflops: float | None = None
    registers: int | None = None
    smem_bytes: int | None = None
    workspace_bytes: int | None = None
    error_over_bound: float | None = None
    why: str = ""


class BaselineFigures(Record):
    """A baseline on one problem: its time in microseconds, its time divided by ours with the bounds of 95 %
    confidence, and the verdict. `why` says why there is no ratio."""

    us: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    outcome: Outcome = "missing"
    why: str = ""


class ContestRow(Record):
    """One problem of a study of any op, and the best verified kernel on it.

    `baselines` has every baseline of the op by name, in the op's order; `best_baseline` names the fastest one
    that was right. The other fields are those of `ExportRow`; `tflops` counts what the op calls its work.
    """

    problem: Problem
    kernel: str | None = None
    launch: str | None = None
    run_command: str | None = None
    symbol: str | None = None
    time_us: float | None = None
    tflops: float | None = None
    roofline: float | None = None
    best_baseline: str | None = None
    baselines: dict[str, BaselineFigures]
    registers: int | None = None
    smem_bytes: int | None = None
    workspace_bytes: int | None = None
    error_over_bound: float | None = None
    why: str = ""


class ExportTable(Record):
    """All rows of a study with what made them comparable. The JSON export is this record.

    `simulated` names the recorded study the figures were replayed from; "", and not written, where a GPU
    measured them.
    """

    study: str
    simulated: str = ""
    date: str
    l2: L2Mode
    environment: Environment
    rows: tuple[ExportRow, ...] | tuple[ContestRow, ...]


def to_json(table: ExportTable) -> str:
    """The table as JSON, which `ExportTable.model_validate_json` reads back unchanged."""
    return table.model_dump_json(indent=2, exclude=None if table.simulated else {"simulated"}) + "\n"


def to_csv(rows: Sequence[ExportRow | ContestRow], simulated: str = "") -> str:
    """One header line and one line a problem: its dims, layout, count and name, then the result, of each
    baseline its time, ratio and outcome. The figures of a simulated study have its recording's name in a
    last column.

    An absent value is an empty field. Floats are written as Python's shortest exact text.
    """
    lines = [_line(row) for row in rows]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    dims = list(dict.fromkeys(name for row in rows for name in row.problem.dims))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    label = {"simulated": simulated} if simulated else {}
    writer.writerow([*dims, "layout", "count", "name", *columns, *label])
    for row, line in zip(rows, lines, strict=True):
        problem = row.problem
        extents = [problem.dims.get(name, "") for name in dims]
        values = [line.get(name) for name in columns]
        writer.writerow([*extents, problem.layout, problem.count, problem.name, *values, *label.values()])
    return out.getvalue()


def _line(row: ExportRow | ContestRow) -> dict[str, object]:
    """A row's cells by column, without those of its problem."""
    cells: dict[str, object] = {}
    for name in type(row).model_fields:
        value = getattr(row, name)
        if name == "baselines":
            for baseline, figures in value.items():
                column = baseline.replace("-", "_")
                cells[f"{column}_us"] = figures.us
                cells[f"{column}_ratio"], cells[f"{column}_outcome"] = figures.ratio, figures.outcome
        elif name != "problem":
            cells[name] = value
    return cells
