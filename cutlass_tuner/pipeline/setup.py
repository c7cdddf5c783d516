"""What every command needs before it starts: toolchain, space, builder, environment, names."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import cutlass_tuner
from cutlass_tuner import settings
from cutlass_tuner.build import nvrtc
from cutlass_tuner.build import toolchain as tools
from cutlass_tuner.build.builder import Builder
from cutlass_tuner.build.cache import Cache
from cutlass_tuner.build.pool import Builds
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.emit.emitter import Emitter
from cutlass_tuner.errors import UserError
from cutlass_tuner.events import StudyHeader
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.options import SpaceOptions, ToolchainOptions, TuneOptions
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import DeviceFacts, Environment, Failure, L2Mode, Problem
from cutlass_tuner.space import Candidates, Space
from cutlass_tuner.wire import Described

COMPILE_TIMEOUT_S = 300.0
LOG_DAYS = 7

__all__ = ["Space", "Toolchain"]


@dataclass(frozen=True)
class Machine:
    """What a tune builds and measures with, and the kernels to choose from there: those of a GPU and its
    compilers, or of a recording of them (`simulated`)."""

    bench: Bench
    builder: Builds
    device: DeviceFacts
    environment: Environment
    space: Space
    candidates: Candidates


@contextmanager
def machine(op: Op, options: TuneOptions, problems: Sequence[Problem], asked: Space) -> Iterator[Machine]:
    """This machine, until the context ends; `asked` is the space on the op's first architecture. Raises
    UserError saying what it lacks."""
    found = toolchain(options.toolchain)
    with Bench(op, options.l2, options.gpu, child_log(), options.seed) as bench:
        described = bench.describe()
        device = described.device
        check_fits(op, problems, device)
        fitting = asked if asked.arch == device.arch else space(op, device.arch, options.space)
        candidates = fitting.candidates(problems, device)
        builds = builder(found, device.arch, op, options.toolchain)
        yield Machine(bench, builds, device, environment(described, found, builds), fitting, candidates)


def study_header(machine: Machine, op: Op, name: str, l2: L2Mode, simulated: str = "") -> StudyHeader:
    """Of a study that begins now, on this machine or on the recording `simulated` of one."""
    return StudyHeader(
        name=name,
        op=op.name,
        family=",".join(machine.space.families),
        environment=machine.environment,
        device=machine.device,
        space_digest=machine.space.digest,
        l2=l2,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        simulated=simulated,
    )


def toolchain(options: ToolchainOptions) -> Toolchain:
    """The compilers and headers. Raises UserError saying what is missing."""
    found = tools.find(options.nvcc, options.cutlass)
    if isinstance(found, Failure):
        raise UserError(found.reason)
    return found


def cache() -> Cache:
    return Cache(settings.settings().cache_dir)


def emitter(op: Op) -> Emitter:
    return EMITTERS[op.emitter]


def builder(found: Toolchain, arch: str, op: Op, options: ToolchainOptions) -> Builder:
    """What compiles this op's kernels, through the cache."""
    return Builder(
        toolchain=found,
        cache=cache(),
        arch=arch,
        timeout_s=COMPILE_TIMEOUT_S,
        emitter=emitter(op),
        contract=op.contract,
        compiler=_nvrtc(found) if options.compiler == "nvrtc" else None,
    )


def _nvrtc(found: Toolchain) -> nvrtc.Nvrtc:
    compiler = nvrtc.find(found)
    if isinstance(compiler, Failure):
        raise UserError(compiler.reason)
    return compiler


def space(op: Op, arch: str, options: SpaceOptions) -> Space:
    """The op's space on this architecture, narrowed as the user asked. Raises UserError on any mistake."""
    loaded = Space.of(op.name, arch) if options.file is None else _from_file(options.file, op)
    if loaded.arch != arch:
        raise UserError(
            f"{options.file}: its kernels are for {loaded.arch}, not for {arch}; use a file for {arch}"
        )
    return loaded.restrict(loaded.parse_choices(options.fix, options.family), options.family)


def _from_file(file: Path, op: Op) -> Space:
    """A user's space. One may serve several ops, as the shipped one does."""
    loaded = Space.load(file)
    if loaded.op.spaces != op.spaces:
        raise UserError(f"{file}: it is a space of {loaded.op.name}, not of {op.name}; give one of {op.name}")
    return replace(loaded, op=op)


def environment(described: Described, found: Toolchain, builds: Builder) -> Environment:
    device = described.device
    return Environment(
        gpu=device.name,
        arch=device.arch,
        sm_count=device.sm_count,
        driver=device.driver,
        cuda=found.cuda,
        compiler=builds.compiler_version,
        cublas=described.cublas,
        torch=described.torch,
        cutlass=found.cutlass,
        flags=builds.flags,
        tuner=cutlass_tuner.__version__,
        libraries=described.libraries,
    )


def child_log() -> Path:
    """Where the measuring child's own output goes: beside the cache, not into results."""
    folder = settings.settings().cache_dir / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("child-*.log"):
            if time.time() - old.stat().st_mtime > LOG_DAYS * 86400:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write the child's log in {folder}: {error.strerror}; set CUTLASS_TUNER_CACHE"
        ) from error
    return folder / f"child-{os.getpid()}.log"


def check_fits(op: Op, problems: Sequence[Problem], device: DeviceFacts) -> None:
    """Raises UserError naming the first problem that does not fit in the GPU's memory."""
    for problem in problems:
        why = op.fits(problem, device)
        if why is not None:
            raise UserError(why)
