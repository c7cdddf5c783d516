"""Exports of hand-made studies, compiled by the lines that are printed for people."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

from cutlass_tuner.build.process import run_together
from cutlass_tuner.emit.gemm3x import HOST_HEADER
from cutlass_tuner.export import attention, commands, header
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned
from cutlass_tuner.export.unit import Exported
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ToolchainOptions
from cutlass_tuner.pipeline import export_attention, setup
from cutlass_tuner.records import Config, Environment, KernelConfig, Problem, Scalar
from cutlass_tuner.space import Space
from cutlass_tuner.verify.tolerance import tolerance

ARCH = "sm_90a"
COMPILE_S = 400.0
RECORDED_US = 20.0
"""Stands in the header where a study's time would."""

Knobs = Mapping[str, Scalar]


@dataclass(frozen=True)
class Entry:
    """A problem and what it was "tuned" to."""

    extents: tuple[int, ...]
    layout: str
    kernel: Knobs
    launch: Knobs = field(default_factory=dict)


@dataclass(frozen=True)
class Compiling:
    """An export and the lines that compile it."""

    written: Exported
    lines: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.written.header.parent


def write(op_name: str, entries: Sequence[Entry], folder: Path, name: str) -> Exported:
    """With the PyTorch module."""
    op = registry.op(op_name)
    tuned = [_tuned(op, entry) for entry in entries]
    shared: dict[str, Any] = {
        "provenance": Provenance(environment=_environment(op), l2="cold", study="tests", date="2026-12-01"),
        "tolerance": tolerance(op.contract),
        "out_dir": folder,
        "name": name,
        "torch": True,
    }
    kernels = {one.kernel_key: one.config.kernel for one in tuned}
    if op.emitter == "attention":
        texts = {key: export_attention.text(kernel, op) for key, kernel in kernels.items()}
        return attention.write(tuned, texts, headers=export_attention.headers(), **shared)
    emitter = setup.emitter(op)
    texts = {key: _gemm_text(op, kernel) for key, kernel in kernels.items()}
    host_header = HOST_HEADER.read_text(encoding="utf-8")
    return header.write(tuned, texts, includes=emitter.includes(), host_header=host_header, **shared)


def library(written: Exported) -> Compiling:
    """To be loaded by its PyTorch module."""
    return Compiling(written, (written.build_line,))


def benchmark(written: Exported) -> Compiling:
    """The object and the self-benchmark that links to it."""
    line = commands.bench_line(written.flags, written.source.stem, cublas=False)
    return Compiling(written, (written.nvcc_line, line))


def compile_all(exports: Sequence[Compiling]) -> None:
    """All at once; each export's lines one after the other, as a person would paste them."""
    tools = setup.toolchain(ToolchainOptions())
    root, nvcc = shlex.quote(str(tools.headers.root)), shlex.quote(str(tools.nvcc.path.parent))
    scripts = [
        ["sh", "-ec", "\n".join([f"cd {shlex.quote(str(one.folder))}", *before(root, nvcc), *one.lines])]
        for one in exports
    ]
    for ended in run_together(scripts, exports[0].folder, COMPILE_S, Event()):
        assert ended.ok, f"{ended.ending}, status {ended.status}\n{ended.log[-4000:]}"


def before(root: str, nvcc: str) -> list[str]:
    """What a person has set."""
    return [f"CUTLASS={root}", f"PATH={nvcc}:$PATH"]


def module(written: Exported) -> ModuleType:
    """The export's PyTorch module, imported from where it lies."""
    path = next(path for path in written.files if path.name.endswith("_torch.py"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made  # torch.compile looks a function's module up by name
    spec.loader.exec_module(made)
    return made


def problem(op_name: str, entry: Entry) -> Problem:
    return registry.op(op_name).problem(entry.extents, entry.layout)


def _tuned(op: registry.Op, entry: Entry) -> Tuned:
    space, device = Space.of(op.name, ARCH), op.nominal_device(ARCH)
    asked = op.problem(entry.extents, entry.layout)
    kernel = space.effective(space.kernel(**entry.kernel), device)
    launch = space.effective_launch(kernel, space.launch(**entry.launch), asked, device)
    return Tuned(asked, Config(kernel=kernel, launch=launch), op.launch_codes(launch), RECORDED_US)


def _gemm_text(op: registry.Op, kernel: KernelConfig) -> KernelText:
    emitter = setup.emitter(op)
    return KernelText(
        config=kernel,
        symbol=emitter.symbol(kernel),
        type_definitions=emitter.type_definitions(kernel, op.contract),
        wrapper=emitter.kernel_wrapper(kernel),
        template_arguments=emitter.template_arguments(kernel),
    )


def _environment(op: registry.Op) -> Environment:
    """The flags are what counts here."""
    tools, device = setup.toolchain(ToolchainOptions()), op.nominal_device(ARCH)
    return Environment(
        gpu=device.name,
        arch=ARCH,
        sm_count=device.sm_count,
        driver="",
        cuda=tools.cuda,
        compiler=f"nvcc {tools.nvcc.version}",
        cublas="",
        torch="",
        cutlass=tools.cutlass,
        flags=tools.flags(ARCH),
        tuner="tests",
    )
