"""Results as text: for a terminal ("simple") or for a document ("github" markdown)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from tabulate import tabulate

from cutlass_tuner.events import KernelBuilt, KernelFailed
from cutlass_tuner.records import Build, Config, Failure, KernelConfig
from cutlass_tuner.results import BEST, NO_KERNEL, TORCH, Row
from cutlass_tuner.spelling import extents_text, few_extents, kernel_text, knobs_text
from cutlass_tuner.statistics import Paired

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


def results(rows: Sequence[Row], style: Style = "simple", headline: str = TORCH) -> str:
    """The table of a study: a line a problem, then a note for each that needs one.

    The interval and the verdict are against `headline` (`results.headline`). Against torch there is a ratio
    to every baseline; against the best of them, which changes from problem to problem, every baseline's
    time and who was best. Ratios are baseline/ours: above 1 = ours is faster. A column that nothing fills
    (a baseline that was not asked for, or that refused every problem) is left out.
    """
    shown = _timed(rows)
    if headline == BEST:
        lines = [_line_of_times(row, shown) for row in rows]
        header = ["shape", "ours us", "TFLOP/s", *(f"{name} us" for name in shown)]
        header += ["best", "vs best", "95 %", "roofline %", "verdict"]
    else:
        with_best = any(row.best_layout for row in rows)
        lines = [_line_of_ratios(row, shown, headline, with_best) for row in rows]
        header = ["shape", "ours us", f"{headline} us"]
        for name in shown:
            header += [f"vs {name}"] + ["95 %"] * (name == headline)
        header += ["best layout"] * with_best + ["roofline %", "verdict"]
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
    shown = _timed(rows)
    lines = [[_shape(row), *(microseconds(row.baseline_us.get(name)) for name in shown)] for row in rows]
    return _with_notes(_table(lines, ["shape", *(f"{name} us" for name in shown)], style), rows, style)


def _timed(rows: Sequence[Row]) -> list[str]:
    """The baselines with a time on some problem, in the op's order."""
    return [name for name in _baselines(rows) if any(name in row.baseline_us for row in rows)]


def _baselines(rows: Sequence[Row]) -> list[str]:
    """Every baseline that any row speaks of."""
    return list(dict.fromkeys(name for row in rows for name in (*row.outcomes, *row.baseline_us)))


def _with_notes(table: str, rows: Sequence[Row], style: Style) -> str:
    """In markdown a blank line ends the table: without it the notes would be its last rows."""
    said = notes(rows)
    return "\n".join([table, *[""] * bool(said and style == "github"), *said])


def _line_of_ratios(row: Row, shown: Sequence[str], headline: str, with_best: bool) -> list[str]:
    cells = [_shape(row), microseconds(row.ours_us), microseconds(row.baseline_us.get(headline))]
    for name in shown:
        pair = row.ratios.get(name)
        cells += [_ratio(pair)] + [_interval(pair)] * (name == headline)
    if with_best:
        cells.append(_ratio(row.best_layout))
    return [*cells, _roofline(row), VERDICTS[row.outcomes.get(headline, "missing")]]


def _line_of_times(row: Row, shown: Sequence[str]) -> list[str]:
    pair, outcome = row.against(BEST)
    tflops = ABSENT if row.tflops is None else f"{row.tflops:.0f}"
    times = [microseconds(row.baseline_us.get(name)) for name in shown]
    best = [row.best_baseline or ABSENT, _ratio(pair), _interval(pair)]
    return [_shape(row), microseconds(row.ours_us), tflops, *times, *best, _roofline(row), VERDICTS[outcome]]


def _roofline(row: Row) -> str:
    return ABSENT if row.roofline is None else f"{100 * row.roofline:.0f}"


def notes(rows: Sequence[Row]) -> list[str]:
    """A line for each row that must not be read without one, and one for each baseline without any time."""
    nowhere = _nowhere(rows)
    lines = []
    for row in rows:
        said = [row.why] * bool(row.why)
        for name, why in row.missing.items():
            if name in nowhere:
                continue
            if row.winner is not None:
                said.append(f"no {name} ratio: {why}")
            elif name not in row.baseline_us and why not in (NO_KERNEL, row.why):
                said.append(f"no {name} time: {why}")
        held = [reason for reason in row.throttle if reason != POWER_CAP]
        if held:
            said.append(f"the card was held back: {', '.join(held)}")
        lines += [f"{_shape(row)}: {text}" for text in said]
    lines += [f"{name} on no shape: {why}" for name, why in nowhere.items()]
    capped = [_shape(row) for row in rows if POWER_CAP in row.throttle]
    if capped:
        lines.append(f"at the card's power limit, as large problems are: {', '.join(capped)}")
    return lines


def _nowhere(rows: Sequence[Row]) -> dict[str, str]:
    """The baselines that several problems were to be measured with and none was, and why."""
    found = {}
    for name in _baselines(rows):
        if len(rows) > 1 and all(name in row.missing and name not in row.baseline_us for row in rows):
            own = [row.missing[name] for row in rows if row.missing[name] not in (NO_KERNEL, row.why)]
            if own:
                found[name] = "; ".join(dict.fromkeys(own))
    return found


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
    """The user's name, extents and layout; of many extents the label alone, which tells all of them where the
    user gave no name. Then how often a model makes this call, if more than once."""
    problem = row.problem
    count = f"{problem.count}x" if problem.count > 1 else ""
    if not few_extents(problem):
        return " ".join(filter(None, (problem.label, count)))
    return " ".join(filter(None, (problem.name, extents_text(problem), problem.layout, count)))


def microseconds(value: float | None) -> str:
    """Four significant digits or whole microseconds; never an exponent."""
    return ABSENT if value is None else f"{value:,.0f}" if value >= 999.95 else f"{value:#.4g}"


def _ratio(pair: Paired | None) -> str:
    return ABSENT if pair is None else f"{pair.ratio:.3f}"


def _interval(pair: Paired | None) -> str:
    return ABSENT if pair is None or pair.low is None else f"{pair.low:.3f}-{pair.high:.3f}"
