"""An attention study's winners as a C++ header and its companions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cutlass_tuner.emit.shipped import SHIPPED
from cutlass_tuner.export import attention
from cutlass_tuner.export.tuned import Headers, KernelText, Provenance, Tuned
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ExportOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.export_kernels import said, substitutes, tuned_rows
from cutlass_tuner.records import KernelConfig
from cutlass_tuner.results import Row
from cutlass_tuner.study import Study
from cutlass_tuner.verify.tolerance import tolerance

_LINE = re.compile(r"^#line .*\n", re.MULTILINE)


def write(
    study: Study,
    rows: Sequence[Row],
    options: ExportOptions,
    provenance: Provenance,
    folder: Path,
) -> str:
    """The header and its companions in `folder`, from the final winners; what to print about them."""
    op = registry.op(study.header.op)
    tuned = [_with_best(one, row) for one, row in tuned_rows(op, rows, provenance)]
    others = substitutes(op, study, tuned, options)
    kernels = {t.kernel_key: t.config.kernel for t in [*tuned, *others]}
    exported = attention.write(
        tuned,
        {key: text(kernel, op) for key, kernel in kernels.items()},
        headers=headers(),
        provenance=provenance,
        tolerance=tolerance(op.contract),
        out_dir=folder,
        namespace=options.namespace,
        max_kernels=options.max_kernels,
        alternatives=others,
        torch=options.format == "torch",
    )
    return said(exported, provenance)


def headers() -> dict[str, Headers]:
    """By template, what its kernels include."""
    return {
        template: Headers(
            includes=shipped.includes,
            files={name: path.read_text(encoding="utf-8") for name, path in shipped.files.items()},
        )
        for template, shipped in SHIPPED.items()
    }


def text(kernel: KernelConfig, op: registry.Op) -> KernelText:
    """The kernel as it was compiled, but for the lines that name it to a compiler: a shipped file's own names
    are what its reader needs, and for the includes, which `headers` has."""
    emitter = setup.emitter(op)
    source = emitter.type_definitions(kernel, op.contract)
    kept = [line for line in _LINE.sub("", source).splitlines() if not line.startswith("#include ")]
    return KernelText(
        config=kernel,
        symbol=emitter.symbol(kernel),
        type_definitions="\n".join(kept),
        wrapper=emitter.kernel_wrapper(kernel),
        template_arguments=emitter.template_arguments(kernel),
    )


def _with_best(tuned: Tuned, row: Row) -> Tuned:
    """With the best baseline's figures. torch alone is a baseline too."""
    name = row.best_baseline
    if name is None:
        return tuned
    return replace(tuned, speedup_best=row.ratios[name].ratio, best_baseline=name)
