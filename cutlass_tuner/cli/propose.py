"""`cutlass-tuner propose`: a request for any language model, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.options import ProposeOptions


def propose(
    *,
    op: arguments.Op,
    shapes: arguments.Shapes,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Where the request goes, a Markdown file.")
    ] = Path("request.md"),
    like: Annotated[
        str | None,
        typer.Option("--like", metavar="STUDY", help="Tune for the GPU of this study (else any of --arch)."),
    ] = None,
    arch: Annotated[
        str, typer.Option("--arch", metavar="ARCH", help="The architecture to propose kernels for.")
    ] = ProposeOptions.arch,
    history: arguments.History = ProposeOptions.history,
    fix: arguments.Fix = None,
    only: arguments.Family = None,
    space: arguments.SpaceFile = None,
    studies: arguments.Studies = None,
) -> None:
    """Write what a language model is asked at the start of a tune: the prompt and the schema of the answer.

    Give the file to any model, and its answer to tune with --llm replay:DIR. No GPU, no network.
    """
    options = ProposeOptions(
        op=op,
        shapes=shapes,
        studies=arguments.new_studies_dir(studies),
        out=out,
        arch=arch,
        like=like,
        history=history,
        space=arguments.space(space, only, fix),
    )

    from cutlass_tuner import pipeline

    print(pipeline.propose(options))
