"""A study's results as the JSON and CSV exports have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutlass_tuner.export.rerun import run_command
from cutlass_tuner.export.tables import BaselineFigures, ContestRow, ExportRow, ExportTable
from cutlass_tuner.ops import registry
from cutlass_tuner.pipeline import setup
from cutlass_tuner.results import LT, LT_TUNED, TORCH, Row
from cutlass_tuner.study import Study


def table(study: Study, op: registry.Op, rows: Sequence[Row]) -> ExportTable:
    """One row a problem: of an op that tunes a baseline with the fields a GEMM's table has."""
    exported: tuple[ExportRow, ...] | tuple[ContestRow, ...]
    if op.tunes_baseline:
        exported = tuple(_gemm_row(study, op, row) for row in rows)
    else:
        exported = tuple(_contest_row(study, op, row) for row in rows)
    return ExportTable(
        study=study.name,
        simulated=study.header.simulated,
        date=study.header.created,
        l2=study.header.l2,
        environment=study.header.environment,
        rows=exported,
    )


def _gemm_row(study: Study, op: registry.Op, row: Row) -> ExportRow:
    times: dict[str, Any] = {
        "torch_us": row.baseline_us.get(TORCH),
        "cublaslt_us": row.baseline_us.get(LT),
        "cublaslt_tuned_us": row.baseline_us.get(LT_TUNED),
    }
    if row.winner is None:
        return ExportRow(problem=row.problem, **times, why=row.why)
    torch = row.ratios.get(TORCH)
    return ExportRow(
        **_ours(study, op, row),
        **times,
        speedup_torch=torch.ratio if torch else None,
        speedup_torch_low=torch.low if torch else None,
        speedup_torch_high=torch.high if torch else None,
        speedup_torch_best_layout=row.best_layout.ratio if row.best_layout else None,
        speedup_cublaslt=_ratio(row, LT),
        speedup_cublaslt_tuned=_ratio(row, LT_TUNED),
        outcome_torch=row.outcomes.get(TORCH, "missing"),
        outcome_cublaslt=row.outcomes.get(LT, "missing"),
        outcome_cublaslt_tuned=row.outcomes.get(LT_TUNED, "missing"),
    )


def _contest_row(study: Study, op: registry.Op, row: Row) -> ContestRow:
    figures = {name: _figures(row, name) for name in op.baselines}
    if row.winner is None:
        return ContestRow(problem=row.problem, baselines=figures, why=row.why)
    return ContestRow(**_ours(study, op, row), baselines=figures, best_baseline=row.best_baseline)


def _figures(row: Row, name: str) -> BaselineFigures:
    pair = row.ratios.get(name)
    return BaselineFigures(
        us=row.baseline_us.get(name),
        ratio=pair.ratio if pair else None,
        low=pair.low if pair else None,
        high=pair.high if pair else None,
        outcome=row.outcomes.get(name, "missing"),
        why=row.missing.get(name, ""),
    )


def _ours(study: Study, op: registry.Op, row: Row) -> dict[str, Any]:
    """The fields about our kernel, which there is."""
    winner = row.winner
    assert winner is not None
    build = study.ledger.builds.get(winner.kernel.key)
    every = study.measurements(row.problem.key)
    measured = [m for m in every if m.kernel == winner.kernel and m.launch == winner.launch]
    last = measured[-1] if measured else None
    return {
        "problem": row.problem,
        "kernel": winner.kernel.key,
        "launch": winner.launch.key,
        "run_command": run_command(row.problem, winner, row.l2, study.header.environment.compiler),
        "symbol": setup.emitter(op).symbol(winner.kernel),
        "time_us": row.ours_us,
        "roofline": row.roofline,
        "tflops": row.tflops,
        "registers": build.registers if build else None,
        "smem_bytes": build.smem_bytes if build else None,
        "workspace_bytes": last.readback.workspace_bytes if last else None,
        "error_over_bound": last.evidence.error_over_bound if last else None,
        "why": row.why,
    }


def _ratio(row: Row, baseline: str) -> float | None:
    pair = row.ratios.get(baseline)
    return None if pair is None else pair.ratio
