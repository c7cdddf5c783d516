"""Playing a search on the synthetic world: ask, tell, and the events a study would hold of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cutlass_tuner.events import Event, KernelBuilt, KernelTold
from cutlass_tuner.records import Build, Failure, KernelConfig, Proposal
from cutlass_tuner.refine.search import SamplerName, Search
from refine.synthetic import World

SAMPLERS: list[SamplerName] = ["portfolio", "tpe", "gp", "random"]
BROKEN = Failure(stage="build", reason="ptxas died")


def searching(world: World, name: SamplerName, seed: int = 0) -> Search:
    return Search(
        world,
        world.knobs,
        world.problems,
        world.siblings,
        sampler=name,
        seed=seed,
        estimate_us=world.estimate_us,
    )


def ratios(world: World, kernel: KernelConfig, row: int) -> dict[str, float]:
    values = zip(world.problems, world.log_ratio[row], strict=True)
    return {problem.key: float(value) for problem, value in values if not np.isnan(value)}


def tell(search: Search, world: World, proposal: Proposal) -> None:
    row = search.pool.row(proposal.kernel)
    assert row is not None
    search.tell(proposal.kernel, ratios(world, proposal.kernel, row))


def played(search: Search, world: World, batches: int, size: int = 4) -> list[Proposal]:
    """Proposals of some batches, each told before the next is asked for."""
    proposals = []
    for _ in range(batches):
        batch = search.next_batch(size)
        for proposal in batch:
            tell(search, world, proposal)
        proposals += batch
    return proposals


def keys(proposals: list[Proposal]) -> list[str]:
    return [proposal.kernel.key for proposal in proposals]


def built(proposal: Proposal) -> KernelBuilt:
    build = Build(
        kernel=proposal.kernel, symbol="s", cubin="c", host_library="h", index=0, registers=1, spill_bytes=0,
        smem_bytes=1, threads=128, stages=2, params_bytes=1, cubin_bytes=1, compile_s=1.0, batch_size=1,
        cached=False,
    )  # fmt: skip
    return KernelBuilt(proposal=proposal, build=build, at_s=0.0)


def told(search: Search, world: World, proposal: Proposal) -> Iterator[Event]:
    row = search.pool.row(proposal.kernel)
    assert row is not None
    yield built(proposal)
    yield KernelTold(kernel=proposal.kernel, log_ratio=ratios(world, proposal.kernel, row), at_s=0.0)
