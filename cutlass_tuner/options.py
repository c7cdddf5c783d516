"""What a user asked a command for: one frozen dataclass a command, not yet checked against an op.

The CLI fills them and `pipeline` takes them, as does anybody who calls the pipeline from Python. Defaults
stand here and nowhere else. Knob values stay text: only the op's space knows whether "2" is a number or a
name. Making one raises UserError for a value that no op could accept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import L2Mode

SamplerName = Literal["portfolio", "tpe", "gp", "random"]
CompilerName = Literal["nvcc", "nvrtc"]
ExportFormat = Literal["header", "json", "csv", "training", "torch"]
KERNEL_FORMATS = ("header", "torch")
"""Formats that ship kernels."""
Effort = Literal["low", "medium", "high"]

NAMESPACE = "tuned"
_NAMESPACE = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", re.ASCII)
_NOT_OURS = """
std cutlass cute cuda cutlass_tuner asm auto bool break case catch char class const constexpr continue default
delete do double else enum explicit export extern false float for friend goto if inline int long mutable
namespace new operator private protected public register return short signed sizeof static struct switch
template this throw true try typedef typename union unsigned using virtual void volatile while
"""
"""Names that an exported header may not open: other libraries' namespaces, and C++'s keywords."""


def check_namespace(text: str) -> None:
    """Raises UserError for what cannot be the C++ namespace of an exported header."""
    if not _NAMESPACE.fullmatch(text) or set(text.split("::")) & set(_NOT_OURS.split()):
        raise UserError(
            f"--namespace {text!r}: must be a C++ namespace such as tuned or acme::gemm, "
            "no keyword and none of std, cuda, cute, cutlass"
        )


def _at_least(least: int, **values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')} is {value}; give a whole number from {least}")


@dataclass(frozen=True)
class ToolchainOptions:
    """What compiles. None means: look for it.

    `jobs` is how many compilers run at once at most (None: as many as cores and memory allow).
    """

    nvcc: Path | None = None
    cutlass: Path | None = None
    compiler: CompilerName = "nvcc"
    jobs: int | None = None

    def __post_init__(self) -> None:
        _at_least(1, jobs=self.jobs)


@dataclass(frozen=True)
class SpaceOptions:
    """Which part of which space is searched.

    `file` replaces the shipped space, `family` keeps one kernel family, `fix` maps a knob to the one value
    (as text) it may have.
    """

    file: Path | None = None
    family: str | None = None
    fix: Mapping[str, str] = field(default_factory=dict)


LLMS = ("anthropic", "manual", "none")
REPLAY = "replay:"


@dataclass(frozen=True)
class LlmOptions:
    """Which language model proposes ideas, and what it may cost.

    `llm` is "anthropic", "manual", "none" or "replay:DIR" (a folder of recorded replies, or a study); None is
    anthropic where a credential is set, else none. `replies` is the folder in which manual replies appear.
    `max_tokens` limits one answer, `max_usd` the whole run, `rounds` how often the model is asked. With
    `history` it is shown results of nearby shapes from earlier studies on the same GPU.
    """

    llm: str | None = None
    replies: Path | None = None
    model: str = "claude-opus-5-5"
    effort: Effort = "medium"
    max_tokens: int = 32_000
    max_usd: float = 2.0
    rounds: int = 6
    history: bool = True

    def __post_init__(self) -> None:
        known = self.llm is None or self.llm in LLMS or self.llm.startswith(REPLAY)
        if not known or self.llm == REPLAY:
            raise UserError(f"--llm {self.llm}: use {', '.join(LLMS)} or {REPLAY}DIR")
        _at_least(1, llm_max_tokens=self.max_tokens, llm_rounds=self.rounds)
        if not (0 < self.max_usd < math.inf):
            raise UserError(f"--llm-max-usd is {self.max_usd:g}; give an amount above 0, like 2")
        if (self.llm == "manual") != (self.replies is not None):
            raise UserError("--llm manual and --replies DIR belong together: replies are read from DIR")


@dataclass(frozen=True)
class ProposeOptions:
    """Write down what a language model is asked in the first round of a tune: prompt and schema.

    `out` is the file. `like` is a study whose GPU the kernels are for (None: any GPU of `arch`).
    """

    op: str
    shapes: Path
    studies: Path
    out: Path
    arch: str = "sm_90a"
    like: str | None = None
    history: bool = True
    space: SpaceOptions = field(default_factory=SpaceOptions)


@dataclass(frozen=True)
class TuneOptions:
    """Search the kernels of `op` for every problem in the file `shapes`.

    The run ends at whichever comes first: `budget_s` wall-clock seconds, `builds` kernels in the study, or
    every problem's best kernel at least `target` times as fast as torch, as screened. `study` None:
    named after the op, the shapes file, the GPU and the space. `simulate` names a recorded study that stands
    in for the GPU.
    """

    op: str
    shapes: Path
    studies: Path
    budget_s: float = 600.0
    builds: int | None = None
    target: float | None = None
    sampler: SamplerName = "portfolio"
    seed: int = 0
    study: str | None = None
    l2: L2Mode = "cold"
    gpu: int = 0
    simulate: str | None = None
    space: SpaceOptions = field(default_factory=SpaceOptions)
    toolchain: ToolchainOptions = field(default_factory=ToolchainOptions)
    llm: LlmOptions = field(default_factory=LlmOptions)

    def __post_init__(self) -> None:
        _at_least(1, builds=self.builds)
        _at_least(0, seed=self.seed, gpu=self.gpu)
        if self.target is not None and not (0 < self.target < math.inf):
            raise UserError(f"--target is {self.target:g}; give a ratio above 0, like 1.05")


@dataclass(frozen=True)
class BuildOptions:
    """Compile kernels of `op` for `arch`, no GPU needed.

    With `shapes`: the kernels a tune of them would start from. `limit` is the most kernels to build (None:
    all of the starting kernels).
    """

    op: str
    arch: str = "sm_90a"
    shapes: Path | None = None
    limit: int | None = None
    space: SpaceOptions = field(default_factory=SpaceOptions)
    toolchain: ToolchainOptions = field(default_factory=ToolchainOptions)

    def __post_init__(self) -> None:
        _at_least(1, limit=self.limit)


@dataclass(frozen=True)
class CompareOptions:
    """Measure the baselines on the file `shapes`, and with `study` its winners beside them.

    `study` is a study's name under `studies`, or a path. `save` is a file for the raw samples.
    """

    op: str
    shapes: Path
    studies: Path
    study: str | None = None
    save: Path | None = None
    l2: L2Mode = "cold"
    gpu: int = 0
    toolchain: ToolchainOptions = field(default_factory=ToolchainOptions)

    def __post_init__(self) -> None:
        _at_least(0, gpu=self.gpu)


@dataclass(frozen=True)
class RunOptions:
    """Check, build, run and time one hand-written config on one problem.

    `extents` are the problem's, in the op's order of dimensions (trailing ones may be missing where the op
    has a default); `layout` None is the op's default; `knobs` maps kernel and launch knobs to their values as
    text, the others keep their defaults. With `source` the emitted C++ is part of what is printed.
    """

    op: str
    extents: tuple[int, ...]
    layout: str | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    family: str | None = None
    space_file: Path | None = None
    source: bool = False
    l2: L2Mode = "cold"
    gpu: int = 0
    toolchain: ToolchainOptions = field(default_factory=ToolchainOptions)

    def __post_init__(self) -> None:
        _at_least(0, gpu=self.gpu)


@dataclass(frozen=True)
class DoctorOptions:
    """Say whether this machine can tune on GPU number `gpu` with this toolchain."""

    gpu: int = 0
    toolchain: ToolchainOptions = field(default_factory=ToolchainOptions)

    def __post_init__(self) -> None:
        _at_least(0, gpu=self.gpu)


@dataclass(frozen=True)
class ShowOptions:
    """Say what is in a study: a name under `studies`, or a path."""

    study: str
    studies: Path


@dataclass(frozen=True)
class ExportOptions:
    """Write a study's winners down for others. Format "torch" is the header with a PyTorch module.

    `out` None: a header goes to the folder `export` of the study (of a shipped study to ./STUDY-export);
    JSON, CSV and training data are the text that is returned.
    `max_kernels` None: as many kernels as the winners need; it and `namespace` are for `KERNEL_FORMATS`.
    """

    study: str
    studies: Path
    format: ExportFormat = "header"
    out: Path | None = None
    namespace: str = NAMESPACE
    max_kernels: int | None = None

    def __post_init__(self) -> None:
        _at_least(1, max_kernels=self.max_kernels)
        check_namespace(self.namespace)
        if self.format not in KERNEL_FORMATS:
            given = {
                "--max-kernels": self.max_kernels is not None,
                "--namespace": self.namespace != NAMESPACE,
            }
            for option in (name for name, is_given in given.items() if is_given):
                raise UserError(
                    f"{option} applies to --format header and torch, not to --format {self.format}"
                )


@dataclass(frozen=True)
class LabOptions:
    """Replay a recorded study under several ways to search, many times, and compare how fast each gets near
    the best that is recorded.

    `data` is the recorded study; `replies` are folders of recorded replies, one set each; `arms` None: all
    that can run. Every arm gets `builds` kernels, and is repeated with `seeds` seeds. The report goes to the
    folder `out`.
    """

    data: str
    studies: Path
    out: Path
    replies: tuple[Path, ...] = ()
    arms: tuple[str, ...] | None = None
    builds: int = 96
    seeds: int = 10
    jobs: int | None = None

    def __post_init__(self) -> None:
        _at_least(1, builds=self.builds, seeds=self.seeds, jobs=self.jobs)
