"""`cutlass-tuner tune`: the main job."""

from __future__ import annotations

from typing import Annotated

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.cli.values import duration_s
from cutlass_tuner.options import SamplerName, TuneOptions


def tune(
    *,
    op: arguments.Op,
    shapes: arguments.Shapes,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Wall-clock time to search, like 90s, 10m, 1h30m.")
    ] = "10m",
    builds: Annotated[
        int | None,
        typer.Option(
            "--builds",
            metavar="N",
            help="Stop when the study holds this many kernels, earlier runs' included.",
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            "--target",
            metavar="RATIO",
            help="Stop once every shape's best kernel is this many times as fast as torch.matmul, "
            "as screened.",
        ),
    ] = None,
    sampler: Annotated[
        SamplerName,
        typer.Option("--sampler", metavar="portfolio|tpe|gp|random", help="What proposes the next kernels."),
    ] = TuneOptions.sampler,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of the sampler and of the inputs.")
    ] = TuneOptions.seed,
    fix: arguments.Fix = None,
    only: arguments.Family = None,
    space: arguments.SpaceFile = None,
    study: Annotated[
        str | None,
        typer.Option(
            "--study",
            metavar="NAME",
            help="The study's name (else made from op, the shapes file's name, GPU and space).",
        ),
    ] = None,
    studies: arguments.Studies = None,
    l2: arguments.L2 = TuneOptions.l2,
    jobs: arguments.Jobs = None,
    nvcc: arguments.Nvcc = None,
    cutlass: arguments.Cutlass = None,
    compiler: arguments.Compiler = "nvcc",
    gpu: arguments.Gpu = TuneOptions.gpu,
) -> None:
    """Find the fastest kernel for every shape by measuring.

    Kernels are built in the background and measured as they come. Ctrl-C ends cleanly and keeps what was
    measured; the same command goes on where it stopped.
    """
    options = TuneOptions(
        op=op,
        shapes=shapes,
        studies=arguments.new_studies_dir(studies),
        budget_s=duration_s(budget, "--budget"),
        builds=builds,
        target=target,
        sampler=sampler,
        seed=seed,
        study=study,
        l2=l2,
        gpu=gpu,
        space=arguments.space(space, only, fix),
        toolchain=arguments.toolchain(nvcc, cutlass, compiler, jobs),
    )

    from cutlass_tuner import pipeline

    print(pipeline.tune(options))
