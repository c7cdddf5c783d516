"""A GEMM study's winners as a C++ header and its companions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cutlass_tuner.emit.gemm3x import HOST_HEADER
from cutlass_tuner.export import header
from cutlass_tuner.export.tuned import KernelText, Provenance
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ExportOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.export_kernels import said, substitutes, tuned_rows
from cutlass_tuner.records import KernelConfig
from cutlass_tuner.results import Row
from cutlass_tuner.study import Study
from cutlass_tuner.verify.tolerance import tolerance


def write(
    study: Study,
    rows: Sequence[Row],
    options: ExportOptions,
    provenance: Provenance,
    folder: Path,
) -> str:
    """The header and its companions in `folder`, from the final winners; what to print about them."""
    op = registry.op(study.header.op)
    tuned = [one for one, _ in tuned_rows(op, rows, provenance)]
    others = substitutes(op, study, tuned, options)
    kernels = {t.kernel_key: t.config.kernel for t in [*tuned, *others]}
    exported = header.write(
        tuned,
        {key: _text(kernel, op) for key, kernel in kernels.items()},
        includes=setup.emitter(op).includes(),
        host_header=HOST_HEADER.read_text(encoding="utf-8"),
        provenance=provenance,
        tolerance=tolerance(op.contract),
        out_dir=folder,
        namespace=options.namespace,
        max_kernels=options.max_kernels,
        alternatives=others,
        torch=options.format == "torch",
    )
    return said(exported, provenance)


def _text(kernel: KernelConfig, op: registry.Op) -> KernelText:
    emitter = setup.emitter(op)
    return KernelText(
        config=kernel,
        symbol=emitter.symbol(kernel),
        type_definitions=emitter.type_definitions(kernel, op.contract),
        wrapper=emitter.kernel_wrapper(kernel),
        template_arguments=emitter.template_arguments(kernel),
    )
