"""sm_100a: every rule with a config that breaks it, what a launch folds to, shared memory, first kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from cutlass_tuner.ops.arch import nominal_device
from cutlass_tuner.ops.fmha.sm100 import RULES
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Readback, Scalar
from cutlass_tuner.space import Legality, Space

from .conftest import problem

Knobs = dict[str, Scalar]
FMHA = op("fmha")
PERSISTENT: Knobs = {"scheduler": "persistent", "softmax_registers": 184, "correction_registers": 96}
GROUPED: Knobs = {"scheduler": "causal_individual"}


@pytest.fixture(scope="module")
def space() -> Space:
    return Space.of("fmha", "sm_100a")


@pytest.fixture(scope="module")
def device() -> DeviceFacts:
    return nominal_device("sm_100a")


@dataclass(frozen=True)
class Case:
    """`breaks` and `legal` are changes of the default kernel; one problem for both unless said."""

    rule: str
    breaks: Knobs
    legal: Knobs
    on: Problem | None = None
    legal_on: Problem | None = None
    says: str = ""


CASES = [
    Case("warp_registers", {"softmax_registers": 208}, {"softmax_registers": 200}, says="leave 16 of 512"),
    Case("warp_registers", {"correction_registers": 96}, {"correction_registers": 64}),
    Case("head_dim", {"head_dim": 64}, {}, on=problem(512), says="128"),
    Case("mask", {}, {"mask": "causal"}, on=problem(512, causal=1), says="causal"),
    Case(
        "rows_without_keys",
        {"mask": "causal"},
        {"mask": "causal"},
        on=problem(513, 512, causal=1),
        legal_on=problem(513, 512, causal=2),
        says="513 queries and 512 keys",
    ),
    Case("grouped_heads_scheduler", GROUPED, {}, on=problem(512, heads=12), says="12 heads"),
    Case(
        "grouped_heads_scheduler", GROUPED, GROUPED, on=problem(512, heads=4), legal_on=problem(512, heads=8)
    ),
    Case("extents", {}, {}, on=problem(64, 2**20), legal_on=problem(64, 2**19), says="1048576 keys"),
    Case("extents", {}, PERSISTENT, on=problem(64, batch=2**16, heads=1)),
    Case("extents", {}, GROUPED, on=problem(1, heads=2**16)),
]
UNWISE = [
    Case("persistent_registers", {**PERSISTENT, "softmax_registers": 192}, PERSISTENT, says="32 registers"),
    Case("persistent_registers", {"scheduler": "persistent"}, {}),
    Case("idle_registers", {"softmax_registers": 176}, {"softmax_registers": 184}, says="80 registers"),
    Case("tile_kv_exceeds_keys", {}, {"tile_kv": 64}, on=problem(64), says="seqlen_kv only 64"),
    Case("tile_kv_exceeds_keys", {}, {}, on=problem(64, 64), legal_on=problem(64, 65)),
]


def judged(space: Space, device: DeviceFacts, knobs: Knobs, on: Problem | None) -> Legality:
    return space.check(space.kernel(**knobs), None, on, device)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_what_cannot_work_is_illegal(space: Space, device: DeviceFacts, case: Case) -> None:
    (broken,) = judged(space, device, case.breaks, case.on).illegal
    assert broken.rule == case.rule
    assert case.says in broken.reason
    assert judged(space, device, case.legal, case.legal_on or case.on).legal


@pytest.mark.parametrize("case", UNWISE, ids=lambda case: case.rule)
def test_what_is_slow_is_unwise(space: Space, device: DeviceFacts, case: Case) -> None:
    said = judged(space, device, case.breaks, case.on)
    assert said.legal
    (broken,) = said.unwise
    assert broken.rule == case.rule
    assert case.says in broken.reason
    assert case.rule not in {
        one.rule for one in judged(space, device, case.legal, case.legal_on or case.on).unwise
    }


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in (*CASES, *UNWISE)} == set(RULES)


def test_a_persistent_kernel_has_two_launches_where_tiles_outnumber_sms(
    space: Space, device: DeviceFacts
) -> None:
    def grids(knobs: Knobs, on: Problem) -> list[object]:
        return [one.knobs["grid"] for one in space.launches(space.kernel(**knobs), on, device)]

    many, few = problem(4096, heads=10), problem(2048, heads=16)  # 160 and 128 tiles for 148 SMs
    assert grids(PERSISTENT, many) == ["sms", "tiles"]
    assert grids(PERSISTENT, few) == ["tiles"]
    assert grids({}, many) == ["tiles"]


def test_launches_and_what_ran(space: Space) -> None:
    launches = [space.launch(grid=grid) for grid in ("tiles", "sms")]
    assert [FMHA.launch_codes(launch) for launch in launches] == [(0,), (1,)]
    back = Readback(
        grid=(148, 1, 1),
        cluster=(1, 1, 1),
        threads=512,
        smem_bytes=1,
        stages=3,
        workspace_bytes=0,
        zeroed_bytes=0,
    )
    assert FMHA.ran_otherwise(space.kernel(), launches[0], back) == ""
    wrong = FMHA.ran_otherwise(space.kernel(), launches[0], back.model_copy(update={"stages": 2}))
    assert wrong == "stages 2 ran where 3 was asked"


def test_shared_memory(space: Space) -> None:
    """By hand; tests/emit holds the formula against the kernels' own types."""

    def total(**knobs: Scalar) -> tuple[int, int]:
        found = FMHA.smem(space.kernel(**knobs))
        assert found is not None and found.stages == 3
        return found.stage_bytes, found.total_bytes

    row = 2 * 128
    assert total() == (128 * row, (2 * 128 + 3 * 128) * row + 240)
    assert total(**PERSISTENT) == (128 * row, (2 * 128 + 3 * 128 + 2 * 128) * row + 240)
    assert total(head_dim=64, tile_kv=64) == (64 * 128, (2 * 128 + 3 * 64) * 128 + 240)


