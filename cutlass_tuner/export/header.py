"""Writes a GEMM study's winners as a C++ header, the .cu behind it, a self-benchmark, a page on building, and
if asked a PyTorch module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cutlass_tuner.export import commands, fragments, torch_module
from cutlass_tuner.export import unit as units
from cutlass_tuner.export.bench import bench
from cutlass_tuner.export.source import header, source, table_order
from cutlass_tuner.export.template import fill
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned
from cutlass_tuner.export.unit import Exported, Unit
from cutlass_tuner.records import Tolerance

__all__ = ["Exported", "page", "write"]


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
    torch: bool = False,
) -> Exported:
    """Write `<name>.h`, `<name>.cu`, `<name>_bench.cu` and `<name>.md` into `out_dir`, and with `torch`
    `<name>_torch.py`.

    `tuned` has one winner a problem; `alternatives`, needed only with `max_kernels`, are the other
    verified measurements of the same problems (`tuned.substitute`). `kernels` maps a kernel's key to its
    C++ and must hold every kernel that may be chosen. `name` is the files' name (default: the namespace).
    Raises UserError for a bad namespace or name, nothing to export, or problems of unlike contracts.
    """
    chosen = units.unit(
        tuned,
        kernels,
        provenance=provenance,
        namespace=namespace,
        name=name,
        max_kernels=max_kernels,
        alternatives=alternatives,
    )
    unit = replace(chosen, served=table_order(chosen.served))
    texts = {
        f"{unit.name}.h": header(unit),
        f"{unit.name}.cu": source(unit, includes, host_header),
        f"{unit.name}_bench.cu": bench(unit, tolerance),
        f"{unit.name}.md": page(unit),
    }
    build_line = ""
    if torch:
        texts[torch_module.file_name(unit)] = torch_module.gemm(unit)
        build_line = torch_module.build_line(unit)
    line = commands.object_line(unit.flags, unit.name)
    return units.place(unit, texts, out_dir, line, build_line)


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
            "LABEL": fragments.page_label(unit),
            "SEARCHED": fragments.searched_note(unit),
            "RUN_LINES": fragments.run_lines(unit),
        },
    )
