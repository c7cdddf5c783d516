"""Each rule: a config that breaks it and nothing else illegal, and its legal neighbour."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from cutlass_tuner.ops.hgemm.rules import RULES
from cutlass_tuner.records import DeviceFacts, KernelConfig, LaunchConfig, Problem, Scalar
from cutlass_tuner.space import Legality, Space

from .conftest import problem

BASE: dict[str, Scalar] = {
    "layout": "tn",
    "tile_m": 128,
    "tile_n": 128,
    "tile_k": 64,
    "cluster_m": 1,
    "cluster_n": 1,
    "schedule": "cooperative",
    "stages": 4,
    "epilogue": "tma",
    "scheduler": "persistent",
    "swap_ab": False,
}
Knobs = dict[str, Scalar]


@dataclass(frozen=True)
class Case:
    """`breaks` and `legal` change BASE; the launch and the problem are the same for both unless said."""

    rule: str
    breaks: Knobs
    legal: Knobs
    launch: Knobs | None = None
    legal_launch: Knobs | None = None
    on: Problem | None = None
    legal_on: Problem | None = None
    also_says: str = field(default="")


N8: Knobs = {"tile_n": 8, "stages": 3}
CASES = [
    Case("tile_m_step", {"schedule": "pingpong", "tile_m": 96}, {"schedule": "pingpong", "tile_m": 64}),
    Case("tile_n_step", {"tile_n": 24}, {"tile_n": 32}, also_says="24"),
    Case("tile_n_step", {"tile_n": 88}, {"tile_n": 88, "layout": "tt"}),
    Case("tile_n_step", {"tile_n": 24, "layout": "tt", "swap_ab": True}, {"tile_n": 24, "layout": "tt"}),
    Case("tile_n_step", {"tile_n": 12, "layout": "tt"}, {"tile_n": 8, "layout": "tt"}),
    Case("tile_n_step", {"tile_n": 272, "tile_k": 32}, {"tile_n": 256, "tile_k": 32}),
    Case("tile_k_step", {"tile_k": 40}, {"tile_k": 48}),
    Case("cooperative_tile_m", {"tile_m": 64}, {"tile_m": 64, "schedule": "pingpong"}),
    Case("cooperative_tile_m", {"tile_m": 192}, {"tile_m": 256}, also_says="128"),
    Case("narrow_tile_stages", N8, {**N8, "stages": 4}),
    Case("narrow_tile_stages", {**N8, "tile_k": 32}, {**N8, "tile_k": 128}),
    Case("narrow_tile_stages", {**N8, "swap_ab": True}, {**N8, "swap_ab": True, "tile_n": 16}),
    Case("narrow_tile_stages", {**N8, "layout": "tt", "swap_ab": True}, {**N8, "layout": "tt"}),
    Case("two_stages", {"stages": 1}, {"stages": 2}),
    Case("two_stages", {"tile_m": 256, "tile_n": 256, "tile_k": 128, "stages": "auto"}, {"stages": "auto"}),
    Case("smem_capacity", {"stages": 7}, {"stages": 6}, also_says="232448"),
    Case("cluster_extent", {"cluster_m": 3}, {"cluster_m": 2}),
    Case("cluster_extent", {"cluster_n": 0}, {"cluster_n": 1}),
    Case(
        "multicast_slice",
        {"tile_n": 8, "tile_k": 32, "cluster_m": 8},
        {"tile_n": 8, "tile_k": 32, "cluster_m": 4},
    ),
    Case(
        "multicast_slice",
        {"tile_n": 8, "tile_k": 32, "cluster_m": 8, "epilogue": "nosmem"},
        {"tile_n": 8, "tile_k": 32, "cluster_n": 8},
    ),
    Case("cluster_size", {"cluster_m": 8, "cluster_n": 2}, {"cluster_m": 4, "cluster_n": 2}, also_says="16"),
    Case("plain_scheduler", {"schedule": "plain", "scheduler": "streamk"}, {"schedule": "plain"}),
    Case("pingpong_scheduler", {"schedule": "pingpong", "scheduler": "streamk"}, {"scheduler": "streamk"}),
    Case("layout", {"layout": "tt"}, {}, on=problem(128, 128, 128)),
    Case("layout", {}, {}, on=problem(128, 128, 128, layout="tt"), legal_on=problem(128, 128, 128)),
    Case("alignment", {}, {}, on=problem(128, 128, 132), legal_on=problem(128, 128, 136)),
    Case("alignment", {}, {"epilogue": "nosmem"}, on=problem(128, 132, 128)),
    Case(
        "alignment",
        {"layout": "tt", "epilogue": "nosmem"},
        {"layout": "tt", "epilogue": "nosmem"},
        on=problem(128, 132, 128, layout="tt"),
        legal_on=problem(128, 136, 128, layout="tt"),
    ),
    *(
        Case(
            "splits_decomposition",
            {"scheduler": "streamk"},
            {"scheduler": "streamk"},
            launch={"splits": 4, "decomposition": wrong},
            legal_launch={"splits": 4, "decomposition": right},
        )
        for wrong, right in (("stream_k", "split_k"), ("data_parallel", "heuristic"))
    ),
]
UNWISE = [
    Case(
        "register_spill",
        {"tile_m": 256, "tile_n": 224, "stages": 3},
        {"tile_m": 256, "tile_n": 208, "stages": 3},
    ),
    Case(
        "register_spill",
        {"schedule": "pingpong", "tile_n": 256, "stages": 3},
        {"tile_n": 256, "stages": 3},
        also_says="256 accumulator",
    ),
    Case("tile_exceeds_problem", {"tile_m": 256}, {}, on=problem(128, 128, 512)),
    # The cooperative schedule has no smaller tile_m than 128, the others do.
    Case("tile_exceeds_problem", {"schedule": "pingpong"}, {}, on=problem(16, 4096, 4096)),
    Case(
        "tile_exceeds_problem",
        {"swap_ab": True, "tile_n": 32},
        {"swap_ab": True, "tile_n": 16},
        on=problem(16, 4096, 4096),
    ),
    Case("tile_exceeds_problem", {"tile_n": 48}, {"tile_n": 32}, on=problem(128, 24, 512)),
    Case("tile_k_exceeds_k", {"tile_k": 128, "stages": 2}, {}, on=problem(128, 128, 64)),
    Case("cluster_exceeds_grid", {"cluster_m": 4}, {"cluster_m": 2}, on=problem(256, 128, 512)),
    Case(
        "plain_one_cta",
        {"schedule": "plain"},
        {"schedule": "plain", "stages": 3},
        on=problem(2048, 2048, 512),
    ),
    Case(
        "plain_one_cta",
        {"schedule": "plain"},
        {"schedule": "plain"},
        on=problem(2048, 2048, 512),
        legal_on=problem(1024, 1024, 512),
    ),
    Case("splits_inert", {}, {"scheduler": "streamk"}, launch={"splits": 4}),
]


def _judged(
    space: Space, device: DeviceFacts, changes: Knobs, launch: Knobs | None, on: Problem | None
) -> Legality:
    kernel = KernelConfig(family="tma_ws", knobs={**BASE, **changes})
    launched: LaunchConfig | None = None
    if launch is not None:
        launched = LaunchConfig(knobs={**space.launch().knobs, **launch})
    return space.check(kernel, launched, on, device)


def _id(case: Case) -> str:
    return f"{case.rule}-{'-'.join(f'{name}={value}' for name, value in case.breaks.items())}"


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_an_illegal_config_is_named_by_its_rule_alone(case: Case, space: Space, device: DeviceFacts) -> None:
    judged = _judged(space, device, case.breaks, case.launch, case.on)
    assert [broken.rule for broken in judged.illegal] == [case.rule]
    assert case.also_says in judged.illegal[0].reason
    assert "{" not in judged.illegal[0].reason
    launch = case.legal_launch or case.launch
    neighbour = _judged(space, device, case.legal, launch, case.legal_on or case.on)
    assert neighbour.illegal == ()


@pytest.mark.parametrize("case", UNWISE, ids=_id)
def test_an_unwise_config_is_legal_and_named(case: Case, space: Space, device: DeviceFacts) -> None:
    judged = _judged(space, device, case.breaks, case.launch, case.on)
    assert judged.legal
    assert [broken.rule for broken in judged.unwise] == [case.rule]
    assert case.also_says in judged.unwise[0].reason
    assert "{" not in judged.unwise[0].reason
    neighbour = _judged(space, device, case.legal, case.launch, case.legal_on or case.on)
    assert case.rule not in {broken.rule for broken in neighbour.unwise}


def test_every_rule_has_a_case_of_its_kind(space: Space) -> None:
    texts = space.family().rules
    assert {case.rule for case in CASES} == {name for name in RULES if texts[name].kind == "illegal"}
    assert {case.rule for case in UNWISE} == {name for name in RULES if texts[name].kind == "unwise"}
    assert list(texts) == list(RULES)


def test_a_device_with_less_shared_memory_has_fewer_legal_kernels(space: Space, device: DeviceFacts) -> None:
    small = device.model_copy(update={"smem_per_block_bytes": 100_000})
    kernel = KernelConfig(family="tma_ws", knobs=BASE)
    assert space.check(kernel, None, None, device).legal
    assert [b.rule for b in space.check(kernel, None, None, small).illegal] == ["smem_capacity"]
