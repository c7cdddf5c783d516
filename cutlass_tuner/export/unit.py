"""One export: what is served by which kernels, how it is named, and the files that were written of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.export import commands
from cutlass_tuner.export.select import select
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned
from cutlass_tuner.options import check_namespace
from cutlass_tuner.records import Contract, Problem

_FILE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Unit:
    """One export. `served` is in table order; `kernels` are those it uses, in the order of their indices."""

    name: str
    namespace: str
    served: tuple[Tuned, ...]
    kernels: tuple[KernelText, ...]
    provenance: Provenance
    unserved: tuple[Problem, ...]
    loss: float

    @property
    def contract(self) -> Contract:
        return self.served[0].problem.contract

    @property
    def searched(self) -> tuple[Tuned, ...]:
        """Problems served by a kernel that no final measured on them."""
        return tuple(tuned for tuned in self.served if tuned.from_search)

    @property
    def flags(self) -> tuple[str, ...]:
        environment = self.provenance.environment
        return commands.compile_flags(environment.flags, environment.arch)

    def kernel_index(self, tuned: Tuned) -> int:
        return [kernel.config.key for kernel in self.kernels].index(tuned.kernel_key)


@dataclass(frozen=True)
class Exported:
    """What was written. `header` and `source` are two of `files`.

    `nvcc_line` compiles the .cu for people ($CUTLASS stands for their checkout); `flags` are its flags
    alone, for `commands.shared_library`. `served` are the problems in the header's table with the
    configuration each got; `unserved` those left out by the kernel limit, at the count-weighted
    geometric mean slowdown `loss` of the served ones against their own winners. `build_line` makes the
    library of the PyTorch module, "" where there is none.
    """

    files: tuple[Path, ...]
    header: Path
    source: Path
    nvcc_line: str
    flags: tuple[str, ...]
    kernels_used: tuple[str, ...]
    served: tuple[Tuned, ...]
    unserved: tuple[Problem, ...]
    loss: float
    build_line: str = ""

    @property
    def shapes(self) -> int:
        return len(self.served)


def unit(
    tuned: Sequence[Tuned],
    kernels: Mapping[str, KernelText],
    *,
    provenance: Provenance,
    namespace: str,
    name: str | None,
    max_kernels: int | None,
    alternatives: Iterable[Tuned],
) -> Unit:
    """Choose what serves each problem (`header.write` explains the arguments and what is raised)."""
    name = name or namespace.replace("::", "_")
    _check_names(namespace, name)
    selection = select(tuned, alternatives, max_kernels)
    _check_contract(selection.served)
    used = sorted({entry.kernel_key for entry in selection.served})
    return Unit(
        name=name,
        namespace=namespace,
        served=selection.served,
        kernels=tuple(kernels[key] for key in used),
        provenance=provenance,
        unserved=selection.unserved,
        loss=selection.loss,
    )


def place(
    unit: Unit, texts: Mapping[str, str], out_dir: Path, nvcc_line: str, build_line: str = ""
) -> Exported:
    """Write texts by their path under `out_dir`; the unit's header and source are among them."""
    for file_name, text in texts.items():
        path = out_dir / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Exported(
        files=tuple(out_dir / file_name for file_name in texts),
        header=out_dir / f"{unit.name}.h",
        source=out_dir / f"{unit.name}.cu",
        nvcc_line=nvcc_line,
        flags=unit.flags,
        kernels_used=tuple(kernel.config.key for kernel in unit.kernels),
        served=unit.served,
        unserved=unit.unserved,
        loss=unit.loss,
        build_line=build_line,
    )


def _check_names(namespace: str, name: str) -> None:
    check_namespace(namespace)
    if not _FILE_NAME.fullmatch(name):
        raise UserError(
            f"export name {name!r}: letters, digits, '_', '.' and '-' only, a letter or '_' first"
        )


def _check_contract(served: Sequence[Tuned]) -> None:
    contracts = {entry.problem.contract.model_dump_json() for entry in served}
    if len(contracts) > 1:
        raise UserError(
            f"one header holds one element type and accumulator, seen: {', '.join(sorted(contracts))}"
        )
    keys = [entry.problem.key for entry in served]
    if len(set(keys)) < len(keys):
        raise ValueError("a problem has two winners")
