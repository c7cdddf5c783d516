"""Writes a study's winners as a C++ header, the .cu behind it, a self-benchmark and a page on building."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.export import commands
from cutlass_tuner.export.bench import bench
from cutlass_tuner.export.rerun import run_command
from cutlass_tuner.export.select import select
from cutlass_tuner.export.source import SEARCHED_MARK, Unit, header, source, table_order
from cutlass_tuner.export.template import fill
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned
from cutlass_tuner.options import check_namespace
from cutlass_tuner.records import Problem, Tolerance

_FILE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Exported:
    """What was written. `header` and `source` are two of `files`.

    `nvcc_line` compiles the .cu for people ($CUTLASS stands for their checkout); `flags` are its flags
    alone, for `commands.shared_library`. `served` are the problems in the header's table with the
    configuration each got; `unserved` those left out by the kernel limit, at the count-weighted
    geometric mean slowdown `loss` of the served ones against their own winners.
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

    @property
    def shapes(self) -> int:
        return len(self.served)


def write(
    tuned: Sequence[Tuned],
    kernels: Mapping[str, KernelText],
    *,
    includes: Sequence[str],
    host_header: str,
    provenance: Provenance,
    tolerance: Tolerance,
    out_dir: Path,
    namespace: str = "tuned",
    name: str | None = None,
    max_kernels: int | None = None,
    alternatives: Iterable[Tuned] = (),
) -> Exported:
    """Write `<name>.h`, `<name>.cu`, `<name>_bench.cu` and `<name>.md` into `out_dir`.

    `tuned` has one winner a problem; `alternatives`, needed only with `max_kernels`, are the other
    verified measurements of the same problems (`tuned.substitute`). `kernels` maps a kernel's key to its
    C++ and must hold every kernel that may be chosen. `name` is the files' name (default: the namespace).
    Raises UserError for a bad namespace or name, nothing to export, or problems of unlike contracts.
    """
    name = name or namespace.replace("::", "_")
    _check_names(namespace, name)
    selection = select(tuned, alternatives, max_kernels)
    _check_contract(selection.served)
    used = sorted({entry.kernel_key for entry in selection.served})
    unit = Unit(
        name=name,
        namespace=namespace,
        served=table_order(selection.served),
        kernels=tuple(kernels[key] for key in used),
        includes=tuple(includes),
        host_header=host_header,
        provenance=provenance,
        unserved=selection.unserved,
        loss=selection.loss,
    )
    texts = {
        f"{name}.h": header(unit),
        f"{name}.cu": source(unit),
        f"{name}_bench.cu": bench(unit, tolerance),
        f"{name}.md": page(unit),
    }
    out_dir.mkdir(parents=True, exist_ok=True)
    for file_name, text in texts.items():
        (out_dir / file_name).write_text(text, encoding="utf-8")
    return Exported(
        files=tuple(out_dir / file_name for file_name in texts),
        header=out_dir / f"{name}.h",
        source=out_dir / f"{name}.cu",
        nvcc_line=commands.object_line(unit.flags, name),
        flags=unit.flags,
        kernels_used=tuple(used),
        served=unit.served,
        unserved=unit.unserved,
        loss=unit.loss,
    )


def page(unit: Unit) -> str:
    """How to build and call the export, with its exact compiler lines."""
    first = unit.served[0].problem
    extents = ", ".join(str(first.dims[dim]) for dim in ("m", "n", "k"))
    problem = (
        f"{{{extents}, {first.dims.get('batch', 1)}, {unit.namespace}::Layout::k{first.layout.upper()}}}"
    )
    return fill(
        "page.md.in",
        {
            "NAME": unit.name,
            "NAMESPACE": unit.namespace,
            "CUTLASS_VERSION": unit.provenance.environment.cutlass,
            "OBJECT_LINE": commands.object_line(unit.flags, unit.name),
            "BENCH_LINE": commands.bench_line(unit.flags, unit.name, cublas=False),
            "BENCH_CUBLAS_LINE": commands.bench_line(unit.flags, unit.name, cublas=True),
            "PROBLEM": problem,
            "LABEL": f"\n\n**{unit.provenance.label}.**" if unit.provenance.label else "",
            "SEARCHED": _searched(unit),
            "RUN_LINES": "\n".join(f"    {_run_line(unit, tuned)}" for tuned in unit.served),
        },
    )


def _run_line(unit: Unit, tuned: Tuned) -> str:
    origin = unit.provenance
    return run_command(tuned.problem, tuned.config, origin.l2, origin.environment.compiler)


def _searched(unit: Unit) -> str:
    """What the page says of problems whose kernel no final measured on them; nothing where there are none."""
    if not unit.searched:
        return ""
    labels = ", ".join(f"{tuned.problem.label} {tuned.problem.layout}" for tuned in unit.searched)
    return (
        f"\nMarked `{SEARCHED_MARK}` in the table of `{unit.name}.h`: {' '.join(labels.split())}.\n"
        "The kernel limit left their winners out, and no final measured the kernels that serve them\n"
        "instead. Their figures are the winner's, slowed by what the search saw between the two;\n"
        "`beats_baseline` is false, for only a final may say otherwise.\n"
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
