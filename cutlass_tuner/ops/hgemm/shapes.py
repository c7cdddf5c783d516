"""Reads a shapes file: CSV with columns m, n, k and optionally batch, layout, count, name."""

from __future__ import annotations

from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops import shape_file
from cutlass_tuner.ops.hgemm.problem import CONTRACT, DIMS, LAYOUTS, OP, known_layout, misalignment
from cutlass_tuner.ops.shape_file import Row
from cutlass_tuner.records import Problem

FORMAT = shape_file.Format(
    required=("m", "n", "k"), optional=("batch", "layout", "count", "name"), example="4096,4096,4096"
)


def read_shapes(path: Path | str) -> list[Problem]:
    """The problems of a shapes file, in its order. Raises UserError, one line, on the first mistake."""
    return shape_file.read(path, FORMAT, _problem)


def _problem(row: Row) -> Problem:
    problem = Problem(
        op=OP,
        dims={dim: row.whole(dim, default=1 if dim == "batch" else None) for dim in DIMS},
        layout=known_layout(row.text("layout") or LAYOUTS[0]),
        contract=CONTRACT,
        count=row.whole("count", default=1),
        name=row.text("name"),
    )
    wrong = misalignment(problem)
    if wrong is not None:
        raise UserError(wrong)
    return problem
