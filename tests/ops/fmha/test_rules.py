"""Each rule: a config that breaks it and nothing else illegal, and its legal neighbour."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cutlass_tuner.ops.fmha.rules import RULES
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Scalar
from cutlass_tuner.space import Legality, Space

from .conftest import problem

Knobs = dict[str, Scalar]
FLASH: Knobs = {}
COOPERATIVE: Knobs = {"template": "example88", "stages": 4}
TMA: Knobs = {"template": "example88", "schedule": "tma", "tile_q": 64, "groups": 1, "stages": 4}


@dataclass(frozen=True)
class Case:
    """`breaks` and `legal` change `base`; the problem is the same for both unless said."""

    rule: str
    base: Knobs
    breaks: Knobs
    legal: Knobs
    on: Problem | None = None
    legal_on: Problem | None = None
    also_says: str = ""


CASES = [
    Case("flash_tile_q", FLASH, {"tile_q": 192}, {"tile_q": 192, "groups": 3}, also_says="128"),
    Case("flash_tile_q", FLASH, {"groups": 1}, {"groups": 1, "tile_q": 64}),
    Case("cooperative_tile_q", COOPERATIVE, {"tile_q": 192}, {"tile_q": 256}, also_says="128"),
    Case("cooperative_groups", COOPERATIVE, {"groups": 1}, {}),
    Case("cooperative_groups", COOPERATIVE, {"groups": 4, "tile_q": 256}, {"tile_q": 256}),
    Case("tma_tile_q", TMA, {"tile_q": 128}, {}),
    Case("tma_tile_q", TMA, {"groups": 2}, {}),
    Case("cooperative_stages", COOPERATIVE, {"stages": 2}, {"stages": 3}),
    Case("tma_stages", TMA, {"stages": 2}, {"stages": 4}),
    Case("tma_stages", TMA, {"stages": 5}, {"stages": 6}),
    Case(
        "smem_capacity",
        FLASH,
        {"head_dim": 256, "tile_kv": 96},
        {"head_dim": 256, "tile_kv": 80},
        also_says="232448",
    ),
    Case("smem_capacity", COOPERATIVE, {"tile_kv": 208}, {"tile_kv": 192}, also_says="bytes"),
    Case("blocks_do_not_fit", TMA, {"tile_kv": 128, "blocks_per_sm": 2}, {"tile_kv": 128}),
    Case("blocks_do_not_fit", TMA, {"tile_kv": 128, "blocks_per_sm": 2}, {"tile_kv": 64, "blocks_per_sm": 2}),
    Case(
        "blocks_do_not_fit",
        FLASH,
        {"head_dim": 64, "tile_kv": 128, "blocks_per_sm": 2, "stages": 4},
        {"head_dim": 64, "tile_kv": 128, "blocks_per_sm": 2},
    ),
    Case("head_dim", FLASH, {"head_dim": 64}, {}, on=problem(512), also_says="128"),
    Case("head_dim", FLASH, {}, {"head_dim": 64}, on=problem(512, dim=64), also_says="64"),
    Case("mask", FLASH, {}, {"mask": "causal"}, on=problem(512, causal=1), also_says="causal"),
    Case("mask", FLASH, {}, {"mask": "causal"}, on=problem(512, 600, causal=2)),
    Case("mask", FLASH, {"mask": "causal"}, {}, on=problem(512)),
    Case(
        "tma_grouped_heads", TMA, {}, {}, on=problem(512, heads=8, heads_kv=2), legal_on=problem(512, heads=8)
    ),
    Case(
        "tma_grouped_heads",
        TMA,
        {},
        {"schedule": "cooperative", "tile_q": 128, "groups": 2},
        on=problem(512, heads_kv=1),
    ),
    Case("example88_extents", COOPERATIVE, {}, FLASH | {"template": "flash", "stages": 2}, on=problem(2**20)),
    Case("example88_extents", COOPERATIVE, {}, {}, on=problem(64, 2**20), legal_on=problem(64, 2**19)),
    Case("example88_extents", COOPERATIVE, {}, {"persistent": True}, on=problem(64, batch=2**16, heads=1)),
]
UNWISE = [
    Case(
        "register_spill", FLASH, {"tile_kv": 208, "stages": 1}, {"tile_kv": 176, "stages": 1}, also_says="208"
    ),
    Case(
        "register_spill",
        FLASH,
        {"tile_kv": 208, "stages": 1},
        {"tile_kv": 208, "stages": 1, "overlap": False},
    ),
    Case(
        "register_spill",
        FLASH,
        {"head_dim": 64, "groups": 3, "tile_q": 192, "tile_kv": 144},
        {"head_dim": 64, "groups": 3, "tile_q": 192, "tile_kv": 128},
    ),
    Case(
        "register_spill",
        FLASH,
        {"head_dim": 64, "groups": 4, "tile_q": 256, "tile_kv": 80},
        {"head_dim": 64, "groups": 4, "tile_q": 256, "tile_kv": 64},
        also_says="80",
    ),
    Case(
        "register_spill",
        FLASH,
        {"head_dim": 64, "blocks_per_sm": 2, "tile_kv": 64},
        {"head_dim": 64, "blocks_per_sm": 2, "tile_kv": 48},
        also_says="72",
    ),
    Case("register_spill", COOPERATIVE, {"tile_q": 256, "tile_kv": 96}, {"tile_kv": 96}),
    Case(
        "register_spill",
        TMA,
        {"head_dim": 32, "tile_kv": 256, "blocks_per_sm": 3},
        {"head_dim": 32, "tile_kv": 240, "blocks_per_sm": 3},
    ),
    Case("idle_q_stages", COOPERATIVE, {"q_stages": 3}, {"q_stages": 3, "persistent": True}),
    Case("tile_q_exceeds_queries", FLASH, {}, {"tile_q": 64, "groups": 1}, on=problem(64, 512)),
    Case("tile_q_exceeds_queries", FLASH, {}, {}, on=problem(64, 512), legal_on=problem(65, 512)),
    Case("tile_kv_exceeds_keys", FLASH, {"stages": 1}, {"tile_kv": 48, "stages": 1}, on=problem(512, 40)),
    Case("idle_stages", FLASH, {"stages": 3}, {}, on=problem(512, 128)),
    Case("idle_stages", COOPERATIVE, {"stages": 5}, {"stages": 4}, on=problem(512, 128)),
    Case("cluster_exceeds_queries", TMA, {"cluster_m": 2}, {}, on=problem(64, 512)),
]


def _judged(space: Space, device: DeviceFacts, changes: Knobs, on: Problem | None) -> Legality:
    kernel = KernelConfig(family="attention", knobs={**space.kernel().knobs, **changes})
    return space.check(kernel, None, on, device)


def _id(case: Case) -> str:
    return f"{case.rule}-{'-'.join(f'{name}={value}' for name, value in case.breaks.items())}"


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_an_illegal_config_is_named_by_its_rule_alone(case: Case, space: Space, device: DeviceFacts) -> None:
    judged = _judged(space, device, case.base | case.breaks, case.on)
    assert [broken.rule for broken in judged.illegal] == [case.rule]
    assert case.also_says in judged.illegal[0].reason
    assert "{" not in judged.illegal[0].reason
    assert _judged(space, device, case.base | case.legal, case.legal_on or case.on).illegal == ()


@pytest.mark.parametrize("case", UNWISE, ids=_id)
def test_an_unwise_config_is_legal_and_named(case: Case, space: Space, device: DeviceFacts) -> None:
    judged = _judged(space, device, case.base | case.breaks, case.on)
    assert judged.illegal == ()
    assert [broken.rule for broken in judged.unwise] == [case.rule]
    assert case.also_says in judged.unwise[0].reason
    assert "{" not in judged.unwise[0].reason
    neighbour = _judged(space, device, case.base | case.legal, case.legal_on or case.on)
    assert neighbour.illegal == ()
    assert case.rule not in {broken.rule for broken in neighbour.unwise}


def test_every_rule_has_a_case_of_its_kind(space: Space) -> None:
    texts = space.family().rules
    assert {case.rule for case in CASES} == {name for name in RULES if texts[name].kind == "illegal"}
    assert {case.rule for case in UNWISE} == {name for name in RULES if texts[name].kind == "unwise"}
    assert list(texts) == list(RULES)


@pytest.mark.parametrize("dim", [32, 64, 128, 256])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_the_default_is_legal_for_every_head_dim_and_mask(
    space: Space, device: DeviceFacts, dim: int, mask: str
) -> None:
    default = space.check(space.kernel(head_dim=dim, mask=mask), space.launch(), None, device)
    assert default == Legality()


def test_a_given_knob_has_a_rule_of_its_name(space: Space) -> None:
    assert list(space.family().given) == ["head_dim", "mask"]
    assert set(space.family().given) <= set(space.family().rules)
    assert space.family().knobs_for(problem(9, causal=2, dim=64)) == {"head_dim": 64, "mask": "causal"}
