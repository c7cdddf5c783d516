"""`cutlass-tuner export`: a study's winners as a C++ header, a PyTorch op, JSON or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.options import ExportFormat, ExportOptions


def export(
    *,
    study: arguments.Study,
    format: Annotated[
        ExportFormat,
        typer.Option("--format", metavar="header|torch|json|csv|training", help="What to write."),
    ] = ExportOptions.format,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The folder to write to (else a header goes to the study's, a shipped study's to "
            "./STUDY-export; text to stdout).",
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="The C++ namespace of the header.")
    ] = ExportOptions.namespace,
    max_kernels: Annotated[
        int | None,
        typer.Option(
            "--max-kernels", metavar="N", help="Ship at most N kernels, at the least loss of speed."
        ),
    ] = None,
    studies: arguments.Studies = None,
) -> None:
    """Export a study as a C++ header, a PyTorch op, JSON, CSV or training data.

    The header comes with one .cu to compile and a benchmark of its own, and needs nothing but CUTLASS; torch
    adds a Python module, whose op works under torch.compile and in CUDA graphs.
    """
    options = ExportOptions(
        study=study,
        studies=arguments.studies_dir(studies),
        format=format,
        out=out,
        namespace=namespace,
        max_kernels=max_kernels,
    )

    from cutlass_tuner import pipeline

    print(pipeline.export(options))
