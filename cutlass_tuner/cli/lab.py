"""`cutlass-tuner lab`: which way to search gets near the best with the fewest builds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.options import LabOptions


def lab(
    *,
    study: arguments.Study,
    studies: arguments.Studies = None,
    replies: Annotated[
        list[Path] | None,
        typer.Option(
            "--replies",
            metavar="DIR",
            help="A folder of a language model's recorded replies, or a study that asked for some. "
            "Repeatable: the seeds take turns.",
        ),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            "--arm", metavar="ARM", help="A way to search, like llm+portfolio (else all). Repeatable."
        ),
    ] = None,
    builds: Annotated[
        int, typer.Option("--builds", metavar="N", help="Kernels that every run may build.")
    ] = LabOptions.builds,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Runs of every arm.")] = LabOptions.seeds,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", help="Processes at once (else as many as cores).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The folder of the report (else ./lab-STUDY)."),
    ] = None,
) -> None:
    """Compare ways to search on a recorded study. Needs no GPU.

    Every way (arm) searches the recorded kernels again, many times. Prints how near each gets to the best of
    them after how many builds, and writes a report with curves.
    """
    options = LabOptions(
        data=study,
        studies=arguments.studies_dir(studies),
        out=out or Path(f"lab-{Path(study).name}"),
        replies=tuple(replies or ()),
        arms=tuple(arm) if arm else None,
        builds=builds,
        seeds=seeds,
        jobs=jobs,
    )

    from cutlass_tuner import pipeline

    print(pipeline.lab(options))
