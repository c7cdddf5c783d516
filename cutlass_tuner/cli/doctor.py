"""`cutlass-tuner doctor`: can this machine tune, and if not, what to do."""

from __future__ import annotations

import typer

from cutlass_tuner.cli import arguments
from cutlass_tuner.options import DoctorOptions


def doctor(
    nvcc: arguments.Nvcc = None,
    cutlass: arguments.Cutlass = None,
    gpu: arguments.Gpu = DoctorOptions.gpu,
) -> None:
    """Say whether this machine can tune, and what to do if not.

    Looks at GPU, driver, compilers and libraries. The exit status is 0 if tune can run here, else 1.
    """
    options = DoctorOptions(gpu, arguments.toolchain(nvcc, cutlass))

    from cutlass_tuner.doctor import examine, report
    from cutlass_tuner.machine import survey

    found = report(examine(survey(options.toolchain, options.gpu)))
    print(found.text)
    raise typer.Exit(0 if found.can_tune else 1)
