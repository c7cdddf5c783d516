"""The records every stage speaks: frozen, typed, refusing unknown keys.

Everything that is written to a study (`events`), sent to the measuring child (`wire`) or exported is made
of these.
No record knows GEMM from attention: a problem is an op plus named dimensions, a config is a
family plus named knobs, and the op's `Space` gives both their meaning.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

Scalar = StrictBool | StrictInt | StrictStr
"""A knob's value. Strict, so that `True` never becomes 1 and "8" never becomes 8."""

Stage = Literal["propose", "check", "emit", "build", "load", "plan", "launch", "verify", "time", "worker"]
"""Where a `Failure` happened, in the order a trial meets them. "worker" is the child itself."""

L2Mode = Literal["cold", "warm"]


def _text(knobs: dict[str, Scalar]) -> str:
    return ",".join(f"{name}={knobs[name]}" for name in sorted(knobs))


class Record(BaseModel):
    """Base of all records: immutable, and an unknown key is an error."""

    # NaN and infinity travel as themselves: an error that is not a number is evidence, not a gap.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Contract(Record):
    """What an op promises about numbers: element types and accumulator, as CUTLASS type letters.

    `elements` maps an operand ("a", "b", "d") to its type ("f16", "bf16", "f32"...).
    """

    elements: dict[str, str]
    accumulator: str


class Problem(Record):
    """One problem the user wants solved fast.

    `dims` are extents in elements; for GEMM m, n, k and batch: D (m x n) = A (m x k) B (k x n).
    `layout` is the op's own word (tn, tt, nn, nt for GEMM). `count` is how many such calls a model
    makes and is the problem's weight in the objective.
    """

    op: str
    dims: dict[str, int]
    layout: str
    contract: Contract
    count: int = Field(default=1, ge=1)
    name: str = ""

    @property
    def key(self) -> str:
        """Identity without count and name: what was measured under this key stays valid."""
        dims = "x".join(str(value) for value in self.dims.values())
        return f"{self.op}:{self.layout}:{dims}"

    @property
    def label(self) -> str:
        """What tables print: the user's name, else the extents (batch only when it is not 1)."""
        shown = [str(v) for name, v in self.dims.items() if not (name == "batch" and v == 1)]
        return self.name or "x".join(shown)


