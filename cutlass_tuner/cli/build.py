"""`cutlass-tuner build`: fill the cache of kernels ahead of a tune, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.options import BuildOptions


def build(
    *,
    op: arguments.Op,
    arch: Annotated[
        str, typer.Option("--arch", metavar="ARCH", help="The architecture to build for.")
    ] = BuildOptions.arch,
    shapes: Annotated[
        Path | None,
        typer.Option(
            "--shapes", metavar="FILE", help="Build what a tune of these problems would start from."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Build at most this many kernels.")
    ] = None,
    fix: arguments.Fix = None,
    only: arguments.Family = None,
    space: arguments.SpaceFile = None,
    jobs: arguments.Jobs = None,
    nvcc: arguments.Nvcc = None,
    cutlass: arguments.Cutlass = None,
    compiler: arguments.Compiler = "nvcc",
) -> None:
    """Compile kernels into the cache, without a GPU.

    Needs nvcc and g++. A later tune on the GPU machine with the same toolchain finds them there.
    """
    options = BuildOptions(
        op=op,
        arch=arch,
        shapes=shapes,
        limit=limit,
        space=arguments.space(space, only, fix),
        toolchain=arguments.toolchain(nvcc, cutlass, compiler, jobs),
    )

    from cutlass_tuner import pipeline

    print(pipeline.build(options))
