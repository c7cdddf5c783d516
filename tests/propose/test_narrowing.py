"""The part of the space that an idea opens: read whole or not at all, couplings one by one."""

from __future__ import annotations

from typing import Any

import pytest

from propose.replies import (
    condition,
    idea,
    only_rejection,
    reading,
)

WRONG_CONDITIONS: list[tuple[Any, str]] = [
    (condition("layout", "tn"), "knob is 'layout'; use one of tile_m,"),
    (condition("swizzle", 1), "knob is 'swizzle'; use one of tile_m,"),
    (condition("tile_n", 100), "tile_n is 100; use one of 8, 16"),
    (condition("tile_n", 8, 128.0), "tile_n is 128.0; use one of"),
    (condition("stages", 9), "stages is 9; use one of auto"),
    (condition("tile_n"), "values of tile_n are empty"),
    (condition("tile_n", 128, 128), "values of tile_n list 128 twice"),
    ({"knob": "tile_n"}, "no field values"),
    ({"knob": "tile_n", "values": 8}, "values of tile_n is 8; give an array"),
    ({"knob": ["tile_n"], "values": [8]}, "knob is an array;"),
    ("tile_n", "'tile_n' where an object with knob, values belongs"),
]


@pytest.mark.parametrize("wrong, said", WRONG_CONDITIONS)
def test_a_wrong_allow_takes_the_narrowed_space_with_it(wrong: Any, said: str) -> None:
    pair = {"when": condition("stages", 4), "then": condition("tile_m", 64)}
    found = reading(idea(allow=[condition("tile_m", 64), wrong], couplings=[pair]))
    assert not found.ideas[0].searches
    assert len(found.ideas[0].suggestions) == 1
    assert (only_rejection(found).idea, only_rejection(found).what) == ("wide-tiles", "allow")
    assert said in only_rejection(found).reason
    assert only_rejection(found).reason.endswith("; its couplings are not taken without it")
    alone = reading(idea(configs=[], allow=[wrong]))
    assert alone.ideas == ()
    assert [one.what for one in alone.rejected] == ["allow", "the idea"]
    assert "couplings" not in alone.rejected[0].reason


def test_a_knob_is_narrowed_once() -> None:
    found = reading(idea(allow=[condition("tile_m", 64), condition("tile_m", 128)]))
    assert not found.ideas[0].searches
    assert "tile_m stands there twice" in only_rejection(found).reason


@pytest.mark.parametrize("side", ["when", "then"])
@pytest.mark.parametrize("wrong, said", WRONG_CONDITIONS)
def test_a_wrong_coupling_is_rejected_alone(side: str, wrong: Any, said: str) -> None:
    good = {"when": condition("stages", 4), "then": condition("tile_m", 64)}
    found = reading(idea(configs=[], couplings=[good, {**good, side: wrong}]))
    assert len(found.ideas[0].couplings) == 1
    assert only_rejection(found).what == "coupling 2"
    assert said in only_rejection(found).reason


def test_a_coupling_has_two_sides() -> None:
    found = reading(idea(couplings=[{"when": condition("stages", 4)}]))
    assert found.ideas[0].couplings == ()
    assert only_rejection(found).reason.startswith("no field then")
