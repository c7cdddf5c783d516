"""What every export of kernels takes of a study, and says about what it wrote."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace

from cutlass_tuner.build.toolchain import find_cutlass
from cutlass_tuner.errors import UserError
from cutlass_tuner.export.tuned import Provenance, Tuned, substitute
from cutlass_tuner.export.unit import Exported
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ExportOptions
from cutlass_tuner.records import Config
from cutlass_tuner.report.tables import counted
from cutlass_tuner.results import LT_TUNED, TORCH, Row
from cutlass_tuner.study import Study


def tuned_rows(op: registry.Op, rows: Sequence[Row], provenance: Provenance) -> list[tuple[Tuned, Row]]:
    """The rows that have a winner. Nothing that no GPU measured may claim to beat a baseline."""
    won = [(_tuned(op, row), row) for row in rows if row.winner is not None]
    return [(replace(one, beats_baselines=False), row) for one, row in won] if provenance.simulated else won


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


def _ratio(row: Row, baseline: str) -> float | None:
    pair = row.ratios.get(baseline)
    return None if pair is None else pair.ratio


def substitutes(op: registry.Op, study: Study, tuned: Sequence[Tuned], options: ExportOptions) -> list[Tuned]:
    """The other verified configurations on the winners' problems; none where every winner is shipped."""
    if options.max_kernels is None:
        return []
    return [other for winner in tuned for other in _substitutes(op, study, winner)]


def _substitutes(op: registry.Op, study: Study, winner: Tuned) -> list[Tuned]:
    """Fastest first. None where the final has no ratio to torch, the reference that the search ranks by."""
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


def said(exported: Exported, provenance: Provenance) -> str:
    """What to print: how much is served, the files, and what compiles them here."""
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


def _compile_lines(exported: Exported, measured: str) -> str:
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
        f"  {exported.build_line or exported.nvcc_line}"
    )
