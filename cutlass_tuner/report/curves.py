"""Pictures and tables of regret curves and of expectations. Pictures need matplotlib, which is optional.

A curve is named "who proposes first + what chooses the rest": the last word of its name, the sampler, decides
its colour, and the words before it how it is dashed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from cutlass_tuner.report.tables import ABSENT, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

LEAST = 0.1
"""Per cent at which curves end below: a log axis has no 0."""
TOP = 110.0
SIZE_INCHES, DPI = (9.0, 5.6), 200
RC: dict[Any, Any] = {
    "font.size": 11.0,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": "#333333",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}
# Okabe and Ito's palette, which the colour-blind can tell apart.
BLUE, GREEN, PINK, ORANGE, RED, GREY = "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#D55E00", "#777777"
COLOURS = {"portfolio": BLUE, "tpe": GREEN, "gp": PINK, "random": GREY}
STARTED = {"heuristics": RED, "llm+heuristics": "#000000", "nvmmh": ORANGE}
"""Who starts decides the colour where several starts share a sampler."""
SOLID, DASHED, DOTTED = "-", (0, (5, 2)), (0, (1.2, 1.4))


def plots_missing() -> str:
    """Why no picture can be drawn, "" where they can."""
    if importlib.util.find_spec("matplotlib") is not None:
        return ""
    return "no plots: matplotlib is not installed; pip install 'cutlass-tuner[plots]'"


@dataclass(frozen=True)
class Curve:
    """Mean regret (a fraction) at each x, and the 10 and 90 % quantiles over the seeds. `band`: draw them."""

    name: str
    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    band: bool = False


def curve(name: str, x: FloatArray, runs: FloatArray, *, band: bool = False) -> Curve:
    """Of several runs' regrets at the same x: runs x len(x)."""
    low, high = np.quantile(runs, [0.1, 0.9], axis=0)
    return Curve(name, x, runs.mean(axis=0), low, high, band)


def draw_curves(path: Path, curves: Sequence[Curve], xlabel: str, title: str) -> None:
    """A PNG of all curves, named at their right ends."""
    figure, axes = _canvas()
    for one in curves:
        colour, dashes = _look(one.name)
        wide = 2.4 if one.band else 1.6
        axes.plot(one.x, _percent(one.mean), color=colour, linestyle=dashes, linewidth=wide, label=one.name)
        if one.band:
            axes.fill_between(
                one.x, _percent(one.low), _percent(one.high), color=colour, alpha=0.13, linewidth=0
            )
    axes.set_yscale("log")
    least = min(float(_percent(one.mean).min()) for one in curves)
    bottom = max(LEAST, least / 1.5)
    axes.set_ylim(bottom, TOP)
    axes.set_xlim(0, max(float(one.x[-1]) for one in curves))
    _percent_ticks(axes, bottom)
    axes.set_xlabel(xlabel)
    axes.set_ylabel("regret: slower than the best recorded, %")
    axes.set_title(title, loc="left", pad=12, fontsize=13, weight="bold")
    _name_ends(axes, curves, bottom)
    _save(figure, path)


def draw_calibration(path: Path, points: Sequence[tuple[float, float, str]], title: str) -> None:
    """A PNG of (expected, achieved, kind) speed-ups over the reference; on the line is as expected."""
    figure, axes = _canvas((6.6, 6.0))
    kinds = list(dict.fromkeys(kind for _, _, kind in points))
    palette = (BLUE, RED, GREEN, ORANGE, PINK, "#56B4E9", GREY)
    for number, kind in enumerate(kinds):
        mine = np.array([(expected, achieved) for expected, achieved, its in points if its == kind])
        marker = "osD^vP*"[number % 7]
        axes.scatter(
            mine[:, 0], mine[:, 1], s=52, marker=marker, color=palette[number % 7], alpha=0.85, label=kind,
            edgecolors="white", linewidths=0.6,
        )  # fmt: skip
    every = np.array([pair[:2] for pair in points])
    span = (0.97 * every.min(), 1.03 * every.max())
    axes.plot(span, span, color="#444444", linewidth=1.0, zorder=0)
    near_end = span[1] - 0.02 * (span[1] - span[0])
    axes.annotate("as expected", (near_end, near_end), xytext=(3, -5), textcoords="offset points", ha="right",
                  va="top", rotation=45, rotation_mode="anchor", color="#444444", fontsize=9.5)  # fmt: skip
    axes.axhline(1.0, color="#BBBBBB", linewidth=1.0, linestyle=DASHED, zorder=0)
    axes.axvline(1.0, color="#BBBBBB", linewidth=1.0, linestyle=DASHED, zorder=0)
    axes.set_xlim(span)
    axes.set_ylim(span)
    axes.set_aspect("equal")
    axes.set_xlabel("expected, torch's time / ours")
    axes.set_ylabel("achieved, torch's time / ours")
    axes.set_title(title, loc="left", pad=12, fontsize=13, weight="bold")
    axes.legend(frameon=False, title="attacks", loc="upper left", fontsize=9.5)
    _save(figure, path)


