"""`export`: a study's winners as a C++ header, JSON or CSV."""

from __future__ import annotations

import shlex
import sys

from cutlass_tuner.emit.gemm3x import HOST_HEADER
from cutlass_tuner.errors import UserError
from cutlass_tuner.export import header, tables
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ExportOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.show import open_study, study_rows
from cutlass_tuner.records import Config, KernelConfig, Measurement
from cutlass_tuner.report.tables import counted
from cutlass_tuner.results import LT_TUNED, TORCH, Row
from cutlass_tuner.statistics import Paired
from cutlass_tuner.study import Study
from cutlass_tuner.verify.tolerance import tolerance


def export(options: ExportOptions) -> str:
    """Write the study down; what is printed names the files, or is the text itself."""
    study = open_study(options.study, options.studies)
    op = registry.op(study.header.op)
    rows = study_rows(study, op)
    try:
        return _written(study, op, rows, options)
    except OSError as error:
        folder = options.out or study.folder
        raise UserError(
            f"cannot write to {folder}: {error.strerror}; choose another folder with --out DIR"
        ) from error


def _written(study: Study, op: registry.Op, rows: list[Row], options: ExportOptions) -> str:
    if options.format == "header":
        return _said(write_header(study, op, rows, options))
    table = tables.ExportTable(
        study=study.name,
        date=study.header.created,
        l2=study.header.l2,
        environment=study.header.environment,
        rows=tuple(_export_row(study, op, row) for row in rows),
    )
    text = tables.to_json(table) if options.format == "json" else tables.to_csv(table.rows)
    if options.out is None:
        return text.rstrip("\n")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{study.name}.{options.format}"
    path.write_text(text, encoding="utf-8")
    return str(path)


def write_header(study: Study, op: registry.Op, rows: list[Row], options: ExportOptions) -> header.Exported:
    """The header and its companions, from the final winners."""
    tuned = [_tuned(op, row) for row in rows if row.winner is not None]
    others = [
        _alternative(op, study, row, best.measurement, best.speedup)
        for row in rows
        if row.winner is not None
        for best in study.ledger.ranking(row.problem.key)
    ]
    kernels = {t.kernel_key: t.config.kernel for t in [*tuned, *others]}
    emitter = setup.emitter(op)
    return header.write(
        tuned,
        {key: _text(kernel, op) for key, kernel in kernels.items()},
        includes=emitter.includes(),
        host_header=HOST_HEADER.read_text(encoding="utf-8"),
        provenance=Provenance(
            environment=study.header.environment,
            l2=study.header.l2,
            study=study.name,
            date=study.header.created,
            command=_command(options),
        ),
        tolerance=tolerance(op.contract),
        out_dir=options.out or study.folder / "export",
        namespace=options.namespace,
        max_kernels=options.max_kernels,
        alternatives=others,
    )


def _command(options: ExportOptions) -> str:
    """What writes the same header again."""
    words = ["cutlass-tuner", "export", options.study, "--format", "header", "--namespace", options.namespace]
    if options.max_kernels is not None:
        words += ["--max-kernels", str(options.max_kernels)]
    return shlex.join(words)


def _text(kernel: KernelConfig, op: registry.Op) -> KernelText:
    emitter = setup.emitter(op)
    return KernelText(
        config=kernel,
        symbol=emitter.symbol(kernel),
        type_definitions=emitter.type_definitions(kernel, op.contract),
        wrapper=emitter.kernel_wrapper(kernel),
        template_arguments=emitter.template_arguments(kernel),
    )


def _tuned(op: registry.Op, row: Row) -> Tuned:
    assert row.winner is not None and row.ours_us is not None
    return Tuned(
        problem=row.problem,
        config=row.winner,
        launch_codes=op.launch_codes(row.winner.launch),
        time_us=row.ours_us,
        speedup_torch=_ratio(row, TORCH),
        speedup_cublaslt_tuned=_ratio(row, LT_TUNED),
    )


def _alternative(op: registry.Op, study: Study, row: Row, measurement: Measurement, speedup: float) -> Tuned:
    """Another verified kernel on a problem. Its time is taken from its ratio to the common reference,
    so that it can be compared with the winner's whatever the card's power state was."""
    torch_us = row.baseline_us.get(TORCH)
    if torch_us is None:
        raise UserError(f"{study.name}: {row.problem.label} has no time of {TORCH} to rank kernels by")
    torch, tuned = row.ratios.get(TORCH), row.ratios.get(LT_TUNED)
    return Tuned(
        problem=row.problem,
        config=Config(kernel=measurement.kernel, launch=measurement.launch),
        launch_codes=op.launch_codes(measurement.launch),
        time_us=torch_us / speedup,
        speedup_torch=speedup,
        speedup_cublaslt_tuned=speedup * tuned.ratio / torch.ratio if tuned and torch else None,
    )


def _ratio(row: Row, baseline: str) -> float | None:
    pair: Paired | None = row.ratios.get(baseline)
    return None if pair is None else pair.ratio


def _export_row(study: Study, op: registry.Op, row: Row) -> tables.ExportRow:
    if row.winner is None:
        return tables.ExportRow(problem=row.problem, torch_us=row.baseline_us.get(TORCH), why=row.why)
    build = study.ledger.builds.get(row.winner.kernel.key)
    measured = [
        m
        for m in study.measurements(row.problem.key)
        if m.kernel == row.winner.kernel and m.launch == row.winner.launch
    ]
    last = measured[-1] if measured else None
    return tables.ExportRow(
        problem=row.problem,
        kernel=row.winner.kernel.key,
        launch=row.winner.launch.key,
        symbol=setup.emitter(op).symbol(row.winner.kernel),
        time_us=row.ours_us,
        torch_us=row.baseline_us.get(TORCH),
        cublaslt_tuned_us=row.baseline_us.get(LT_TUNED),
        speedup_torch=_ratio(row, TORCH),
        speedup_cublaslt_tuned=_ratio(row, LT_TUNED),
        tflops=row.tflops,
        registers=build.registers if build else None,
        smem_bytes=build.smem_bytes if build else None,
        workspace_bytes=last.readback.workspace_bytes if last else None,
        error_over_bound=last.evidence.error_over_bound if last else None,
        why=row.why,
    )


def _said(exported: header.Exported) -> str:
    if exported.unserved:
        left = ", ".join(problem.label for problem in exported.unserved)
        print(f"left out by --max-kernels: {left}", file=sys.stderr)
    files = "\n".join(f"  {path}" for path in exported.files)
    loss = f", {exported.loss:.1%} slower than with all" if exported.loss > 0 else ""
    return (
        f"{counted(exported.shapes, 'shape')}, {counted(len(exported.kernels_used), 'kernel')}"
        f"{loss}\n{files}\n"
        f"compile with (CUTLASS = a checkout of the version the header names):\n  {exported.nvcc_line}"
    )
