"""First kernels: legal, distinct, covering, honest about their source."""

from __future__ import annotations

import numpy as np
import pytest

from cutlass_tuner.ops.columns import one_row
from cutlass_tuner.ops.hgemm.estimate import estimate_us
from cutlass_tuner.ops.hgemm.seeds import TEXTBOOK
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, Problem, Proposal
from cutlass_tuner.settings import data_dir
from cutlass_tuner.space import Space

from .conftest import problem

HGEMM = op("hgemm")


def seeded(space: Space, problems: list[Problem], device: DeviceFacts) -> list[Proposal]:
    table = space.candidates(problems, device)
    return HGEMM.seeds(space, table, HGEMM.prior(table, problems, device), problems, device)


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return HGEMM.read_shapes(data_dir("spaces") / "shapes" / "hgemm-24.csv")


@pytest.fixture(scope="module")
def found(space: Space, device: DeviceFacts, problems: list[Problem]) -> list[Proposal]:
    return seeded(space, problems, device)


def test_the_default_comes_first_and_all_sources_appear(
    found: list[Proposal], space: Space, device: DeviceFacts
) -> None:
    assert found[0] == Proposal(kernel=space.effective(space.kernel(), device), source="default")
    assert {proposal.source for proposal in found} == {"default", "textbook", "analytic"}
    textbook = [proposal for proposal in found if proposal.source == "textbook"]
    assert len(textbook) >= 10 and len(TEXTBOOK) >= len(textbook)


def test_seeds_are_distinct_effective_legal_and_wise_somewhere(
    found: list[Proposal], space: Space, device: DeviceFacts, problems: list[Problem]
) -> None:
    assert len({proposal.kernel.key for proposal in found}) == len(found)
    for proposal in found:
        assert space.effective(proposal.kernel, device) == proposal.kernel
        assert space.check(proposal.kernel, None, None, device).legal
        if proposal.source == "analytic":
            judged = [space.check(proposal.kernel, None, of, device) for of in problems]
            assert any(verdict.legal and not verdict.unwise for verdict in judged), proposal.kernel.key


def test_the_first_sixteen_cover_every_problem_well(
    found: list[Proposal], space: Space, device: DeviceFacts, problems: list[Problem]
) -> None:
    alphabets = space.family().alphabets
    first = [one_row(proposal.kernel.knobs, alphabets) for proposal in found[:16]]
    times = np.array([[estimate_us(row, of, device)[0] for of in problems] for row in first])
    best = HGEMM.prior(space.candidates(problems, device), problems, device).min(axis=0)
    loss = times.min(axis=0) / best
    assert np.exp(np.log(loss).mean()) < 1.06
    assert loss.max() < 1.6


def test_counts_are_weights(space: Space, device: DeviceFacts) -> None:
    small, large = problem(16, 4096, 4096), problem(8192, 8192, 8192)

    def second(count_small: int, count_large: int) -> Proposal:
        weighed = [
            small.model_copy(update={"count": count_small}),
            large.model_copy(update={"count": count_large}),
        ]
        return seeded(space, weighed, device)[1]

    assert second(1000, 1).kernel.knobs["swap_ab"] is True
    assert second(1, 1000).kernel.knobs["swap_ab"] is False


def test_each_layout_gets_its_own_default_and_textbook(space: Space, device: DeviceFacts) -> None:
    both = [problem(1024, 1024, 1024), problem(1024, 1024, 1024, layout="tt")]
    found = seeded(space, both, device)
    defaults = [proposal.kernel.knobs["layout"] for proposal in found if proposal.source == "default"]
    assert sorted(map(str, defaults)) == ["tn", "tt"]
    for layout in ("tn", "tt"):
        textbook = [p for p in found if p.source == "textbook" and p.kernel.knobs["layout"] == layout]
        assert len(textbook) >= 10


def test_a_narrowed_space_is_respected(space: Space, device: DeviceFacts) -> None:
    held = space.restrict({"schedule": "pingpong", "tile_n": (64, 128)})
    found = seeded(held, [problem(2048, 2048, 2048)], device)
    assert found
    for proposal in found:
        assert proposal.kernel.knobs["schedule"] == "pingpong"
        assert proposal.kernel.knobs["tile_n"] in (64, 128)
