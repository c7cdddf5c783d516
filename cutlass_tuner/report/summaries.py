"""A comparison's figures over all problems, in a few lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cutlass_tuner.report.tables import ABSENT
from cutlass_tuner.results import Row, Summary
from cutlass_tuner.statistics import verdict


def summary_lines(summaries: Iterable[Summary]) -> list[str]:
    """A few lines a baseline: how many were won, by how much, by size, and what is not counted."""
    lines = []
    for s in summaries:
        if not s.compared:
            lines.append(f"against {s.baseline}: nothing to compare{_uncounted(s)}")
            continue
        lines.append(
            f"against {s.baseline}: geometric mean {_figure(s.geomean)}, mean {_figure(s.mean)}, "
            f"FLOP-weighted {_figure(s.flop_weighted)}, time-weighted {_figure(s.time_weighted)}"
        )
        lines.append(
            f"  {s.compared} of {s.problems} shapes: {s.wins} faster, "
            f"{s.ties} tie{'' if s.ties == 1 else 's'}, {s.losses} slower"
            f" (win rate {100 * (s.win_rate or 0):.0f} %){_uncounted(s)}"
        )
        sizes = [f"{b.label} {b.geomean:.3f} ({b.wins} of {b.problems} faster)" for b in s.buckets]
        lines.append(f"  by size: {', '.join(sizes)}")
    return lines


def roofline_line(s: Summary) -> str:
    """How much of what the card can do is reached; "" where its roofline is not known."""
    if s.roofline is None:
        return ""
    return f"{100 * s.roofline:.0f} % of the measured roofline (geometric mean over the shapes)"


def control_line(rows: Sequence[Row]) -> str:
    """What the same contests say of torch against itself; "" where it was not measured."""
    pairs = [row.control for row in rows if row.control is not None]
    if not pairs:
        return ""
    mean = math.exp(sum(math.log(pair.ratio) for pair in pairs) / len(pairs))
    least, most = min(pair.ratio for pair in pairs), max(pair.ratio for pair in pairs)
    named = sum(verdict(pair) != "tie" for pair in pairs)
    return (
        f"control: torch against itself in the same rounds: geometric mean {mean:.3f}, "
        f"{least:.3f} to {most:.3f}, called different on {named} of {len(pairs)} shapes"
    )


def _figure(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _uncounted(s: Summary) -> str:
    parts = []
    if s.missing:
        parts.append(f"{len(s.missing)} missing ({', '.join(s.missing)})")
    if s.impossible:
        parts.append(f"{len(s.impossible)} impossible ({', '.join(s.impossible)})")
    return f"; not counted: {', '.join(parts)}" if parts else ""
