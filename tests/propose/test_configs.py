"""Configs and launches of a reply: legal and new ones are taken, the others rejected one by one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from cutlass_tuner.records import LaunchConfig
from propose.replies import (
    DEVICE,
    LARGE,
    SPACE,
    config,
    distinct_configs,
    effective,
    idea,
    kernel,
    launch,
    only_rejection,
    reading,
    rejections,
)

PLAIN_STREAMK = {"schedule": "plain", "scheduler": "streamk"}


def test_a_kernel_in_each_layout_of_the_targets() -> None:
    found = reading(idea(shapes=["s3", "s1", "s2"]))
    kernels = [one.kernel for one in found.ideas[0].suggestions]
    assert kernels == [effective(tile_n=256, layout="tt"), effective(tile_n=256)]
    assert found.rejected == ()


def test_a_family_without_layouts_makes_one_kernel() -> None:
    family = SPACE.family()
    # Its rules need the knob; none of them is asked about a kernel here.
    bare = replace(family, kernel={n: k for n, k in family.kernel.items() if n != "layout"}, given={})
    model = replace(SPACE.op.families["tma_ws"], rules={}, resolve=lambda columns, device: columns)
    space = replace(SPACE, op=replace(SPACE.op, families={"tma_ws": model}), families={"tma_ws": bare})
    found = reading(idea(shapes=["s1", "s3"]), space=space)
    assert [one.kernel.knobs for one in found.ideas[0].suggestions] == [kernel(tile_n=256)]


@pytest.mark.parametrize(
    "wrong, what, said",
    [
        (config(tile_n=100), "config 2: tile_n=100", "tile_n is 100; use one of 8, 16, 32"),
        (config(tile_n="256"), "config 2: tile_n='256'", "tile_n is '256'; use"),
        (config(tile_n=256.0), "config 2: tile_n=256.0", "tile_n is 256.0; use"),
        (config(swap_ab=0), "config 2: swap_ab=0", "swap_ab is 0; use one of false, true"),
        (config(cluster_m=True), "config 2: cluster_m=true", "cluster_m is true; use one of 1, 2"),
        (config(stages=None), "config 2: stages=null", "stages is null; use one of auto, two_ctas"),
        (config(stages=9), "config 2: stages=9", "7, 8, 10, 12, 16"),
        (config(stages=[4]), "config 2: stages=an array", "stages is an array;"),
        (config(tile_m=65, tile_k=1), "config 2: tile_m=65 tile_k=1", "tile_k is 1; use"),
        (config(layout="tn"), "config 2: default", "unknown knob 'layout'; there are tile_m,"),
        ({"kernel": {"tile_m": 64}, "launches": []}, "config 2: tile_m=64", "no knob tile_n, no knob tile_k"),
        ({"kernel": kernel()}, "config 2", "no field launches"),
        ({"kernel": kernel(), "launches": {}}, "config 2: default", "launches is an object; give an array"),
        ({"kernel": 4, "launches": []}, "config 2: 4", "4 where an object with tile_m"),
        ("fast", "config 2", "'fast' where an object with kernel, launches belongs"),
        (
            config(tile_n=256, stages=3, **PLAIN_STREAMK),
            "config 2: tile_n=256 schedule=plain stages=3 scheduler=streamk",
            "plain_scheduler: the plain schedule is not persistent and takes no streamk scheduler",
        ),
    ],
)
def test_a_wrong_config_is_rejected_alone(wrong: Any, what: str, said: str) -> None:
    found = reading(idea(configs=[config(tile_n=256), wrong, config(tile_n=192)]))
    assert [one.kernel.knobs["tile_n"] for one in found.ideas[0].suggestions] == [256, 192]
    assert (only_rejection(found).idea, only_rejection(found).what) == ("wide-tiles", what)
    assert said in only_rejection(found).reason
    assert "from 2 to 64" not in only_rejection(found).reason


def test_every_broken_rule_is_named() -> None:
    found = reading(idea(configs=[config(tile_m=256, tile_n=256, stages=16, cluster_m=8, cluster_n=8)]))
    assert found.rejected[0].reason.startswith("smem_capacity: needs ")
    assert "; cluster_size: cluster is 8x8, 64 CTAs; " in found.rejected[0].reason
    assert rejections(found)[1] == (
        "wide-tiles",
        "the idea",
        "no config and no narrowed space of it stands",
    )
    assert found.ideas == ()


def test_rules_broken_in_one_layout_only_reject_that_kernel() -> None:
    narrow = config(tile_m=64, tile_n=8, stages=3, schedule="pingpong", cluster_m=1)
    found = reading(idea(shapes=["s1", "s3"], configs=[narrow]))
    assert [one.kernel.knobs["layout"] for one in found.ideas[0].suggestions] == ["tt"]
    assert only_rejection(found).what.endswith("stages=3 (layout tn)")
    assert only_rejection(found).reason.startswith("narrow_tile_stages: ")


def test_rules_broken_in_both_layouts_are_said_once() -> None:
    found = reading(idea(shapes=["s1", "s3"], configs=[config(), config(**PLAIN_STREAMK)]))
    assert only_rejection(found).what == "config 2: schedule=plain scheduler=streamk"


def test_one_target_is_enough_and_the_first_gives_the_reasons() -> None:
    """k 4100 is no multiple of 8: TMA cannot move it, whatever the kernel."""
    odd = LARGE.model_copy(update={"dims": {**LARGE.dims, "k": 4100}})
    odder = LARGE.model_copy(update={"dims": {**LARGE.dims, "k": 4102}})
    assert not SPACE.check(effective(), None, odd, DEVICE).legal
    both = reading(idea(shapes=["s1", "s2"]), problems=(odd, LARGE))
    assert both.rejected == ()
    assert both.ideas[0].targets == (odd.key, LARGE.key)
    neither = reading(idea(shapes=["s1", "s2"]), problems=(odd, odder))
    assert "alignment: n is 4096 and k is 4100;" in neither.rejected[0].reason
    assert "4102" not in neither.rejected[0].reason


def test_the_same_kernel_twice_in_a_reply() -> None:
    """The default's automatic stages are 6."""
    found = reading(
        idea(id="a", configs=[config(), config(stages=6)]),
        idea(id="b", configs=[config(), config(tile_n=192)]),
    )
    assert [len(one.suggestions) for one in found.ideas] == [1, 1]
    assert rejections(found) == [
        ("a", "config 2: stages=6", "this kernel is not new: config 1 of idea a has it, in this reply"),
        ("b", "config 1: default", "this kernel is not new: config 1 of idea a has it, in this reply"),
    ]


