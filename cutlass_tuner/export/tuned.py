"""What an exporter is given: tuned problems, their kernels' C++, and where the figures come from."""

from __future__ import annotations

from dataclasses import dataclass

from cutlass_tuner.records import Config, Environment, KernelConfig, L2Mode, Problem


@dataclass(frozen=True)
class Tuned:
    """One verified configuration on one problem, with the time that ranks it.

    `launch_codes` are the launch knobs as the host library's ABI wants them (abi.h, `ct_call.launch`).
    `time_us` is device microseconds a call, everything the caller pays included.
    `speedup_*` is the baseline's time divided by ours in the same contest, above 1 where ours is
    faster; None where that baseline was not measured.
    """

    problem: Problem
    config: Config
    launch_codes: tuple[int, ...]
    time_us: float
    speedup_torch: float | None = None
    speedup_cublaslt_tuned: float | None = None

    @property
    def kernel_key(self) -> str:
        return self.config.kernel.key

    @property
    def beats_baselines(self) -> bool:
        """At least as fast as every baseline that was measured; False where none was."""
        measured = [s for s in (self.speedup_torch, self.speedup_cublaslt_tuned) if s is not None]
        return bool(measured) and min(measured) >= 1.0


@dataclass(frozen=True)
class KernelText:
    """The C++ of one kernel, exactly as it was compiled for measuring.

    `type_definitions` defines a struct derived from `cutlass::gemm::kernel::GemmUniversal`, `wrapper` the
    `extern "C" __global__` function `symbol` that runs it on its Params by value, and
    `template_arguments` are the host header's for it: "STRUCT, SWAP_AB".
    """

    config: KernelConfig
    symbol: str
    type_definitions: str
    wrapper: str
    template_arguments: str


@dataclass(frozen=True)
class Provenance:
    """Where the exported figures come from. `date` is ISO 8601; `command` is what a user would run again."""

    environment: Environment
    l2: L2Mode
    study: str
    date: str
    command: str = ""
