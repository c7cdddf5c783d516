"""Tables of arms, and pictures that are really drawn."""

from __future__ import annotations

import importlib.util
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from cutlass_tuner.report import curves

drawn = pytest.mark.skipif(bool(curves.plots_missing()), reason="matplotlib is not installed")


@dataclass
class Line:
    arm: str = "llm+portfolio"
    seeds: int = 10
    regret: dict[int, tuple[float, float]] = field(
        default_factory=lambda: {16: (0.1234, 0.01), 96: (0.01, 0)}
    )
    within: dict[float, float | None] = field(default_factory=lambda: {0.05: 41.5, 0.01: None})
    compile_s: dict[float, float | None] = field(default_factory=lambda: {0.05: 1234.4, 0.01: None})
    device_s: dict[float, float | None] = field(default_factory=lambda: {0.05: 61.0, 0.01: None})
    misses: float = 2.5


def test_the_table_of_arms() -> None:
    heads, _, row = curves.arms_table([Line()], 0.05).splitlines()
    assert heads.split("  ")[0] == "arm"
    for head in ("regret % at 16", "regret % at 96", "to 5%", "to 1%", "compile s to 5%", "device s to 5%"):
        assert head in heads
    assert row.split() == [
        "llm+portfolio", "12.34", "±", "1.00", "1.00", "±", "0.00", "41.5", ">96", "2.5", "1,234", "61",
    ]  # fmt: skip


def test_a_cost_that_is_never_reached_has_no_figure() -> None:
    assert curves.arms_table([Line()], 0.01).splitlines()[2].split()[-2:] == ["-", "-"]


def test_markdown_keeps_bars_inside_their_cell() -> None:
    assert r"a\|b" in curves.plain_table([["a|b", "1"]], ["x", "y"], "github")
    assert "a|b" in curves.plain_table([["a|b", "1"]], ["x", "y"])


def test_names_move_apart_no_more_than_they_must() -> None:
    assert curves.apart([5.0, 3.0, 1.0], 1.0) == [5.0, 3.0, 1.0]
    assert curves.apart([5.0, 5.0, 1.0], 1.0) == [5.5, 4.5, 1.0]
    assert curves.apart([2.0, 2.0, 2.0], 1.0) == [3.0, 2.0, 1.0]
    places = curves.apart([4.0, 3.9, 3.1, 3.0, 0.0], 0.5)
    assert np.diff(places).max() <= -0.5 + 1e-9
    assert places[-1] == 0.0


def test_a_curve_is_the_mean_with_the_middle_four_fifths_of_the_seeds() -> None:
    one = curves.curve("random", np.arange(2.0), np.array([[1.0, 0.0], [1.0, 0.5], [1.0, 1.0]]))
    assert one.mean.tolist() == [1.0, 0.5]
    assert (one.low[1], one.high[1]) == (pytest.approx(0.1), pytest.approx(0.9))


def test_arms_of_one_sampler_share_a_colour_and_differ_in_dashes() -> None:
    looks = [curves._look(name) for name in ("llm+tpe", "tpe")]
    assert looks[0][0] == looks[1][0] and looks[0][1] != looks[1][1]
    names = (
        "llm+portfolio", "llm+tpe", "llm+gp", "llm+random", "llm+heuristics+portfolio",
        "heuristics+portfolio", "nvmmh+portfolio", "portfolio", "tpe", "gp", "random",
    )  # fmt: skip
    assert len({str(curves._look(name)) for name in names}) == len(names)


def size(png: Path) -> tuple[int, int]:
    head = png.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", head[16:24])
    return width, height


@drawn
def test_curves_are_drawn_the_same_each_time(tmp_path: Path) -> None:
    x = np.arange(5.0)
    runs = np.array([[1.0, 0.4, 0.1, 0.02, 0.0], [1.0, 0.5, 0.2, 0.03, 0.0]])
    lines = [curves.curve("portfolio", x, runs, band=True), curves.curve("llm+tpe", x, runs / 2)]
    for name in ("a", "b"):
        curves.draw_curves(tmp_path / f"{name}.png", lines, "builds", "a title")
    assert min(size(tmp_path / "a.png")) >= 900
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@drawn
def test_calibration_is_drawn(tmp_path: Path) -> None:
    curves.draw_calibration(tmp_path / "c.png", [(1.1, 1.0, "l2"), (1.2, 1.3, "wave")], "a title")
    assert min(size(tmp_path / "c.png")) >= 900


def test_without_matplotlib_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "cutlass-tuner[plots]" in curves.plots_missing()
