"""`export`: a study's winners as a C++ header, a PyTorch op, JSON or CSV."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from cutlass_tuner import settings
from cutlass_tuner.errors import UserError
from cutlass_tuner.export import tables, training
from cutlass_tuner.export.tuned import Provenance
from cutlass_tuner.ops import registry
from cutlass_tuner.options import KERNEL_FORMATS, ExportOptions
from cutlass_tuner.pipeline import export_attention, export_gemm
from cutlass_tuner.pipeline.export_rows import table
from cutlass_tuner.pipeline.show import open_study, study_rows
from cutlass_tuner.results import Row
from cutlass_tuner.study import Study
from cutlass_tuner.study.fared import fared

HeaderExporter = Callable[[Study, list[Row], ExportOptions, Provenance, Path], str]
"""Writes a study's winners as C++ into a folder and returns what to print about it."""

HEADERS: Mapping[str, HeaderExporter] = {"gemm3x": export_gemm.write, "attention": export_attention.write}
"""By the emitter whose kernels are shipped (`Op.emitter`)."""


def export(options: ExportOptions) -> str:
    """Write the study down; what is printed names the files, or is the text itself."""
    study = open_study(options.study, options.studies)
    op = registry.op(study.header.op)
    rows = study_rows(study, op)
    try:
        return _written(study, op, rows, options)
    except OSError as error:
        folder = header_folder(study, options) if options.format in KERNEL_FORMATS else options.out
        raise UserError(
            f"cannot write to {folder}: {error.strerror}; choose another folder with --out DIR"
        ) from error


def _written(study: Study, op: registry.Op, rows: list[Row], options: ExportOptions) -> str:
    if options.format in KERNEL_FORMATS:
        folder = header_folder(study, options)
        return HEADERS[op.emitter](study, rows, options, _provenance(study, options), folder)
    if options.format == "training":
        return _placed(training.to_jsonl(search_log(study)), f"{study.name}.training.jsonl", options)
    exported = table(study, op, rows)
    text = (
        tables.to_json(exported)
        if options.format == "json"
        else tables.to_csv(exported.rows, exported.simulated)
    )
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


def _provenance(study: Study, options: ExportOptions) -> Provenance:
    return Provenance(
        environment=study.header.environment,
        l2=study.header.l2,
        study=study.name,
        date=study.header.created,
        command=_command(options),
        simulated=study.header.simulated,
    )


def _command(options: ExportOptions) -> str:
    """What writes the same header again, wherever to: `--out` is not part of it.

    A folder of studies is there only as the user typed it; one from the environment is the machine's.
    """
    words = [
        "cutlass-tuner",
        "export",
        options.study,
        "--format",
        options.format,
        "--namespace",
        options.namespace,
    ]
    if options.studies != settings.settings().studies_dir:
        words += ["--studies", str(options.studies)]
    if options.max_kernels is not None:
        words += ["--max-kernels", str(options.max_kernels)]
    return shlex.join(words)