def test_first_kernels_cover_what_can_be_served(space: Space, device: DeviceFacts) -> None:
    asked = [problem(4096, dim=dim, causal=causal) for dim in (64, 128) for causal in (0, 1)]
    table = space.candidates(asked, device)
    assert table.serves.any(axis=0).all()
    estimates = FMHA.prior(table, asked, device)
    assert np.isfinite(estimates[table.serves]).all()
    seeds = FMHA.seeds(space, table, estimates, asked, device)
    assert [one.source for one in seeds[:4]] == ["default"] * 4
    assert len({one.kernel.key for one in seeds}) == len(seeds)
    for dim, mask in ((dim, mask) for dim in (64, 128) for mask in ("full", "causal")):
        mine = [
            one for one in seeds if (one.kernel.knobs["head_dim"], one.kernel.knobs["mask"]) == (dim, mask)
        ]
        schedulers = {one.kernel.knobs["scheduler"] for one in mine}
        assert schedulers == {"individual", "persistent", "causal_individual", "causal_persistent"}
        assert {one.kernel.knobs["tile_kv"] for one in mine} == {64, 128}
    for one in seeds:
        assert judged(space, device, dict(one.kernel.knobs), None).legal


def test_the_estimate_knows_what_a_mask_saves_and_who_starts_with_the_longest(
    space: Space, device: DeviceFacts
) -> None:
    def us(on: Problem, **knobs: Scalar) -> float:
        narrowed = space.restrict({"softmax_registers": 184, "correction_registers": 80, **knobs})
        table = narrowed.candidates([on], device)
        assert len(table) == 1
        return float(FMHA.prior(table, [on], device)[0, 0])

    full, causal = problem(8192), problem(8192, causal=1)
    assert (
        1.5
        < us(full, tile_kv=128, scheduler="individual") / us(causal, tile_kv=128, scheduler="individual")
        < 2
    )
    assert us(causal, tile_kv=128, scheduler="causal_individual") < us(
        causal, tile_kv=128, scheduler="individual"
    )
    assert us(full, tile_kv=128, scheduler="persistent") < us(full, tile_kv=64, scheduler="persistent")


def test_a_hopper_kernel_is_no_blackwell_kernel(space: Space) -> None:
    hopper = Space.of("fmha", "sm_90a")
    ours, theirs = space.kernel(), hopper.kernel()
    assert isinstance(ours, KernelConfig) and ours.family != theirs.family
    assert space.digest != hopper.digest