class KernelConfig(Record):
    """A family and its compile-time knobs, in effective form: equal configs are equal kernels."""

    family: str
    knobs: dict[str, Scalar]

    @property
    def key(self) -> str:
        return f"{self.family}:{_text(self.knobs)}"

    @property
    def digest(self) -> str:
        """Twelve hex digits naming this kernel, also inside its symbol."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:12]


class LaunchConfig(Record):
    """The run-time knobs of one launch, in effective form. No compile is needed to change them."""

    knobs: dict[str, Scalar]

    @property
    def key(self) -> str:
        return _text(self.knobs)


class Config(Record):
    """A kernel and how to launch it."""

    kernel: KernelConfig
    launch: LaunchConfig

    @property
    def key(self) -> str:
        return f"{self.kernel.key}|{self.launch.key}"


class Proposal(Record):
    """A kernel somebody wants built, and who: "default", "textbook", "analytic", "nvmmh", "llm", "sampler",
    "user". `idea` is the id of the idea it belongs to (`ideas.Idea`), "" for none."""

    kernel: KernelConfig
    source: str
    idea: str = ""


class DeviceFacts(Record):
    """A GPU as the rules and the reports need it. Bytes, MHz and counts."""

    name: str
    arch: str
    sm_count: int
    memory_bytes: int
    l2_bytes: int
    smem_per_block_bytes: int
    driver: str
    clock_mhz: int


class Environment(Record):
    """Everything that must agree for two measurements to be comparable. Stored with every study."""

    gpu: str
    arch: str
    sm_count: int
    driver: str
    cuda: str
    compiler: str
    cublas: str
    torch: str
    cutlass: str
    flags: tuple[str, ...]
    tuner: str
    libraries: dict[str, str] = Field(default_factory=dict)
    """Versions of other libraries whose kernels may be baselines, by name: cuDNN, flash-attn packages."""


class Failure(Record):
    """An expected failure, as a value. `reason` is one line; `detail` may be a log's tail.

    `lasting` is False for what the machine did that day (a time limit, memory that ran out): trying
    again may help, so it is neither cached nor held against the kernel.
    """

    stage: Stage
    reason: str
    detail: str = ""
    lasting: bool = True


class Build(Record):
    """One kernel compiled: where its two artefacts are and what the compiler and probe said.

    `index` is the kernel's number inside the host library; `compile_s` is CPU seconds of the whole
    batch divided by its kernels. `warnings` holds ptxas warnings that make a kernel suspect.
    """

    kernel: KernelConfig
    symbol: str
    cubin: str
    host_library: str
    index: int
    registers: int
    spill_bytes: int
    smem_bytes: int
    threads: int
    stages: int
    params_bytes: int
    cubin_bytes: int
    compile_s: float
    batch_size: int
    cached: bool
    warnings: tuple[str, ...] = ()


class Readback(Record):
    """What the host library put into the kernel's Params: proof that what ran is what was asked.

    Grid and cluster in CTAs. Fields the kernel's scheduler does not have are None.
    """

    grid: tuple[int, int, int]
    cluster: tuple[int, int, int]
    threads: int
    smem_bytes: int
    stages: int
    workspace_bytes: int
    zeroed_bytes: int
    swizzle: int | None = None
    raster: str | None = None
    splits: int | None = None


class Tolerance(Record):
    """The error bound an answer is held to, element by element.

    |D - ref| <= output_roundoff * |ref| + tiny + spread * sqrt(K) * accumulator_roundoff * sum|a||b|

    The last four are attention's, whose softmax is rounded between its two products, and 0 elsewhere;
    `log_roundoff` is that of the log-sum-exp, relative.

    `verify.tolerance` derives the numbers from the contract and gives the formulas and their sources.
    """

    output_roundoff: float
    tiny: float
    accumulator_roundoff: float
    spread: float
    probability_roundoff: float = 0.0
    probability_tiny: float = 0.0
    probability_spread: float = 0.0
    log_roundoff: float = 0.0


class Evidence(Record):
    """What the child saw of one kernel's answers. Facts only; `verify.judge` decides.

    Counts are elements of D (attention: O, and of the kernels' LSE). `error_over_bound` is the largest
    |D - ref| / bound on N(0,1) inputs (attention: on enlarged ones as well), `exact_mismatches` counts
    what differs from the one right answer on the op's exact probes: a GEMM's integers, whose products
    and sums are exact in the contract's accumulator; attention's rows that select one key each or
    average integers,
    `repeat_mismatches` compares a second launch with the first, `after_timing_mismatches` the
    output left by the timed launches (None where not checked).
    """

    elements: int
    unwritten: int
    nonfinite: int
    guard_touched: int
    error_over_bound: float
    max_abs_error: float
    exact_mismatches: int
    repeat_mismatches: int | None = None
    after_timing_mismatches: int | None = None


class Verdict(Record):
    """May this measurement rank? `reasons` is empty exactly when `passed`."""

    passed: bool
    reasons: tuple[str, ...] = ()


class CardState(Record):
    """The card while a contest ran (nvidia-ml-py): medians, and throttle reasons seen by name."""

    sm_clock_mhz: int
    power_w: float
    temperature_c: int
    throttle: tuple[str, ...] = ()


class Measurement(Record):
    """One kernel x launch x problem: paired raw samples and evidence.

    `samples_us[i]` and `reference_us[i]` are device microseconds per launch, taken within
    milliseconds of each other in round i of one contest; `reference` names the baseline.
    """

    kernel: KernelConfig
    launch: LaunchConfig
    problem: str
    reference: str
    samples_us: tuple[float, ...]
    reference_us: tuple[float, ...]
    launches_per_sample: int
    l2: L2Mode
    readback: Readback
    evidence: Evidence
    verdict: Verdict
    card: CardState | None = None