def test_a_kernel_of_a_rejected_idea_is_free_for_another() -> None:
    found = reading(idea(id="a", expected=0), idea(id="b"))
    assert [one.id for one in found.ideas] == ["b"]
    assert len(found.rejected) == 1


def test_a_kernel_that_is_known_already() -> None:
    known = {effective(tile_n=256).key: "built: 1.03 on s4"}
    found = reading(idea(shapes=["s1", "s3"]), known=known)
    assert [one.kernel.knobs["layout"] for one in found.ideas[0].suggestions] == ["tt"]
    assert rejections(found) == [
        (
            "wide-tiles",
            "config 1: tile_n=256 (layout tn)",
            "this kernel is not new: built: 1.03 on s4",
        )
    ]
    assert known == {effective(tile_n=256).key: "built: 1.03 on s4"}


def test_a_layout_the_search_is_not_about() -> None:
    held = SPACE.restrict({"layout": "tn"})
    found = reading(idea(shapes=["s1", "s3"]), space=held)
    assert [one.kernel.knobs["layout"] for one in found.ideas[0].suggestions] == ["tn"]
    assert only_rejection(found).reason == "its shapes have layout tt; this search is held to tn"


def test_a_knob_held_by_the_user_is_held() -> None:
    found = reading(idea(configs=[config(tile_n=256), config()]), space=SPACE.restrict({"tile_n": 128}))
    assert [one.kernel for one in found.ideas[0].suggestions] == [effective()]
    assert "tile_n is 256; use one of 128" in only_rejection(found).reason


# --- launches ---------------------------------------------------------------------------------------


def test_each_launch_is_judged_alone() -> None:
    launches = [
        launch(splits=4),
        launch(splits=4, decomposition="stream_k"),
        launch(splits=5),
        launch(splits=4),
        {"splits": 4},
        "none",
        launch(),
    ]
    found = reading(idea(configs=[config(*launches, scheduler="streamk")]))
    taken = found.ideas[0].suggestions[0].launches
    assert taken == (LaunchConfig(knobs=launch(splits=4)), LaunchConfig(knobs=launch()))
    whats = [one.what.removeprefix("config 1, ") for one in found.rejected]
    assert whats == [
        "launch 2: splits=4 decomposition=stream_k",
        "launch 3: splits=5",
        "launch 4: splits=4",
        "launch 5: splits=4",
        "launch 6: 'none'",
    ]
    reasons = [one.reason for one in found.rejected]
    assert reasons[0].startswith("splits_decomposition: 4 splits need decomposition heuristic or split_k")
    assert reasons[1] == "splits is 5; use one of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32"
    assert reasons[2] == "the same as launch 1"
    assert reasons[3].startswith("no knob swizzle, no knob raster")
    assert reasons[4].startswith("'none' where an object with swizzle")


def test_both_layouts_get_the_launches() -> None:
    asked = launch(splits=4)
    wrong = launch(splits=4, decomposition="data_parallel")
    found = reading(idea(shapes=["s1", "s3"], configs=[config(asked, wrong, scheduler="streamk")]))
    assert [len(one.launches) for one in found.ideas[0].suggestions] == [1, 1]
    assert only_rejection(found).what == "config 1, launch 2: splits=4 decomposition=data_parallel"


def test_a_full_reply_is_read_in_two_seconds() -> None:
    launches = [launch(splits=n, decomposition="stream_k") for n in (2, 3, 4, 6, 8, 12, 16, 24)]
    configs = [{**one, "launches": launches} for one in distinct_configs(160)]
    for one in configs:
        one["kernel"] |= {"schedule": "cooperative", "scheduler": "streamk"}
    given = idea(shapes=["s1", "s2", "s3"], configs=configs)
    started = time.process_time()
    found = reading(given)
    assert time.process_time() - started < 2
    assert len(found.ideas[0].suggestions) > 200
    assert len(found.rejected) > 1000
