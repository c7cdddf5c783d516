"""Compile one translation unit of kernels: device part and host library side by side, then probe."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from cutlass_tuner.build import cubin, probe, ptxas
from cutlass_tuner.build.process import Ended, run_together
from cutlass_tuner.build.sources import DeviceCompiler, Sources
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.records import Contract, Failure, KernelConfig

DEVICE_SOURCE, HOST_SOURCE = "device.cu", "host.cpp"
CUBIN, HOST_LIBRARY, LOG = "kernels.cubin", "host.so", "compile.log"
FILES = (DEVICE_SOURCE, HOST_SOURCE, CUBIN, HOST_LIBRARY, LOG)
_PROBE_TIMEOUT_S = 60
_DETAIL_CHARACTERS = 4000

_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}
"""How a program ends of its own doing; any other signal came from outside."""


@dataclass(frozen=True)
class Unit:
    """What a batch is compiled with."""

    toolchain: Toolchain
    compiler: DeviceCompiler
    arch: str
    sources: Sources
    contract: Contract
    timeout_s: float


@dataclass(frozen=True)
class Compiled:
    """A unit that compiled: `FILES` lie in the folder it was given. `cpu_s` of all compilers together.

    `params_bytes` is the device compiler's layout, `kernels` the host compiler's, in the batch's order.
    """

    kernels: tuple[probe.Described, ...]
    params_bytes: dict[str, int]
    reports: dict[str, ptxas.Report]
    cpu_s: float


@dataclass(frozen=True)
class Uncompiled:
    """A unit that did not. `stuck`: the machine is in the way, and of smaller units too; `suspects` are
    the symbols its errors name, empty when they name none."""

    failure: Failure
    cancelled: bool = False
    stuck: bool = False
    suspects: frozenset[str] = frozenset()


def compile_unit(
    unit: Unit, kernels: Sequence[KernelConfig], folder: Path, cancelled: Event
) -> Compiled | Uncompiled:
    """Compile `kernels` as one translation unit in `folder`, which is empty before."""
    try:
        return _compile(unit, kernels, folder, cancelled)
    except OSError as error:  # no process can be started, or no file written
        return Uncompiled(_failure(f"compiling cannot go on: {error}", lasting=False), stuck=True)


def _compile(
    unit: Unit, kernels: Sequence[KernelConfig], folder: Path, cancelled: Event
) -> Compiled | Uncompiled:
    device, host = folder / DEVICE_SOURCE, folder / HOST_SOURCE
    device.write_text(unit.sources.device_source(kernels, unit.contract))
    host.write_text(unit.sources.host_source(kernels, unit.contract))
    commands = (
        unit.compiler.command(device, folder / CUBIN, unit.arch),
        unit.toolchain.host_command(host, folder / HOST_LIBRARY),
    )
    ended = run_together(commands, folder, unit.timeout_s, cancelled)
    (folder / LOG).write_text("".join(end.log for end in ended))
    if not all(end.ok for end in ended):
        return _uncompiled(unit, kernels, ended)

    [probed] = run_together([probe.command(folder / HOST_LIBRARY)], folder, _PROBE_TIMEOUT_S, cancelled)
    if not probed.ok:
        return _unprobed(probed)
    return Compiled(
        kernels=tuple(probe.parse(probed.log)),
        params_bytes=cubin.params_bytes((folder / CUBIN).read_bytes()),
        reports=ptxas.reports(ended[0].log),
        cpu_s=sum(end.cpu_s for end in ended),
    )


def _uncompiled(unit: Unit, kernels: Sequence[KernelConfig], ended: Sequence[Ended]) -> Uncompiled:
    endings = {end.ending for end in ended}
    if "cancelled" in endings:
        return _cancelled()
    if "timed out" in endings:
        reason = f"compiling took longer than {unit.timeout_s:g} s"
        return Uncompiled(_failure(reason, lasting=False))
    broken = next(end for end in ended if not end.ok and end.ending == "exited")
    if broken.status < 0:
        reason = f"the compiler was killed by signal {-broken.status}"
        return Uncompiled(_failure(reason, lasting=False))
    if trouble := ptxas.machine_trouble(broken.log):
        return Uncompiled(_failure(trouble, broken.log, lasting=False))
    reason = ptxas.first_error(broken.log) or f"the compiler gave status {broken.status} and no error"
    symbols = [unit.sources.symbol(kernel) for kernel in kernels]
    return Uncompiled(
        _failure(reason, broken.log),
        suspects=frozenset(ptxas.named_in_errors(broken.log, symbols)),
    )


def _unprobed(probed: Ended) -> Uncompiled:
    """Only a crash is the kernels' doing. A Python that cannot start or import the package, a library that
    cannot be loaded, a time limit or a kill would meet every other unit on this machine as well."""
    if probed.ending == "cancelled":
        return _cancelled()
    last = probed.log.strip().splitlines()[-1:] or ["it said nothing"]
    reason = f"the host library cannot be used (status {probed.status}): {last[0]}"
    crashed = probed.ending == "exited" and -probed.status in _CRASHES
    return Uncompiled(_failure(reason, probed.log, lasting=crashed), stuck=not crashed)


def _cancelled() -> Uncompiled:
    return Uncompiled(_failure("cancelled", lasting=False), cancelled=True)


def _failure(reason: str, log: str = "", *, lasting: bool = True) -> Failure:
    return Failure(stage="build", reason=reason, detail=log.strip()[:_DETAIL_CHARACTERS], lasting=lasting)
