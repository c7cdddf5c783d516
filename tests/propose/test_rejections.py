"""How much of a reply is read, and that what is said about it has bounds."""

from __future__ import annotations

from propose.replies import (
    condition,
    config,
    distinct_configs,
    idea,
    launch,
    reading,
    rejections,
)


def test_forty_ideas_a_reply() -> None:
    many = [idea(id=f"i{n}", configs=[], allow=[condition("tile_n", 256)]) for n in range(43)]
    found = reading(*many)
    assert len(found.ideas) == 40
    assert rejections(found) == [("", "ideas", "3 too many, not read: 40 a reply at most")]


def test_a_hundred_and_sixty_configs_a_reply() -> None:
    configs = distinct_configs(170)
    halves = [idea(id="a", configs=configs[:100]), idea(id="b", configs=configs[100:])]
    found = reading(*halves, idea(id="c"))
    read_of_them = sum(len(one.suggestions) for one in found.ideas)
    refused = [one for one in found.rejected if one.what.startswith("config ")]
    assert read_of_them + len(refused) == 160
    assert read_of_them > 100
    assert ("", "configs", "11 too many, not read: 160 a reply at most") in rejections(found)
    assert ("c", "the idea", "no config and no narrowed space of it stands") in rejections(found)


def test_eight_launches_a_config_and_twenty_four_couplings_an_idea() -> None:
    launches = [launch(splits=n) for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)]
    pair = {"when": condition("stages", 4), "then": condition("tile_m", 64)}
    crowded = [
        idea(id=f"i{n}", configs=[config(*launches, tile_n=n, scheduler="streamk")], couplings=[pair] * 25)
        for n in (128, 256)
    ]
    found = reading(*crowded)
    assert [len(one.suggestions[0].launches) for one in found.ideas] == [8, 8]
    assert [len(one.couplings) for one in found.ideas] == [24, 24]
    assert rejections(found) == [
        ("", "launches", "4 too many, not read: 8 a config at most"),
        ("", "couplings", "2 too many, not read: 24 an idea at most"),
    ]


def test_rejections_are_bounded_where_a_reply_is_not() -> None:
    many = 50_000
    found = reading(idea(configs=[7] * many, couplings=[7] * many), drop=["x"] * many)
    assert [one.what for one in found.rejected[-3:]] == ["configs", "couplings", "drop"]
    assert len(found.rejected) == 160 + 24 + 1 + 400 + 3
    wide = {f"k{n}" * 20: n for n in range(1500)}
    configs = [{"kernel": wide, "launches": []}, wide, config(wide)]
    found = reading(idea(configs=configs, allow=[wide]), idea(id="b", **{"x" * 9000: 1}))
    assert len(found.rejected) == 5
    assert all(100 < len(one.reason) + len(one.what) < 1000 for one in found.rejected)
