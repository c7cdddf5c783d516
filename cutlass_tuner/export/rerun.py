"""The command line that builds, checks and times one exported configuration again."""

from __future__ import annotations

import shlex

from cutlass_tuner.records import Config, L2Mode, Problem
from cutlass_tuner.space.knobs import spelled


def run_command(problem: Problem, config: Config, l2: L2Mode, compiler: str) -> str:
    """`cutlass-tuner run` with every knob of `config` written out, for a shell.

    It asks for the same kernel, launch and compiler (`compiler` as an `Environment` says it) whatever the
    defaults become. Knobs whose value only a space of the user's own allows need that file's `--space`
    beside it.
    """
    dims = problem.dims
    extents = [value for name, value in dims.items() if not (name == "batch" and value == 1)]
    words = ["cutlass-tuner", "run", "--op", problem.op, "--only", config.kernel.family]
    words += ["--shape", "x".join(str(value) for value in extents), "--layout", problem.layout, "--l2", l2]
    words += ["--compiler", "nvrtc"] if compiler.startswith("nvrtc") else []
    for name, value in {**config.kernel.knobs, **config.launch.knobs}.items():
        if name != "layout":  # --layout gives it to the problem and to the kernel
            words += ["--set", f"{name}={spelled(value)}"]
    return shlex.join(words)
