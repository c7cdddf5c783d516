"""What an exporter is given: tuned problems, their kernels' C++, and where the figures come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutlass_tuner.records import Config, Environment, KernelConfig, L2Mode, Problem
from cutlass_tuner.results import TORCH


@dataclass(frozen=True)
class Tuned:
    """One verified configuration on one problem, with the time that ranks it.

    `launch_codes` are the launch knobs as the host library's ABI wants them (abi.h, `ct_call.launch`).
    `time_us` is device microseconds a call, everything the caller pays included.
    `speedup_*` is the baseline's time divided by ours in the same contest, above 1 where ours is
    faster; None where that baseline was not measured; `speedup_best` is the fastest one's, named
    `best_baseline`, of an op whose baselines are not torch and cuBLASLt. `beats_baselines`: a final says so
    (`results.Row.beats_baselines`). `from_search`: no final measured this configuration here, so the
    figures are those of `substitute`.
    """

    problem: Problem
    config: Config
    launch_codes: tuple[int, ...]
    time_us: float
    speedup_torch: float | None = None
    speedup_cublaslt_tuned: float | None = None
    beats_baselines: bool = False
    from_search: bool = False
    speedup_best: float | None = None
    best_baseline: str = ""

    @property
    def kernel_key(self) -> str:
        return self.config.kernel.key


def substitute(winner: Tuned, config: Config, launch_codes: tuple[int, ...], speedup_torch: float) -> Tuned:
    """Another verified configuration on the winner's problem, `speedup_torch` times torch in the search.

    Its figures are the winner's, slowed by what the search saw between its ratio to torch and the
    winner's in the final. Never quickened: a search is a few rounds of many kernels, so the luckiest of
    them looks faster than it is, and only a final may put a kernel ahead of the one that won it.
    Raises ValueError where the final has no ratio to torch to compare with.
    """
    if winner.speedup_torch is None:
        raise ValueError(f"{winner.problem.key}: the winner has no ratio to {TORCH}")
    slowdown = max(1.0, winner.speedup_torch / speedup_torch)
    tuned_lt, best = winner.speedup_cublaslt_tuned, winner.speedup_best
    return Tuned(
        problem=winner.problem,
        config=config,
        launch_codes=launch_codes,
        time_us=winner.time_us * slowdown,
        speedup_torch=winner.speedup_torch / slowdown,
        speedup_cublaslt_tuned=None if tuned_lt is None else tuned_lt / slowdown,
        beats_baselines=False,  # only a final may say so
        from_search=True,
        speedup_best=None if best is None else best / slowdown,
        best_baseline=winner.best_baseline,
    )


@dataclass(frozen=True)
class KernelText:
    """The C++ of one kernel, exactly as it was compiled for measuring.

    `type_definitions` defines its type (a GEMM's is derived from `cutlass::gemm::kernel::GemmUniversal`),
    `wrapper` the `extern "C" __global__` function `symbol` that runs it on its Params by value ("" where the
    definitions hold it), and `template_arguments` are those of the C++ that launches it: "STRUCT, SWAP_AB" of
    a GEMM, "STRUCT" of attention.
    """

    config: KernelConfig
    symbol: str
    type_definitions: str
    wrapper: str
    template_arguments: str


@dataclass(frozen=True)
class Headers:
    """What kernels of one make need: `includes`, whole lines of a source, and the texts of the files they
    reach that are not CUTLASS's, by the path they are included by."""

    includes: tuple[str, ...]
    files: Mapping[str, str]


@dataclass(frozen=True)
class Provenance:
    """Where the exported figures come from. `date` is ISO 8601; `command` is what a user would run again;
    `simulated` names the recorded study they were replayed from, "" where a GPU measured them."""

    environment: Environment
    l2: L2Mode
    study: str
    date: str
    command: str = ""
    simulated: str = ""

    @property
    def label(self) -> str:
        """What every file says of simulated figures; "" where they were measured."""
        if not self.simulated:
            return ""
        return f"SIMULATED: figures replayed from the recorded study {self.simulated}, no GPU measured them"
