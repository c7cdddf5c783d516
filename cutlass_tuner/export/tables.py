"""A study's results as JSON (everything, typed) and CSV (one line a problem, for spreadsheets)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from cutlass_tuner.records import Environment, L2Mode, Problem, Record
from cutlass_tuner.results import Outcome


class ExportRow(Record):
    """One problem of a study and the best verified kernel on it.

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
    rows: tuple[ExportRow, ...]


def to_json(table: ExportTable) -> str:
    """The table as JSON, which `ExportTable.model_validate_json` reads back unchanged."""
    return table.model_dump_json(indent=2, exclude=None if table.simulated else {"simulated"}) + "\n"


def to_csv(rows: Sequence[ExportRow], simulated: str = "") -> str:
    """One header line and one line a problem: its dims, layout, count and name, then the result. The
    figures of a simulated study have its recording's name in a last column.

    An absent value is an empty field. Floats are written as Python's shortest exact text.
    """
    dims = list(dict.fromkeys(name for row in rows for name in row.problem.dims))
    results = [name for name in ExportRow.model_fields if name != "problem"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    label = {"simulated": simulated} if simulated else {}
    writer.writerow([*dims, "layout", "count", "name", *results, *label])
    for row in rows:
        problem = row.problem
        extents = [problem.dims.get(name, "") for name in dims]
        values = [getattr(row, name) for name in results]
        writer.writerow([*extents, problem.layout, problem.count, problem.name, *values, *label.values()])
    return out.getvalue()
