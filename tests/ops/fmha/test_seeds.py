"""First kernels: legal, distinct, covering every shape, honest about their source."""

from __future__ import annotations

import numpy as np
import pytest

from cutlass_tuner.ops.columns import FloatArray
from cutlass_tuner.ops.fmha.problem import mask
from cutlass_tuner.ops.fmha.seeds import TEXTBOOK
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, Problem, Proposal
from cutlass_tuner.space import Candidates, Space

from .conftest import problem

FMHA = op("fmha")


@pytest.fixture(scope="module")
def estimates(table: Candidates, shipped: list[Problem], device: DeviceFacts) -> FloatArray:
    return FMHA.prior(table, shipped, device)


@pytest.fixture(scope="module")
def found(
    space: Space, table: Candidates, estimates: FloatArray, shipped: list[Problem], device: DeviceFacts
) -> list[Proposal]:
    return FMHA.seeds(space, table, estimates, shipped, device)


def rows(table: Candidates, proposals: list[Proposal]) -> list[int]:
    places = [table.row(proposal.kernel) for proposal in proposals]
    assert None not in places
    return [place for place in places if place is not None]


def test_sources_come_in_their_order(found: list[Proposal]) -> None:
    sources = [proposal.source for proposal in found]
    assert sources == sorted(sources, key=("default", "textbook", "analytic").index)
    # Three head_dims and two masks.
    assert sources.count("default") == 6
    assert 40 < sources.count("textbook") < 100
    assert sources.count("analytic") > 30


def test_seeds_are_distinct_effective_and_legal(
    found: list[Proposal], space: Space, device: DeviceFacts
) -> None:
    assert len({proposal.kernel.key for proposal in found}) == len(found)
    for proposal in found:
        assert space.effective(proposal.kernel, device) == proposal.kernel
        assert space.check(proposal.kernel, None, None, device).legal


def test_every_textbook_kernel_is_legal_for_both_masks_and_no_two_are_one(
    space: Space, device: DeviceFacts
) -> None:
    for dim, configs in TEXTBOOK.items():
        kernels = [space.effective(space.kernel(**{**one, "head_dim": dim}), device) for one in configs]
        assert len({kernel.key for kernel in kernels}) == len(configs)
        for kernel in kernels:
            assert space.check(kernel, None, None, device).illegal == (), kernel.key
            causal = kernel.model_copy(update={"knobs": {**kernel.knobs, "mask": "causal"}})
            assert space.check(causal, None, None, device).illegal == (), kernel.key
    assert set(TEXTBOOK) == set(next(k for k in space.kernel_knobs() if k.name == "head_dim").values)


def test_the_first_of_them_cover_every_shape_well(
    found: list[Proposal], table: Candidates, estimates: FloatArray
) -> None:
    first = [proposal for proposal in found if proposal.source != "analytic"]
    assert table.serves[rows(table, found[:6])].any(axis=0).all()
    served = np.where(table.serves, estimates, np.inf)
    loss = served[rows(table, first)].min(axis=0) / served.min(axis=0)
    assert np.exp(np.log(loss).mean()) < 1.05
    assert loss.max() < 1.25


def test_every_combination_gets_its_own_textbook_from_both_templates(
    found: list[Proposal], shipped: list[Problem]
) -> None:
    for dim, of in {(one.dims["head_dim"], mask(one)) for one in shipped}:
        mine = [
            p.kernel.knobs for p in found if (p.kernel.knobs["head_dim"], p.kernel.knobs["mask"]) == (dim, of)
        ]
        assert {knobs["template"] for knobs in mine} == {"flash", "example88"}


def test_counts_are_weights(space: Space, device: DeviceFacts) -> None:
    def first(count_small: int, count_large: int) -> object:
        weighed = [
            problem(4096, dim=64).model_copy(update={"count": count_small}),
            problem(4096, dim=256).model_copy(update={"count": count_large}),
        ]
        table = space.candidates(weighed, device)
        seeds = FMHA.seeds(space, table, FMHA.prior(table, weighed, device), weighed, device)
        return seeds[0].kernel.knobs["head_dim"]

    assert (first(1000, 1), first(1, 1000)) == (64, 256)


def test_a_narrowed_space_is_respected(space: Space, shipped: list[Problem], device: DeviceFacts) -> None:
    held = space.restrict({"template": "flash", "tile_kv": (64, 80, 128)})
    table = held.candidates(shipped, device)
    seeds = FMHA.seeds(held, table, FMHA.prior(table, shipped, device), shipped, device)
    assert seeds
    assert {proposal.kernel.knobs["template"] for proposal in seeds} == {"flash"}
    assert {proposal.kernel.knobs["tile_kv"] for proposal in seeds} <= {64, 80, 128}
