"""Folding: knobs that do nothing beside others, and launches that are the same walk."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cutlass_tuner.ops.fmha.fold import INERT, NEEDS
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Scalar
from cutlass_tuner.space import Space

from .conftest import problem

Make = Callable[..., KernelConfig]
LONG = problem(4096, causal=1)
EXAMPLE = {"template": "example88", "stages": 4}
TMA = {**EXAMPLE, "schedule": "tma", "tile_q": 64, "groups": 1}


@pytest.fixture
def fold(space: Space, device: DeviceFacts) -> Callable[..., dict[str, Scalar]]:
    def folded(kernel: KernelConfig, on: Problem, **knobs: Scalar) -> dict[str, Scalar]:
        return space.effective_launch(kernel, space.launch(**knobs), on, device).knobs

    return folded


Fold = Callable[..., dict[str, Scalar]]


def test_what_a_template_lacks_does_not_make_another_kernel(kernel: Make) -> None:
    flash = kernel()
    for name, value in (("schedule", "tma"), ("locked", True), ("cluster_m", 2)):
        assert kernel(**{name: value}) == flash
    assert kernel(blocks_per_sm=2) != flash
    example = kernel(**EXAMPLE)
    for name, value in (("overlap", False), ("pingpong", False), ("lazy_rescale", False), ("exp_fma", 3)):
        assert kernel(**EXAMPLE, **{name: value}) == example
        assert kernel(**{name: value}) != flash
    for name, value in (("blocks_per_sm", 2), ("cluster_m", 2)):
        assert kernel(**EXAMPLE, **{name: value}) == example
        assert kernel(**TMA, **{name: value}) != kernel(**TMA)
    for name in ("locked", "persistent", "separate_q"):
        assert kernel(**TMA, **{name: True}) == kernel(**TMA)
        assert kernel(**EXAMPLE, **{name: True}) != example


def test_inert_knobs_have_one_value_and_folding_is_final(space: Space, device: DeviceFacts) -> None:
    rng = random.Random(5)
    for _ in range(300):
        raw = space.kernel(**{knob.name: rng.choice(knob.values) for knob in space.kernel_knobs()})
        effective = space.effective(raw, device)
        assert space.effective(effective, device) == effective
        for name, (other, value) in NEEDS.items():
            if effective.knobs[other] != value:
                assert effective.knobs[name] == INERT[name]


def test_a_warp_group_alone_takes_no_turns(kernel: Make) -> None:
    one = {"tile_q": 64, "groups": 1}
    assert kernel(**one, pingpong=True) == kernel(**one, pingpong=False)
    assert kernel(pingpong=True) != kernel(pingpong=False)


def test_q_stages_are_those_there_are(kernel: Make) -> None:
    def q_stages(**knobs: Scalar) -> list[Scalar]:
        return [kernel(**knobs, q_stages=asked).knobs["q_stages"] for asked in (1, 2, 3)]

    assert q_stages() == [1, 2, 2]
    assert q_stages(**EXAMPLE) == [2, 2, 3]
    assert q_stages(**EXAMPLE, tile_q=192, groups=3) == [3, 3, 3]
    assert q_stages(**TMA) == [1, 1, 1]


def test_a_causal_launch_keeps_what_was_asked(kernel: Make, fold: Fold) -> None:
    causal = kernel(mask="causal")
    for order in ("heavy", "rows"):
        for grid in ("tiles", "sms"):
            asked = {"grid": grid, "order": order, "section": 2}
            assert fold(causal, LONG, **asked) == asked


def test_without_a_mask_every_order_is_the_same(kernel: Make, fold: Fold) -> None:
    assert fold(kernel(), problem(4096), order="heavy")["order"] == "rows"
    assert fold(kernel(), problem(4096), order="heavy", section=8)["section"] == 8


def test_one_tile_a_head_has_neither_order_nor_section(kernel: Make, fold: Fold) -> None:
    many = problem(128, 512, batch=64, causal=1)
    assert fold(kernel(mask="causal"), many, grid="sms", section=8) == {
        "grid": "sms",
        "order": "rows",
        "section": 1,
    }
    small = kernel(mask="causal", tile_q=64, groups=1)
    assert fold(small, many, section=8) == {"grid": "sms", "order": "heavy", "section": 8}


def test_a_section_is_no_longer_than_all_heads(kernel: Make, fold: Fold) -> None:
    assert fold(kernel(), problem(4096, heads=6, batch=2), section=32)["section"] == 12
    assert fold(kernel(), problem(4096, heads=6, batch=2), section=8)["section"] == 8


def test_no_more_tiles_than_sms_need_no_persistence(kernel: Make, fold: Fold) -> None:
    # 132 SMs: 33 heads of 4 tiles of 128 rows, then of 5.
    assert fold(kernel(), problem(512, heads=33), grid="sms")["grid"] == "tiles"
    assert fold(kernel(), problem(513, heads=33), grid="sms")["grid"] == "sms"


def test_example88_has_no_launch_knobs(space: Space, kernel: Make, fold: Fold, device: DeviceFacts) -> None:
    asked = {"grid": "sms", "order": "heavy", "section": 8}
    fixed = {"order": "rows", "section": 1}
    assert fold(kernel(**EXAMPLE, mask="causal"), LONG, **asked) == {"grid": "tiles", **fixed}
    persistent = kernel(**EXAMPLE, mask="causal", persistent=True)
    assert fold(persistent, LONG, **{**asked, "grid": "tiles"}) == {"grid": "sms", **fixed}
    assert len(space.launches(persistent, LONG, device)) == 1


def test_launches_are_few_and_start_with_the_default(space: Space, kernel: Make, device: DeviceFacts) -> None:
    launches = space.launches(kernel(mask="causal"), LONG, device)
    assert launches[0].knobs == {"grid": "sms", "order": "heavy", "section": 4}
    assert len(launches) == 2 * 2 * 5  # 16 heads: a section of 32 is one of 16
    assert len(space.launches(kernel(), problem(4096), device)) == 2 * 5