def _canvas(size: tuple[float, float] = SIZE_INCHES) -> tuple[Figure, Axes]:
    """A figure of its own, outside pyplot: no display, no state that another figure could leave."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC):
        figure = Figure(figsize=size, dpi=DPI)
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
    axes.grid(True, which="major", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context(RC):
        figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Software": None})


def _percent(regret: FloatArray) -> FloatArray:
    percent: FloatArray = np.maximum(100.0 * regret, LEAST)
    return percent


def _look(name: str) -> tuple[str, Any]:
    """Colour and dashes of a curve."""
    start, _, sampler = name.rpartition("+")
    colour = STARTED.get(start, COLOURS.get(sampler, GREY))
    return colour, SOLID if start.startswith("llm") else DASHED if start else DOTTED


def _percent_ticks(axes: Axes, bottom: float) -> None:
    from matplotlib.ticker import FixedLocator, NullFormatter

    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if t >= bottom]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_ticklabels([f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_formatter(NullFormatter())


def _name_ends(axes: Axes, curves: Sequence[Curve], bottom: float) -> None:
    """Each curve's name beside its end, moved apart where ends are too near to be read."""
    room = (np.log(TOP) - np.log(bottom)) / 19.0
    order = sorted(curves, key=lambda one: -float(one.mean[-1]))
    wanted = [float(np.log(_percent(one.mean)[-1])) for one in order]
    right = max(float(one.x[-1]) for one in curves)
    for one, wish, place in zip(order, wanted, apart(wanted, room), strict=True):
        colour, _ = _look(one.name)
        axes.annotate(
            f"{one.name}  {100 * one.mean[-1]:.1f}", xy=(float(one.x[-1]), np.exp(wish)),
            xytext=(right * 1.03, np.exp(place)), color=colour, va="center", fontsize=9.5,
            annotation_clip=False, weight="bold" if one.band else "normal",
            arrowprops={
                "arrowstyle": "-", "color": colour, "linewidth": 0.6, "alpha": 0.6, "relpos": (0, 0.5),
                "shrinkA": 2, "shrinkB": 0,
            },
        )  # fmt: skip


def apart(wanted: Sequence[float], room: float) -> list[float]:
    """The places nearest to `wanted` (falling; least squares) that are at least `room` apart.

    Moved up by `room` a place, they need only not rise: isotonic regression, by pooling neighbours that do.
    """
    pools: list[tuple[float, int]] = []
    for number, wish in enumerate(wanted):
        mean, size = wish + number * room, 1
        while pools and pools[-1][0] < mean:
            before, count = pools.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        pools.append((mean, size))
    level = [mean for mean, size in pools for _ in range(size)]
    return [mean - number * room for number, mean in enumerate(level)]


# --- tables


class Figures(Protocol):
    """What a line of the table of arms shows. Regrets are fractions, with mean and standard deviation by
    builds; `within`, `compile_s` and `device_s` are by target, None for never."""

    @property
    def arm(self) -> str: ...
    @property
    def seeds(self) -> int: ...
    @property
    def regret(self) -> Mapping[int, tuple[float, float]]: ...
    @property
    def within(self) -> Mapping[float, float | None]: ...
    @property
    def compile_s(self) -> Mapping[float, float | None]: ...
    @property
    def device_s(self) -> Mapping[float, float | None]: ...
    @property
    def misses(self) -> float: ...


def arms_table(lines: Sequence[Figures], cost_target: float, style: Style = "simple") -> str:
    """An arm a line, as they come: regrets in per cent after so many builds, builds to within so much,
    misses, and the seconds until `cost_target` is reached. ">96" is later than the last build."""
    marks, targets = list(lines[0].regret), list(lines[0].within)
    heads = ["arm", *(f"regret % at {mark}" for mark in marks), *(f"to {t:.0%}" for t in targets)]
    heads += ["misses", f"compile s to {cost_target:.0%}", f"device s to {cost_target:.0%}"]
    rows = []
    for one in lines:
        cells = [f"{100 * mean:.2f} ± {100 * sd:.2f}" for mean, sd in one.regret.values()]
        cells += [f">{marks[-1]}" if n is None else f"{n:g}" for n in one.within.values()]
        costs = [one.compile_s[cost_target], one.device_s[cost_target]]
        rows.append([one.arm, *cells, f"{one.misses:g}", *(_seconds(cost) for cost in costs)])
    return _aligned(rows, heads, style)


def plain_table(rows: Sequence[Sequence[str]], heads: Sequence[str], style: Style = "simple") -> str:
    """Cells as given, the first column to the left."""
    return _aligned(rows, heads, style, texts=True)


def _aligned(
    rows: Sequence[Sequence[str]], heads: Sequence[str], style: Style, *, texts: bool = False
) -> str:
    if style == "github":
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    align = ["left"] + ["left" if texts else "right"] * (len(heads) - 1)
    return tabulate(rows, heads, tablefmt=style, disable_numparse=True, colalign=align if rows else None)


def _seconds(value: float | None) -> str:
    return ABSENT if value is None else f"{value:,.0f}"
