"""The command line that builds, checks and times one exported configuration again."""

from __future__ import annotations

import shlex

from cutlass_tuner.ops import registry
from cutlass_tuner.records import Config, L2Mode, Problem
from cutlass_tuner.space.knobs import spelled


def run_command(problem: Problem, config: Config, l2: L2Mode, compiler: str) -> str:
    """`cutlass-tuner run` with every knob of `config` written out, for a shell.

    It asks for the same kernel, launch and compiler (`compiler` as an `Environment` says it) whatever the
    defaults become. Knobs whose value only a space of the user's own allows need that file's `--space`
    beside it.
    """
    extents = list(problem.dims.items())
    if extents[-1] == ("batch", 1):  # an op's last extent may be left out where it is the default
        extents.pop()
    words = ["cutlass-tuner", "run", "--op", problem.op, "--only", config.kernel.family]
    words += ["--shape", "x".join(str(value) for _, value in extents), "--layout", problem.layout, "--l2", l2]
    words += ["--compiler", "nvrtc"] if compiler.startswith("nvrtc") else []
    given = registry.op(problem.op).families[config.kernel.family].given
    for name, value in {**config.kernel.knobs, **config.launch.knobs}.items():
        if name not in given:  # the problem has it already
            words += ["--set", f"{name}={spelled(value)}"]
    return shlex.join(words)
