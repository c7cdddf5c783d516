"""Results as text: for a terminal ("simple") or for a document ("github" markdown)."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from tabulate import tabulate

from cutlass_tuner.events import KernelBuilt, KernelFailed
from cutlass_tuner.records import Build, Config, Failure, KernelConfig
from cutlass_tuner.results import BASELINES, HEADLINE, Row, Summary
from cutlass_tuner.spelling import kernel_text, knobs_text
from cutlass_tuner.statistics import Paired, verdict

Style = Literal["simple", "github"]

ABSENT = "-"
VERDICTS = {
    "faster": "faster",
    "tie": "tie",
    "slower": "slower",
    "missing": "none",
    "impossible": "IMPOSSIBLE",
}


def counted(number: int, noun: str) -> str:
    """ "1 kernel", "2 kernels"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class BrokenRule(Protocol):
    """A rule a config breaks: its name, and why it is a rule."""

    @property
    def rule(self) -> str: ...
    @property
    def reason(self) -> str: ...


POWER_CAP = "power_cap"
"""The one reason for lower clocks that is no fault: both sides of every pair had it."""


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is a file or a pipe."""
    shown = sys.stdout is not None and sys.stdout.isatty()  # None where stdout was closed
    return shutil.get_terminal_size().columns if shown else None


def results(rows: Sequence[Row], style: Style = "simple") -> str:
    """The table of a study: a line a problem, then a note for each that needs one.

    The interval and the verdict are against `results.HEADLINE`. Ratios are baseline/ours: above 1 = ours
    is faster. A column that nothing fills (a baseline that was not asked for) is left out.
    """
    shown = [name for name in BASELINES if any(name in row.baseline_us for row in rows)]
    with_best = any(row.best_layout for row in rows)
    header = ["shape", "ours us", f"{HEADLINE} us"]
    for name in shown:
        header += [f"vs {name}"] + ["95 %"] * (name == HEADLINE)
    header += ["best layout"] * with_best + ["roofline %", "verdict"]
    lines = [_line(row, shown, with_best) for row in rows]
    return _with_notes(_table(lines, header, style), rows, style)


def configs(
    rows: Sequence[Row],
    default: Config | None = None,
    style: Style = "simple",
    width: int | None = None,
) -> str:
    """The kernel and launch of every problem that has a winner, as their differences from `default`
    (without one, in full). Lines longer than `width` are cut, and a line says so."""
    lines = []
    for row in rows:
        if row.winner is not None:
            kernel = kernel_text(row.winner.kernel, default.kernel if default else None)
            launch = knobs_text(row.winner.launch.knobs, default.launch.knobs if default else None)
            lines.append([_shape(row), kernel, launch])
    return "\n".join(_cut(_table(lines, ["shape", "kernel", "launch"], style), width))


def _cut(table: str, width: int | None) -> list[str]:
    lines = table.splitlines()
    if width is None or max(map(len, lines)) <= width:
        return lines
    cut = [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]
    return [*cut, "(cut to the terminal's width; a file or a pipe gets kernels and launches whole)"]


def baselines(rows: Sequence[Row], style: Style = "simple") -> str:
    """The baselines alone: a line a problem with each one's microseconds, then why any is missing."""
    shown = [name for name in BASELINES if any(name in row.baseline_us for row in rows)]
    lines = [[_shape(row), *(microseconds(row.baseline_us.get(name)) for name in shown)] for row in rows]
    return _with_notes(_table(lines, ["shape", *(f"{name} us" for name in shown)], style), rows, style)


def _with_notes(table: str, rows: Sequence[Row], style: Style) -> str:
    """In markdown a blank line ends the table: without it the notes would be its last rows."""
    said = notes(rows)
    return "\n".join([table, *[""] * bool(said and style == "github"), *said])


def _line(row: Row, shown: list[str], with_best: bool) -> list[str]:
    cells = [_shape(row), microseconds(row.ours_us), microseconds(row.baseline_us.get(HEADLINE))]
    for name in shown:
        pair = row.ratios.get(name)
        cells += [_ratio(pair)] + [_interval(pair)] * (name == HEADLINE)
    if with_best:
        cells.append(_ratio(row.best_layout))
    cells.append(ABSENT if row.roofline is None else f"{100 * row.roofline:.0f}")
    return [*cells, VERDICTS[row.outcomes.get(HEADLINE, "missing")]]


