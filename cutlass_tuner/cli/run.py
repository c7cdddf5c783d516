"""`cutlass-tuner run`: one hand-written config on one shape."""

from __future__ import annotations

from typing import Annotated

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.cli.values import extents, pairs
from cutlass_tuner.options import RunOptions


def run(
    *,
    op: arguments.Op,
    shape: Annotated[
        str,
        typer.Option(
            "--shape",
            metavar="EXTENTS",
            help="The problem's extents joined by x: of hgemm MxNxK[xBATCH], of fmha "
            "BATCHxHEADS_QxHEADS_KVxSEQLEN_QxSEQLEN_KVxHEAD_DIM[xCAUSAL].",
        ),
    ],
    layout: Annotated[
        str | None,
        typer.Option("--layout", metavar="LAYOUT", help="The operands' layout (else the op's default)."),
    ] = None,
    knobs: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KNOB=VALUE",
            help="A knob's value (docs/knobs.md lists them); others keep their default. Repeatable.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="FAMILY", help="The kernel family (else the first of the space)."),
    ] = None,
    space: arguments.SpaceFile = None,
    source: Annotated[bool, typer.Option("--source", help="Print the emitted C++ as well.")] = False,
    l2: arguments.L2 = RunOptions.l2,
    nvcc: arguments.Nvcc = None,
    cutlass: arguments.Cutlass = None,
    compiler: arguments.Compiler = "nvcc",
    gpu: arguments.Gpu = RunOptions.gpu,
) -> None:
    """Check, build, verify and time one config on one shape.

    Prints every broken rule with its reason, the compiler's flags, registers and spills, error, time and
    ratio.
    Exit status 1 unless it was built, ran and was right.
    """
    options = RunOptions(
        op=op,
        extents=extents(shape),
        layout=layout,
        knobs=pairs(knobs or (), "--set"),
        family=only,
        space_file=space,
        source=source,
        l2=l2,
        gpu=gpu,
        toolchain=arguments.toolchain(nvcc, cutlass, compiler),
    )

    from cutlass_tuner import pipeline

    ran = pipeline.run(options)
    print(ran.text)
    if not ran.right:
        raise typer.Exit(1)
