"""What the parent and the measuring child say to each other: one JSON line each way.

The parent writes one `Request`, the child answers with exactly one `Reply`. Every request carries
all that is needed to run it (paths, not handles), so a child that was killed and restarted can take
the next request without a replay; what it caches is its own affair.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cutlass_tuner.records import (
    CardState,
    DeviceFacts,
    Evidence,
    Failure,
    L2Mode,
    LaunchConfig,
    Problem,
    Readback,
    Record,
    Tolerance,
)

REQUESTS = "CUTLASS_TUNER_REQUESTS_FD"
REPLIES = "CUTLASS_TUNER_REPLIES_FD"
"""Environment variables that tell the child its two file descriptors."""


class KernelEntry(Record):
    """A kernel of ours in a contest: its artefacts and how to launch it.

    `launch_codes` are the launch knobs as the host library's ABI wants them, in its order
    (see abi.py). `deterministic` asks for a bit-comparison of repeated launches.
    """

    kind: Literal["kernel"] = "kernel"
    name: str
    cubin: str
    host_library: str
    index: int
    symbol: str
    launch: LaunchConfig
    launch_codes: tuple[int, ...]
    deterministic: bool


class BaselineEntry(Record):
    """A baseline by name. `algorithm` is a tuned cuBLASLt algorithm in hex, from `TuneBaseline`.

    `layout` differs from the problem's only for the "best layout" column: same extents, operands
    stored as that layout says.
    """

    kind: Literal["baseline"] = "baseline"
    name: str
    layout: str
    algorithm: str = ""


class LibraryEntry(Record):
    """An exported header, compiled to a shared library with the C shim the exporter writes."""

    kind: Literal["library"] = "library"
    name: str
    path: str


Entry = Annotated[KernelEntry | BaselineEntry | LibraryEntry, Field(discriminator="kind")]


class Contest(Record):
    """Check and time several entries on one problem, interleaved round by round.

    The first entry is the reference. After the first round, an entry slower than `stop_above`
    times the reference is dropped with the samples it has (0 = never). `sample_us` is the least
    length of one timed graph replay. `steady_s` seconds of load come first. `seed` makes inputs.
    """

    request: Literal["contest"] = "contest"
    workload: str
    problem: Problem
    entries: tuple[Entry, ...]
    tolerance: Tolerance
    l2: L2Mode
    rounds: int
    sample_us: float
    stop_above: float = 0.0
    steady_s: float = 0.0
    seed: int = 0
    check_after: bool = True


class TuneBaseline(Record):
    """Time up to `limit` cuBLASLt algorithms on one problem, each verified, and keep the best."""

    request: Literal["tune_baseline"] = "tune_baseline"
    workload: str
    problem: Problem
    tolerance: Tolerance
    l2: L2Mode
    limit: int
    workspace_bytes: int = 32 << 20
    sample_us: float = 200.0
    seed: int = 0


class Describe(Record):
    """Ask for the device and the versions of the libraries really loaded."""

    request: Literal["describe"] = "describe"


Request = Annotated[Contest | TuneBaseline | Describe, Field(discriminator="request")]


class Timed(Record):
    """One entry's outcome. `samples_us` may be shorter than `rounds` when it was dropped early."""

    outcome: Literal["timed"] = "timed"
    name: str
    samples_us: tuple[float, ...]
    launches_per_sample: int
    evidence: Evidence
    readback: Readback | None = None
    workspace_bytes: int = 0


class Refused(Record):
    """An entry that gave no time."""

    outcome: Literal["refused"] = "refused"
    name: str
    failure: Failure


class ContestResult(Record):
    reply: Literal["contest"] = "contest"
    entries: tuple[Annotated[Timed | Refused, Field(discriminator="outcome")], ...]
    card: CardState | None = None


class TunedBaseline(Record):
    """`tried_us[i]` is the time of the i-th algorithm that was right, the heuristic's choices first in its
    order; `algorithm` wins, in hex."""

    reply: Literal["tuned_baseline"] = "tuned_baseline"
    algorithm: str
    tried_us: tuple[float, ...]
    workspace_bytes: int
    rejected: int


class Described(Record):
    reply: Literal["described"] = "described"
    device: DeviceFacts
    cublas: str
    torch: str
    cuda_python: str
    libraries: dict[str, str] = Field(default_factory=dict)


class Broken(Record):
    """The request as a whole failed, by a fault the child could still report.

    `fatal` says that the CUDA context is no longer usable: the parent must restart the child.
    """

    reply: Literal["broken"] = "broken"
    failure: Failure
    fatal: bool


Reply = Annotated[ContestResult | TunedBaseline | Described | Broken, Field(discriminator="reply")]
