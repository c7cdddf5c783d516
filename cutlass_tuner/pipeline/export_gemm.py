"""A GEMM study's winners as a C++ header and its companions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cutlass_tuner.build.toolchain import find_cutlass
from cutlass_tuner.emit.gemm3x import HOST_HEADER
from cutlass_tuner.errors import UserError
from cutlass_tuner.export import header
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned, substitute
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ExportOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.records import Config, KernelConfig
from cutlass_tuner.report.tables import counted
from cutlass_tuner.results import LT_TUNED, TORCH, Row
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
    tuned = [_tuned(op, row) for row in rows if row.winner is not None]
    if provenance.simulated:  # nothing that no GPU measured may claim to beat a baseline
        tuned = [replace(one, beats_baselines=False) for one in tuned]
    limited = options.max_kernels is not None
    others = [other for winner in tuned for other in _substitutes(op, study, winner)] if limited else []
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
    )
    return _said(exported, provenance)


def _text(kernel: KernelConfig, op: registry.Op) -> KernelText:
    emitter = setup.emitter(op)
    return KernelText(
        config=kernel,
        symbol=emitter.symbol(kernel),
        type_definitions=emitter.type_definitions(kernel, op.contract),
        wrapper=emitter.kernel_wrapper(kernel),
        template_arguments=emitter.template_arguments(kernel),
    )


def _tuned(op: registry.Op, row: Row) -> Tuned:
    assert row.winner is not None and row.ours_us is not None
    return Tuned(
        problem=row.problem,
        config=row.winner,
        launch_codes=op.launch_codes(row.winner.launch),
        time_us=row.ours_us,
        speedup_torch=_ratio(row, TORCH),
        speedup_cublaslt_tuned=_ratio(row, LT_TUNED),
        beats_baselines=row.beats_baselines,
    )


def _substitutes(op: registry.Op, study: Study, winner: Tuned) -> list[Tuned]:
    """The other verified configurations on the winner's problem, fastest first.

    None where the final has no ratio to torch, the reference that the search ranks by.
    """
    if winner.speedup_torch is None:
        return []
    return [
        substitute(
            winner,
            Config(kernel=best.measurement.kernel, launch=best.measurement.launch),
            op.launch_codes(best.measurement.launch),
            best.speedup,
        )
        for best in study.ledger.ranking(winner.problem.key)
    ]


def _ratio(row: Row, baseline: str) -> float | None:
    pair = row.ratios.get(baseline)
    return None if pair is None else pair.ratio


def _said(exported: header.Exported, provenance: Provenance) -> str:
    if exported.unserved:
        left = ", ".join(problem.label for problem in exported.unserved)
        print(f"left out by --max-kernels: {left}", file=sys.stderr)
    files = "\n".join(f"  {path}" for path in exported.files)
    loss = f", {exported.loss:.1%} slower than with all" if exported.loss > 0 else ""
    searched = sum(tuned.from_search for tuned in exported.served)
    marked = f"; figures of {counted(searched, 'shape')} are from the search, marked ~" if searched else ""
    origin = f"SIMULATED, replayed from {provenance.simulated}: " if provenance.simulated else ""
    return (
        f"{origin}{counted(exported.shapes, 'shape')}, {counted(len(exported.kernels_used), 'kernel')}"
        f"{loss}{marked}\n{files}\n{_compile_lines(exported, provenance.environment.cutlass)}"
    )


def _compile_lines(exported: header.Exported, measured: str) -> str:
    """What compiles the export on this machine, to paste. `measured` is the study's version of CUTLASS."""
    try:
        found = find_cutlass()
    except UserError as error:
        root, says = "/path/to/cutlass", str(error)
    else:
        root, says = str(found.root), f"CUTLASS {found.version} of {found.origin}"
    return (
        f"compile with ({says}; measured with {measured}):\n"
        f"  cd {shlex.quote(str(exported.source.parent))}\n"
        f"  CUTLASS={shlex.quote(root)}\n"
        f"  {exported.nvcc_line}"
    )
