"""`cutlass-tuner tune`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.cli.values import duration_s
from cutlass_tuner.options import Effort, LlmOptions, SamplerName, TuneOptions


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
            help="Stop once every shape's best kernel is this many times as fast as torch, as screened.",
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
    simulate: Annotated[
        str | None,
        typer.Option(
            "--simulate",
            metavar="STUDY",
            help="Replay this recorded study instead of building and measuring. Needs no GPU.",
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm",
            metavar="WHO",
            help="Who proposes ideas: anthropic, manual (with --replies), replay:DIR or none (else "
            "anthropic where a credential is set).",
        ),
    ] = None,
    replies: Annotated[
        Path | None,
        typer.Option(
            "--replies", metavar="DIR", help="With --llm manual: requests are written here and replies read."
        ),
    ] = None,
    llm_model: Annotated[
        str, typer.Option("--llm-model", metavar="ID", help="The model that is asked.")
    ] = LlmOptions.model,
    llm_effort: Annotated[
        Effort, typer.Option("--llm-effort", metavar="low|medium|high", help="How long it may think.")
    ] = LlmOptions.effort,
    llm_max_tokens: Annotated[
        int, typer.Option("--llm-max-tokens", metavar="N", help="The most tokens of one answer.")
    ] = LlmOptions.max_tokens,
    llm_max_usd: Annotated[
        float, typer.Option("--llm-max-usd", metavar="USD", help="The most that a run may spend on a model.")
    ] = LlmOptions.max_usd,
    llm_rounds: Annotated[
        int, typer.Option("--llm-rounds", metavar="N", help="How often the model is asked at most.")
    ] = LlmOptions.rounds,
    history: arguments.History = LlmOptions.history,
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
        simulate=simulate,
        space=arguments.space(space, only, fix),
        toolchain=arguments.toolchain(nvcc, cutlass, compiler, jobs),
        llm=LlmOptions(
            llm=llm,
            replies=replies,
            model=llm_model,
            effort=llm_effort,
            max_tokens=llm_max_tokens,
            max_usd=llm_max_usd,
            rounds=llm_rounds,
            history=history,
        ),
    )

    from cutlass_tuner import pipeline

    print(pipeline.tune(options))
