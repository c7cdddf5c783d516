"""What a study holds: its header, and what it appends to its journal, one JSON line each.

`at_s` counts the seconds spent on the study, over all its runs.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cutlass_tuner.ideas import Answer, Idea, Rejection
from cutlass_tuner.records import (
    Build,
    CardState,
    Config,
    DeviceFacts,
    Environment,
    Evidence,
    Failure,
    KernelConfig,
    L2Mode,
    LaunchConfig,
    Measurement,
    Proposal,
    Record,
)


class BaselineResult(Record):
    """A baseline's own figures on one problem, as measured in a contest.

    `algorithm` is cuBLASLt's opaque algorithm in hex; `tried` how many were timed, the heuristic's choices
    first in its order, with `tried_us` their times, `rejected` how many more were tried but refused to
    run or were wrong; `workspace_bytes` what it was given.
    """

    name: str
    problem: str
    layout: str
    samples_us: tuple[float, ...]
    workspace_bytes: int
    algorithm: str = ""
    tried: int = 0
    rejected: int = 0
    tried_us: tuple[float, ...] = ()
    evidence: Evidence | None = None
    failure: Failure | None = None


class FinalRow(Record):
    """The finals on one problem: every entrant's samples from the same interleaved rounds.

    `entrants[i]` is a config's key or a baseline's name; `samples_us[i][j]` its round j. The rounds are
    those of one contest after the other; `contests` counts them, () where there was one contest.
    `winner` is None where no kernel of ours was right or none could be measured, with `why`.
    """

    problem: str
    l2: L2Mode
    entrants: tuple[str, ...]
    samples_us: tuple[tuple[float, ...], ...]
    contests: tuple[int, ...] = ()
    winner: Config | None
    why: str
    card: CardState | None = None


class KernelBuilt(Record):
    """A kernel was asked for and built."""

    event: Literal["built"] = "built"
    proposal: Proposal
    build: Build
    at_s: float


class KernelFailed(Record):
    """A kernel was asked for and could not be built or loaded."""

    event: Literal["build_failed"] = "build_failed"
    proposal: Proposal
    failure: Failure
    at_s: float


class Measured(Record):
    """A measurement, right or wrong."""

    event: Literal["measured"] = "measured"
    measurement: Measurement
    at_s: float


class RunFailed(Record):
    """A launch that gave no measurement: a crash, a hang, a refusal of can_implement."""

    event: Literal["run_failed"] = "run_failed"
    kernel: KernelConfig
    launch: LaunchConfig | None
    problem: str
    failure: Failure
    at_s: float


class BaselineMeasured(Record):
    event: Literal["baseline"] = "baseline"
    result: BaselineResult
    at_s: float


class KernelTold(Record):
    """The objective of one kernel as Optuna was told it; closes the kernel's round.

    `log_ratio` maps a problem's key to log(time / reference) with the kernel's best launch; a problem
    it has no right time on is absent.
    """

    event: Literal["told"] = "told"
    kernel: KernelConfig
    log_ratio: dict[str, float]
    at_s: float


class Finished(Record):
    """The finals of one problem."""

    event: Literal["final"] = "final"
    row: FinalRow
    at_s: float


class Asked(Record):
    """A proposer was asked, in this round (from 1). `prompt` is all it was given to read, `schema_digest`
    names the schema of the answer; `transport` says how it was asked ("anthropic", "replay", "manual")."""

    event: Literal["asked"] = "asked"
    round: int
    transport: str
    prompt: str
    prompt_digest: str
    schema_digest: str
    at_s: float


class Answered(Record):
    """The answer to the question of the same round, and what was taken over of it.

    `dropped` are ids of earlier ideas that the proposer gives up.
    """

    event: Literal["answered"] = "answered"
    round: int
    transport: str
    answer: Answer
    ideas: tuple[Idea, ...] = ()
    dropped: tuple[str, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    at_s: float


Event = Annotated[
    KernelBuilt
    | KernelFailed
    | Measured
    | RunFailed
    | BaselineMeasured
    | KernelTold
    | Finished
    | Asked
    | Answered,
    Field(discriminator="event"),
]


class StudyHeader(Record):
    """A study's frozen inputs: what must agree for a run to go on with it.

    `simulated` names the recorded study that stood in for the GPU, "" where a GPU measured.
    """

    name: str
    op: str
    family: str
    environment: Environment
    device: DeviceFacts
    space_digest: str
    l2: L2Mode
    created: str
    simulated: str = ""
    version: int = 1
