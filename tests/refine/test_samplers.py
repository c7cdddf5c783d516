"""What every sampler must do, whatever it thinks of: run on each of them, on a small synthetic world."""

from __future__ import annotations

import itertools

import pytest
from optuna.trial import TrialState

from cutlass_tuner.events import Event, KernelFailed, KernelTold
from cutlass_tuner.records import KernelConfig, Problem, Proposal
from cutlass_tuner.refine.search import USABLE, SamplerName
from refine.playing import BROKEN, SAMPLERS, built, keys, played, ratios, searching, tell, told
from refine.synthetic import World


@pytest.fixture(scope="module")
def world() -> World:
    return World(size=300, seed=3, layouts=("tn", "tt"))


@pytest.fixture(params=SAMPLERS)
def name(request: pytest.FixtureRequest) -> SamplerName:
    chosen: SamplerName = request.param
    return chosen


def test_batches_are_legal_siblings_never_repeated_and_no_larger_than_asked(
    world: World, name: SamplerName
) -> None:
    search = searching(world, name)
    legal = {world.kernel(row).key for row in range(len(world))}
    seen: list[str] = []
    for size in (1, 3, 5, 2, 4, 4, 4):
        batch = search.next_batch(size)
        assert 1 <= len(batch) <= size
        assert len({world.siblings(proposal.kernel) for proposal in batch}) == 1
        assert {proposal.source for proposal in batch} == {"sampler"}
        for proposal in batch:
            tell(search, world, proposal)
        seen += keys(batch)
    assert len(set(seen)) == len(seen)
    assert set(seen) <= legal


def test_pending_kernels_are_never_proposed_again(world: World, name: SamplerName) -> None:
    search = searching(world, name)
    played(search, world, 3)
    in_flight = [proposal for _ in range(4) for proposal in search.next_batch(2)]
    assert len(set(keys(in_flight))) == len(in_flight)
    assert [kernel.key for kernel in search.pending] == keys(in_flight)
    for proposal in reversed(in_flight):  # builds end in any order
        tell(search, world, proposal)
    assert search.pending == []
    assert not set(keys(in_flight)) & set(keys(played(search, world, 1)))


def test_seeds_come_first_and_the_last_of_them_are_completed_with_siblings(
    world: World, name: SamplerName
) -> None:
    search = searching(world, name)
    groups = [search.pool.members(g) for g in range(int(search.pool.groups.max()) + 1)]
    several = [group for group in groups if len(group) >= 4][:2]
    seeds = [
        Proposal(kernel=world.kernel(int(row)), source="textbook")
        for row in (several[0][0], several[1][0], several[0][1])
    ]
    stranger = Proposal(kernel=KernelConfig(family="sm90", knobs={"tile_m": 7}), source="user")
    assert search.enqueue([*seeds, seeds[0], stranger]) == [stranger]
    first, second = search.next_batch(2), search.next_batch(3)
    assert sorted(keys([*first, second[0]])) == sorted(keys(seeds))
    if name != "portfolio":  # which picks those it expects to gain most
        assert keys([*first, second[0]]) == keys(seeds)
    assert [proposal.source for proposal in [*first, *second]] == ["textbook"] * 3 + ["sampler"] * 2
    assert len({world.siblings(proposal.kernel) for proposal in second}) == 1
    assert search.enqueue(seeds) == []
    assert not set(keys(seeds)) & set(keys(search.next_batch(3)))


def test_a_seed_that_was_proposed_meanwhile_is_not_asked_twice(world: World, name: SamplerName) -> None:
    search = searching(world, name)
    groups = [search.pool.members(g) for g in range(int(search.pool.groups.max()) + 1)]
    pair = next(group for group in groups if len(group) == 2)
    search.enqueue([Proposal(kernel=world.kernel(int(pair[0])), source="default")])
    assert len(search.next_batch(5)) == 2  # the sampler added the only sibling
    search.enqueue([Proposal(kernel=world.kernel(int(row)), source="user") for row in pair])
    assert "user" not in {proposal.source for proposal in search.next_batch(5)}


def test_failures_have_no_value_and_the_search_goes_on(world: World, name: SamplerName) -> None:
    search = searching(world, name)
    for number in range(6):
        for proposal in search.next_batch(3):
            if number % 2:
                search.tell(proposal.kernel, BROKEN)
            else:
                tell(search, world, proposal)
    search.tell(search.next_batch(1)[0].kernel, {})  # built, and right on no problem
    trials = search.optuna_study.get_trials(deepcopy=False)
    pruned = [trial for trial in trials if trial.state is TrialState.PRUNED]
    assert len(pruned) >= 4
    assert all(trial.value is None and trial.constraints == {USABLE: 1.0} for trial in pruned)
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    assert all(trial.constraints == {USABLE: -1.0} for trial in complete)
    assert len(pruned) + len(complete) == len(trials)
    assert search.next_batch(2)


def test_an_exhausted_space_gives_empty_batches(name: SamplerName) -> None:
    world = World(size=14, seed=1)
    search = searching(world, name)
    found: list[str] = []
    for _ in range(100):
        batch = search.next_batch(3)
        found += keys(batch)
        if not batch:
            break
        for proposal in batch:
            tell(search, world, proposal)
    assert sorted(found) == sorted(world.kernel(row).key for row in range(len(world)))
    assert not search.pool.fresh.any()
    assert search.next_batch(3) == []


