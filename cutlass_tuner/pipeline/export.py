"""`export`: a study's winners as a C++ header, JSON or CSV."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from cutlass_tuner import settings
from cutlass_tuner.build.toolchain import find_cutlass
from cutlass_tuner.emit.gemm3x import HOST_HEADER
from cutlass_tuner.errors import UserError
from cutlass_tuner.export import header, tables, training
from cutlass_tuner.export.rerun import run_command
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned, substitute
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ExportOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.show import open_study, study_rows
from cutlass_tuner.records import Config, KernelConfig
from cutlass_tuner.report.tables import counted
from cutlass_tuner.results import LT, LT_TUNED, TORCH, Row
from cutlass_tuner.study import Study
from cutlass_tuner.study.fared import fared
from cutlass_tuner.verify.tolerance import tolerance


def export(options: ExportOptions) -> str:
    """Write the study down; what is printed names the files, or is the text itself."""
    study = open_study(options.study, options.studies)
    op = registry.op(study.header.op)
    rows = study_rows(study, op)
    try:
        return _written(study, op, rows, options)
    except OSError as error:
        folder = header_folder(study, options) if options.format == "header" else options.out
        raise UserError(
            f"cannot write to {folder}: {error.strerror}; choose another folder with --out DIR"
        ) from error


def _written(study: Study, op: registry.Op, rows: list[Row], options: ExportOptions) -> str:
    if options.format == "header":
        return _said(write_header(study, op, rows, options), study)
    if options.format == "training":
        return _placed(training.to_jsonl(search_log(study)), f"{study.name}.training.jsonl", options)
    table = tables.ExportTable(
        study=study.name,
        simulated=study.header.simulated,
        date=study.header.created,
        l2=study.header.l2,
        environment=study.header.environment,
        rows=tuple(_export_row(study, op, row) for row in rows),
    )
    text = tables.to_json(table) if options.format == "json" else tables.to_csv(table.rows, table.simulated)
    return _placed(text, f"{study.name}.{options.format}", options)


def _placed(text: str, name: str, options: ExportOptions) -> str:
    """The text itself, or the path of the file of that name under `--out`."""
    if options.out is None:
        return text.rstrip("\n")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def search_log(study: Study) -> training.SearchLog:
    """What the training export takes of a study."""
    ledger = study.ledger
    return training.SearchLog(
        header=study.header,
        asked=ledger.asked,
        answered=ledger.answered,
        fared=fared(ledger),
        proposals=ledger.proposals,
        builds=ledger.builds,
        failed=ledger.failed,
        measured=ledger.measured,
        run_failures=ledger.run_failures,
        rankings={problem: ledger.ranking(problem) for problem in ledger.measured},
    )


def header_folder(study: Study, options: ExportOptions) -> Path:
    """Where a header goes: `--out`, else the study's folder, but for a shipped study the current one.

    The package's own data are no place for a user's files. Where the user's studies are the shipped ones,
    as in a checkout, they are the user's.
    """
    if options.out is not None:
        return options.out
    shipped = settings.data_dir("studies").resolve()
    if study.folder.resolve().parent == shipped and options.studies.resolve() != shipped:
        return Path(f"{study.folder.name}-export")
    return study.folder / "export"


def write_header(study: Study, op: registry.Op, rows: list[Row], options: ExportOptions) -> header.Exported:
    """The header and its companions, from the final winners."""
    tuned = [_tuned(op, row) for row in rows if row.winner is not None]
    if study.header.simulated:  # nothing that no GPU measured may claim to beat a baseline
        tuned = [replace(one, beats_baselines=False) for one in tuned]
    limited = options.max_kernels is not None
    others = [other for winner in tuned for other in _substitutes(op, study, winner)] if limited else []
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
            simulated=study.header.simulated,
        ),
        tolerance=tolerance(op.contract),
        out_dir=header_folder(study, options),
        namespace=options.namespace,
        max_kernels=options.max_kernels,
        alternatives=others,
    )


def _command(options: ExportOptions) -> str:
    """What writes the same header again, wherever to: `--out` is not part of it.

    A folder of studies is there only as the user typed it; one from the environment is the machine's.
    """
    words = ["cutlass-tuner", "export", options.study, "--format", "header", "--namespace", options.namespace]
    if options.studies != settings.settings().studies_dir:
        words += ["--studies", str(options.studies)]
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
        beats_baselines=row.beats_baselines,
    )


def _substitutes(op: registry.Op, study: Study, winner: Tuned) -> list[Tuned]:
    """The other verified configurations on the winner's problem, fastest first.

    None where the final has no ratio to torch, the reference that the search ranks by.
    """
    if winner.speedup_torch is None:
        return []
    return [
        substitute(
            winner,
            Config(kernel=best.measurement.kernel, launch=best.measurement.launch),
            op.launch_codes(best.measurement.launch),
            best.speedup,
        )
        for best in study.ledger.ranking(winner.problem.key)
    ]


def _ratio(row: Row, baseline: str) -> float | None:
    pair = row.ratios.get(baseline)
    return None if pair is None else pair.ratio


def _export_row(study: Study, op: registry.Op, row: Row) -> tables.ExportRow:
    if row.winner is None:
        return tables.ExportRow(
            problem=row.problem,
            torch_us=row.baseline_us.get(TORCH),
            cublaslt_us=row.baseline_us.get(LT),
            cublaslt_tuned_us=row.baseline_us.get(LT_TUNED),
            why=row.why,
        )
    build = study.ledger.builds.get(row.winner.kernel.key)
    measured = [
        m
        for m in study.measurements(row.problem.key)
        if m.kernel == row.winner.kernel and m.launch == row.winner.launch
    ]
    last = measured[-1] if measured else None
    torch = row.ratios.get(TORCH)
    return tables.ExportRow(
        problem=row.problem,
        kernel=row.winner.kernel.key,
        launch=row.winner.launch.key,
        run_command=run_command(row.problem, row.winner, row.l2, study.header.environment.compiler),
        symbol=setup.emitter(op).symbol(row.winner.kernel),
        time_us=row.ours_us,
        torch_us=row.baseline_us.get(TORCH),
        cublaslt_us=row.baseline_us.get(LT),
        cublaslt_tuned_us=row.baseline_us.get(LT_TUNED),
        speedup_torch=torch.ratio if torch else None,
        speedup_torch_low=torch.low if torch else None,
        speedup_torch_high=torch.high if torch else None,
        speedup_torch_best_layout=row.best_layout.ratio if row.best_layout else None,
        speedup_cublaslt=_ratio(row, LT),
        speedup_cublaslt_tuned=_ratio(row, LT_TUNED),
        outcome_torch=row.outcomes.get(TORCH, "missing"),
        outcome_cublaslt=row.outcomes.get(LT, "missing"),
        outcome_cublaslt_tuned=row.outcomes.get(LT_TUNED, "missing"),
        roofline=row.roofline,
        tflops=row.tflops,
        registers=build.registers if build else None,
        smem_bytes=build.smem_bytes if build else None,
        workspace_bytes=last.readback.workspace_bytes if last else None,
        error_over_bound=last.evidence.error_over_bound if last else None,
        why=row.why,
    )


def _said(exported: header.Exported, study: Study) -> str:
    if exported.unserved:
        left = ", ".join(problem.label for problem in exported.unserved)
        print(f"left out by --max-kernels: {left}", file=sys.stderr)
    files = "\n".join(f"  {path}" for path in exported.files)
    loss = f", {exported.loss:.1%} slower than with all" if exported.loss > 0 else ""
    searched = sum(tuned.from_search for tuned in exported.served)
    marked = f"; figures of {counted(searched, 'shape')} are from the search, marked ~" if searched else ""
    origin = f"SIMULATED, replayed from {study.header.simulated}: " if study.header.simulated else ""
    return (
        f"{origin}{counted(exported.shapes, 'shape')}, {counted(len(exported.kernels_used), 'kernel')}"
        f"{loss}{marked}\n{files}\n{_compile_lines(exported, study.header.environment.cutlass)}"
    )


def _compile_lines(exported: header.Exported, measured: str) -> str:
    """What compiles the export on this machine, to paste. `measured` is the study's version of CUTLASS."""
    try:
        found = find_cutlass()
    except UserError as error:
        root, says = "/path/to/cutlass", str(error)
    else:
        root, says = str(found.root), f"CUTLASS {found.version} of {found.origin}"
    return (
        f"compile with ({says}; measured with {measured}):\n"
        f"  cd {shlex.quote(str(exported.source.parent))}\n"
        f"  CUTLASS={shlex.quote(root)}\n"
        f"  {exported.nvcc_line}"
    )
