"""`cutlass-tuner compare`: the baselines on their own, or beside a study's winners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.options import CompareOptions


def compare(
    *,
    op: arguments.Op,
    shapes: arguments.Shapes,
    study: Annotated[
        str | None,
        typer.Option("--study", metavar="STUDY", help="Measure this study's winners beside the baselines."),
    ] = None,
    studies: arguments.Studies = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Also write the raw samples here, as JSON lines."),
    ] = None,
    l2: arguments.L2 = CompareOptions.l2,
    jobs: arguments.Jobs = None,
    nvcc: arguments.Nvcc = None,
    cutlass: arguments.Cutlass = None,
    compiler: arguments.Compiler = "nvcc",
    gpu: arguments.Gpu = CompareOptions.gpu,
) -> None:
    """Measure the baselines, and a study's winners beside them.

    Of a GEMM they are torch.matmul, cuBLASLt's first choice, and cuBLASLt with every algorithm timed; of
    attention torch's scaled_dot_product_attention as it chooses, each of its backends, and the flash-attn
    packages that are installed. All entrants of a shape are interleaved in one process.
    """
    options = CompareOptions(
        op=op,
        shapes=shapes,
        studies=arguments.studies_dir(studies),
        study=study,
        save=save,
        l2=l2,
        gpu=gpu,
        toolchain=arguments.toolchain(nvcc, cutlass, compiler, jobs),
    )

    from cutlass_tuner import pipeline

    print(pipeline.compare(options))