def notes(rows: Sequence[Row]) -> list[str]:
    """A line for each row that must not be read without one."""
    lines = []
    for row in rows:
        said = [row.why] * bool(row.why)
        if row.winner is not None:
            said += [f"no {name} ratio: {why}" for name, why in row.missing.items()]
        held = [reason for reason in row.throttle if reason != POWER_CAP]
        if held:
            said.append(f"the card was held back: {', '.join(held)}")
        lines += [f"{_shape(row)}: {text}" for text in said]
    capped = [_shape(row) for row in rows if POWER_CAP in row.throttle]
    if capped:
        lines.append(f"at the card's power limit, as large GEMMs are: {', '.join(capped)}")
    return lines


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
    """What the same contests say of torch.matmul against itself; "" where it was not measured."""
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


def legality(illegal: Sequence[BrokenRule], unwise: Sequence[BrokenRule], style: Style = "simple") -> str:
    """Every broken rule with its reason, or one line saying that there is none."""
    lines = [["illegal", b.rule, b.reason] for b in illegal] + [["unwise", b.rule, b.reason] for b in unwise]
    return _table(lines, ["", "rule", "reason"], style) if lines else "legal: no rule is broken"


def builds(
    events: Iterable[KernelBuilt | KernelFailed], default: KernelConfig | None = None, style: Style = "simple"
) -> str:
    """What was built, in order, and what could not be, with the reason."""
    header = ["kernel", "from", "regs", "spill B", "smem B", "stages", "threads", "compile s", "result"]
    lines = []
    for event in events:
        outcome = event.build if isinstance(event, KernelBuilt) else event.failure
        name = kernel_text(event.proposal.kernel, default)
        lines.append([name, event.proposal.source, *_build_cells(outcome)])
    return _table(lines, header, style)


def _build_cells(outcome: Build | Failure) -> list[str]:
    if isinstance(outcome, Failure):
        return [*[ABSENT] * 6, f"{outcome.stage} failed: {outcome.reason}"]
    figures = (outcome.registers, outcome.spill_bytes, outcome.smem_bytes, outcome.stages, outcome.threads)
    result = "; ".join(("cached" if outcome.cached else "built", *outcome.warnings))
    return [*map(str, figures), f"{outcome.compile_s:.1f}", result]


def _table(lines: list[list[str]], header: list[str], style: Style) -> str:
    if style == "github":
        lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    # Cells are formatted already: tabulate must not turn 0.950 into 0.95.
    numbers = {index for index in range(len(header)) if all(_numeric(line[index]) for line in lines)}
    align = ["right" if index in numbers else "left" for index in range(len(header))]
    return tabulate(lines, header, tablefmt=style, disable_numparse=True, colalign=align if lines else None)


def _numeric(cell: str) -> bool:
    return cell == ABSENT or cell.replace(".", "", 1).replace(",", "").isdigit()


def _shape(row: Row) -> str:
    """The user's name, extents, layout, and how often a model makes this call if more than once."""
    problem = row.problem
    extents = problem.model_copy(update={"name": ""}).label
    count = f"{problem.count}x" if problem.count > 1 else ""
    return " ".join(filter(None, (problem.name, extents, problem.layout, count)))


def microseconds(value: float | None) -> str:
    """Four significant digits or whole microseconds; never an exponent."""
    return ABSENT if value is None else f"{value:,.0f}" if value >= 999.95 else f"{value:#.4g}"


def _ratio(pair: Paired | None) -> str:
    return ABSENT if pair is None else f"{pair.ratio:.3f}"


def _interval(pair: Paired | None) -> str:
    return ABSENT if pair is None or pair.low is None else f"{pair.low:.3f}-{pair.high:.3f}"


def _figure(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _uncounted(s: Summary) -> str:
    parts = []
    if s.missing:
        parts.append(f"{len(s.missing)} missing ({', '.join(s.missing)})")
    if s.impossible:
        parts.append(f"{len(s.impossible)} impossible ({', '.join(s.impossible)})")
    return f"; not counted: {', '.join(parts)}" if parts else ""