def test_a_resumed_search_goes_on_as_the_uninterrupted_one(world: World, name: SamplerName) -> None:
    search = searching(world, name)
    proposals = played(search, world, 6)
    failed = search.next_batch(2)
    for proposal in failed:
        search.tell(proposal.kernel, BROKEN)
    events: list[Event] = list(itertools.chain(*(told(search, world, p) for p in proposals)))
    events += [KernelFailed(proposal=proposal, failure=BROKEN, at_s=0.0) for proposal in failed]

    resumed = searching(world, name)
    resumed.enqueue(proposals[:3])  # the same command enqueues the same seeds
    assert resumed.restore(events) == []
    before, after = search.optuna_study.get_trials(), resumed.optuna_study.get_trials()
    for a, b in zip(before, after, strict=True):
        assert (a.state, a.params, a.value, a.user_attrs) == (b.state, b.params, b.value, b.user_attrs)
        assert a.constraints == b.constraints
    assert keys(resumed.next_batch(4)) == keys(search.next_batch(4))


def test_kernels_built_but_never_told_are_pending_after_a_resume(world: World, name: SamplerName) -> None:
    search = searching(world, name)
    proposals = played(search, world, 2)
    cut = search.next_batch(3)
    events: list[Event] = [*itertools.chain(*(told(search, world, p) for p in proposals)), *map(built, cut)]
    resumed = searching(world, name)
    assert resumed.restore(events) == cut
    for proposal in cut:
        tell(resumed, world, proposal)
    assert not set(keys([*proposals, *cut])) & set(keys(resumed.next_batch(4)))


def test_the_same_seed_gives_the_same_kernels_and_another_seed_others(name: SamplerName) -> None:
    world = World(size=2000)
    first, again, other = (keys(played(searching(world, name, seed), world, 3)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_problem_added_later_is_told_again_without_a_second_proposal(
    world: World, name: SamplerName
) -> None:
    search = searching(world, name)
    (proposal,) = search.next_batch(1)
    row = search.pool.row(proposal.kernel)
    assert row is not None
    all_ratios = ratios(world, proposal.kernel, row)
    (key, value), *rest = all_ratios.items()
    search.tell(proposal.kernel, {key: value})
    search.tell(proposal.kernel, dict(rest))
    last = search.optuna_study.get_trials()[-1]
    assert last.value == pytest.approx(sum(all_ratios.values()) / len(all_ratios))
    assert [v for v in last.user_attrs["log_ratio"] if v is not None] == list(all_ratios.values())


def test_the_objective_weights_the_problems_measured_by_their_counts() -> None:
    world = World(size=20, seed=0)
    world.problems = [p.model_copy(update={"count": 1 + i}) for i, p in enumerate(world.problems)]
    search = searching(world, "random")
    (proposal,) = search.next_batch(1)
    first, third = world.problems[0], world.problems[2]
    search.tell(proposal.kernel, {first.key: 0.4, third.key: -0.1})
    assert search.optuna_study.get_trials()[0].value == pytest.approx((1 * 0.4 + 3 * -0.1) / 4)


def test_what_was_not_measured_is_refused(world: World) -> None:
    search = searching(world, "random")
    (proposal,) = search.next_batch(1)
    other = next(world.kernel(r) for r in range(len(world)) if world.kernel(r) != proposal.kernel)
    problem = world.problems[0].key
    with pytest.raises(ValueError, match="never proposed"):
        search.tell(other, {problem: 0.1})
    with pytest.raises(ValueError, match="no measurement"):
        search.tell(proposal.kernel, {problem: float("nan")})
    with pytest.raises(ValueError, match="not one of this search"):
        search.tell(proposal.kernel, {"hgemm:tn:9x9x9x1": 0.1})
    with pytest.raises(ValueError, match="at least 1"):
        search.next_batch(0)


def test_ratios_of_dropped_problems_and_lost_kernels_do_not_hinder_a_resume(world: World) -> None:
    search = searching(world, "portfolio")
    proposals = played(search, world, 2)
    events = list(itertools.chain(*(told(search, world, p) for p in proposals)))
    fewer: list[Problem] = world.problems[:10]
    smaller = World(size=300, seed=3, layouts=("tn", "tt"))
    smaller.problems, smaller.serves = fewer, world.serves[:, :10]
    smaller.unwise_on = world.unwise_on[:, :10]
    smaller.log_ratio = world.log_ratio[:, :10]
    smaller.estimate_us = world.estimate_us[:, :10]
    stranger = proposals[0].kernel.model_copy(update={"family": "gone"})
    events.append(KernelTold(kernel=stranger, log_ratio={fewer[0].key: 0.1}, at_s=0.0))
    resumed = searching(smaller, "portfolio")
    assert resumed.restore(events) == []
    trials = resumed.optuna_study.get_trials()
    assert len(trials) == len(proposals)
    assert all(len(trial.user_attrs["log_ratio"]) == 10 for trial in trials if trial.value is not None)
    assert resumed.next_batch(3)
