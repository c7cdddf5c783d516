"""Reads a shapes file: CSV with columns batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim, causal and
optionally align, layout, count, name.

`causal` is 0 (every query sees every key) or 1 (masked); `align` says where the mask's diagonal lies:
bottom_right (the default: the last query sees every key) or top_left (the first sees the first key alone).
"""

from __future__ import annotations

from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops import shape_file
from cutlass_tuner.ops.fmha.problem import BOTTOM_RIGHT, DIMS, FULL, TOP_LEFT, checked, labelled
from cutlass_tuner.ops.shape_file import Row
from cutlass_tuner.records import Problem

FORMAT = shape_file.Format(
    required=DIMS, optional=("align", "layout", "count", "name"), example="1,32,8,4096,4096,128,1"
)
ALIGNMENTS = {"bottom_right": BOTTOM_RIGHT, "top_left": TOP_LEFT}


def read_shapes(path: Path | str, *, op: str = "fmha") -> list[Problem]:
    """The problems of a shapes file, in its order, named. Raises UserError, one line, on the first mistake.

    `op` is one of `problem.CONTRACTS`.
    """

    def problem(row: Row) -> Problem:
        extents = (*(row.whole(dim) for dim in DIMS if dim != "causal"), _causal(row))
        count = row.whole("count", default=1)
        return checked(op, extents, row.text("layout") or None, count=count, name=row.text("name"))

    return [labelled(found) for found in shape_file.read(path, FORMAT, problem)]


def _causal(row: Row) -> int:
    causal, align = row.text("causal"), row.text("align").lower() or next(iter(ALIGNMENTS))
    if causal not in ("0", "1"):
        seen = f"is {causal!r}" if causal else "is empty"
        raise UserError(f"causal {seen}; give 0 (every query sees every key) or 1 (causal mask)")
    if align not in ALIGNMENTS:
        raise UserError(f"align is {row.text('align')!r}; give {' or '.join(ALIGNMENTS)}")
    return ALIGNMENTS[align] if causal == "1" else FULL
