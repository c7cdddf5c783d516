"""The options several commands share, so that one option has one name, one help text and one meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutlass_tuner.cli.values import pairs
from cutlass_tuner.errors import UserError
from cutlass_tuner.options import CompilerName, SpaceOptions, ToolchainOptions
from cutlass_tuner.records import L2Mode
from cutlass_tuner.settings import settings

Op = Annotated[str, typer.Option("--op", metavar="OP", help="The operation: hgemm, fmha or fmha-bf16.")]
Shapes = Annotated[
    Path,
    typer.Option(
        "--shapes",
        metavar="FILE",
        help="CSV of problems. Columns: of hgemm m,n,k and optionally batch; of fmha batch,heads_q,heads_kv,"
        "seqlen_q,seqlen_kv,head_dim,causal and optionally align; of both optionally layout,count,name.",
    ),
]
Studies = Annotated[
    Path | None,
    typer.Option(
        "--studies", metavar="DIR", help="Where studies are (CUTLASS_TUNER_STUDIES, else ./studies)."
    ),
]
Study = Annotated[str, typer.Argument(metavar="STUDY", help="A study's name, or its folder.")]
L2 = Annotated[
    L2Mode,
    typer.Option("--l2", metavar="cold|warm", help="Time with the operands out of the L2 cache, or in it."),
]
Gpu = Annotated[int, typer.Option("--gpu", metavar="INDEX", help="The GPU, as nvidia-smi numbers it.")]

SpaceFile = Annotated[
    Path | None,
    typer.Option("--space", metavar="FILE", help="A space of your own instead of the shipped one."),
]
Family = Annotated[
    str | None, typer.Option("--only", metavar="FAMILY", help="Search this kernel family alone.")
]
Fix = Annotated[
    list[str] | None,
    typer.Option(
        "--fix",
        metavar="KNOB=VALUE",
        help="Keep a knob at one value (docs/knobs.md lists them). May be given several times.",
    ),
]

Nvcc = Annotated[
    Path | None,
    typer.Option("--nvcc", metavar="PATH", help="The nvcc (else CUDA_HOME, PATH, then the PyPI wheels)."),
]
Cutlass = Annotated[
    Path | None,
    typer.Option(
        "--cutlass", metavar="DIR", help="A CUTLASS checkout (else CUTLASS_PATH, then the package)."
    ),
]
Compiler = Annotated[
    CompilerName, typer.Option("--compiler", metavar="nvcc|nvrtc", help="What compiles the device code.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", help="Compilers at once (else what cores and memory allow)."),
]

History = Annotated[
    bool,
    typer.Option(
        "--history/--no-history",
        help="Show the model results of nearby shapes from earlier studies on the same GPU.",
    ),
]


def studies_dir(given: Path | None) -> Path:
    """The folder to read studies from: the option, else what the environment says.

    Raises UserError for an option that names no folder. The default may be absent: before the first tune
    there are only the shipped studies.
    """
    if given is not None and not given.is_dir():
        raise UserError(
            f"--studies {given}: no such folder; give the one that tune wrote to, or leave the option out"
        )
    return new_studies_dir(given)


def new_studies_dir(given: Path | None) -> Path:
    """The folder to write studies to, which makes it: the option, else what the environment says."""
    return given or settings().studies_dir


def toolchain(
    nvcc: Path | None, cutlass: Path | None, compiler: CompilerName = "nvcc", jobs: int | None = None
) -> ToolchainOptions:
    """The toolchain options of a command, with CUTLASS_PATH as the second choice for CUTLASS."""
    return ToolchainOptions(nvcc, cutlass or settings().cutlass_dir, compiler, jobs)


def space(file: Path | None, family: str | None, fix: list[str] | None) -> SpaceOptions:
    """The space options of a command. Raises UserError for a --fix that is no knob=value."""
    return SpaceOptions(file, family, pairs(fix or (), "--fix"))
