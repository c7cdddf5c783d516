"""Writes an attention study's winners as a C++ header, the .cu behind it with the kernels it includes, a
self-benchmark, a page on building, and if asked a PyTorch module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cutlass_tuner.export import attention_source, commands, fragments, torch_module
from cutlass_tuner.export import unit as units
from cutlass_tuner.export.template import fill
from cutlass_tuner.export.tuned import Headers, KernelText, Provenance, Tuned
from cutlass_tuner.export.unit import Exported, Unit
from cutlass_tuner.records import Tolerance


def write(
    tuned: Sequence[Tuned],
    kernels: Mapping[str, KernelText],
    *,
    headers: Mapping[str, Headers],
    provenance: Provenance,
    tolerance: Tolerance,
    out_dir: Path,
    namespace: str = "tuned",
    name: str | None = None,
    max_kernels: int | None = None,
    alternatives: Iterable[Tuned] = (),
    torch: bool = False,
) -> Exported:
    """Write `<name>.h`, `<name>.cu`, `<name>_bench.cu`, `<name>.md` and the files of the headers into
    `out_dir`, and with `torch` `<name>_torch.py`.

    `headers` are what kernels of a template need, by its name, in the order in which they are included; those
    of a template that serves nothing are left out. The other arguments, and what is raised, are those of
    `header.write`.
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
    unit = replace(chosen, served=attention_source.table_order(chosen.served))
    used = {attention_source.template(kernel) for kernel in unit.kernels}
    needed = [brought for make, brought in headers.items() if make in used]
    texts = {
        f"{unit.name}.h": attention_source.header(unit),
        f"{unit.name}.cu": attention_source.source(unit, [line for one in needed for line in one.includes]),
        f"{unit.name}_bench.cu": attention_source.bench(unit, tolerance),
        f"{unit.name}.md": page(unit),
    }
    build_line = ""
    if torch:
        texts[torch_module.file_name(unit)] = torch_module.attention(unit)
        build_line = torch_module.build_line(unit, attention_source.BESIDE)
    for one in needed:
        texts |= one.files
    return units.place(unit, texts, out_dir, attention_source.object_line(unit), build_line)


def page(unit: Unit) -> str:
    """How to build and call the export, with its exact compiler lines."""
    return fill(
        "attention_page.md.in",
        {
            "NAME": unit.name,
            "NAMESPACE": unit.namespace,
            "CUTLASS_VERSION": unit.provenance.environment.cutlass,
            "OBJECT_LINE": attention_source.object_line(unit),
            "BENCH_LINE": commands.bench_line(unit.flags, unit.name, cublas=False),
            "PROBLEM": attention_source.problem_text(unit.served[0].problem, f"{unit.namespace}::"),
            "LABEL": fragments.page_label(unit),
            "SEARCHED": fragments.searched_note(unit),
            "RUN_LINES": fragments.run_lines(unit),
        },
    )
