"""The lines of a training export: records that a reader can rely on. docs/training-data.md explains them."""

from __future__ import annotations

from typing import Literal

from cutlass_tuner.ideas import Bottleneck, Coupling, Fate, Usage
from cutlass_tuner.records import L2Mode, Record, Scalar, Stage

FORMAT: Literal[1] = 1
"""Raised when a field changes its meaning or goes."""


class Line(Record):
    """What every line says. `simulated` names the recorded study that stood in for the GPU, "" for none."""

    format: Literal[1] = FORMAT
    kind: str
    study: str
    op: str
    gpu: str
    arch: str
    sm_count: int
    cuda: str
    cutlass: str
    l2: L2Mode
    simulated: str


class FailureText(Record):
    """An expected failure: where, why in one line, and a log's tail."""

    stage: Stage
    reason: str
    detail: str = ""


class ExchangeLine(Line):
    """One question to a proposer and its answer. `prompt` is "" where the question was not stored; `ideas`
    are the ids taken over, `dropped` those given up, `rejected` counts what was not taken over."""

    kind: Literal["exchange"] = "exchange"
    round: int
    transport: str
    model: str
    prompt_digest: str
    schema_digest: str
    prompt: str
    reply: str
    stop: str
    usage: Usage | None
    failure: FailureText | None
    ideas: tuple[str, ...]
    dropped: tuple[str, ...]
    rejected: int


class IdeaLine(Line):
    """One idea and how it fared. `targets`, `leads` and `speedup` speak of problems by key; ratios are
    torch's time / ours, `expected` and `achieved` geometric means over the targets. `configs` are the kernels
    it suggested; what it left to the sampler is in `narrowed` and `couplings` (`ideas.Idea`)."""

    kind: Literal["idea"] = "idea"
    round: int
    id: str
    parent: str
    hypothesis: str
    bottleneck: Bottleneck
    targets: tuple[str, ...]
    expected: float
    achieved: float | None
    fate: Fate
    built: int
    failed: int
    speedup: dict[str, float]
    leads: tuple[str, ...]
    family: str
    configs: tuple[dict[str, Scalar], ...]
    narrowed: dict[str, tuple[Scalar, ...]]
    couplings: tuple[Coupling, ...]


class RejectedLine(Line):
    """Something in a reply that was not taken over; `idea` "" for the reply as a whole."""

    kind: Literal["rejected"] = "rejected"
    round: int
    idea: str
    what: str
    reason: str


class WrongAnswer(Record):
    """A launch whose answer was wrong, and why."""

    launch: dict[str, Scalar]
    reasons: tuple[str, ...]


class NoMeasurement(Record):
    """A launch that gave no measurement; `launch` None: whatever the launch."""

    launch: dict[str, Scalar] | None
    failure: FailureText


class Result(Record):
    """One kernel on one problem. `launch` is the fastest right one, None where none was; `speedup` is
    `reference`'s time / its time, the median over `samples` pairs; `launches` counts those measured."""

    problem: str
    launch: dict[str, Scalar] | None = None
    speedup: float | None = None
    reference: str = ""
    samples: int = 0
    launches: int = 0
    wrong: tuple[WrongAnswer, ...] = ()
    failed: tuple[NoMeasurement, ...] = ()


class ConfigLine(Line):
    """One kernel that was asked for and what came of it. `round` and `idea` are of the idea it was built for,
    0 and "" for none; `source` says who proposed it (`records.Proposal`); `suggested` are launches the idea
    wanted tried. Registers are a thread's; None where the build failed."""

    kind: Literal["config"] = "config"
    round: int
    idea: str
    source: str
    family: str
    kernel: dict[str, Scalar]
    suggested: tuple[dict[str, Scalar], ...]
    outcome: Literal["built", "build_failed"]
    failure: FailureText | None
    registers: int | None
    spill_bytes: int | None
    smem_bytes: int | None
    results: tuple[Result, ...]
