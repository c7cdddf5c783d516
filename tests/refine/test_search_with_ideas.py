"""Ideas steer a search: what is built first, where the sampler chooses, and what a resumed search knows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from cutlass_tuner.events import Answered, Event, KernelFailed, KernelTold
from cutlass_tuner.fortunes import ROUND
from cutlass_tuner.ideas import Idea
from cutlass_tuner.records import Failure, KernelConfig, Proposal
from cutlass_tuner.refine.focus import focus
from cutlass_tuner.refine.search import SamplerName, Search
from cutlass_tuner.study import Ledger
from cutlass_tuner.study.fared import fared
from refine.playing import BROKEN, SAMPLERS, built, keys, ratios, searching, tell
from refine.stating import answered, idea
from refine.synthetic import World

SIZE = 4


@pytest.fixture(scope="module")
def world() -> World:
    return World(size=1500, seed=3, layouts=("tn", "tt"))


@pytest.fixture(params=SAMPLERS)
def name(request: pytest.FixtureRequest) -> SamplerName:
    chosen: SamplerName = request.param
    return chosen


def targets(world: World, layout: str, *extents: tuple[int, int, int]) -> list[str]:
    return [
        p.key
        for p in world.problems
        if p.layout == layout and (not extents or tuple(p.dims.values())[:3] in extents)
    ]


def rows_of(search: Search, world: World, stated: Idea) -> set[int]:
    space = focus(search.pool, stated, [problem.key for problem in world.problems])
    return set(np.flatnonzero(space.rows).tolist())


def row(search: Search, proposal: Proposal) -> int:
    found = search.pool.row(proposal.kernel)
    assert found is not None
    return found


def optimal(world: World, keys: list[str], worst: bool = False) -> KernelConfig:
    """The kernel with the least (or greatest) mean log ratio on these problems."""
    columns = [i for i, problem in enumerate(world.problems) if problem.key in keys]
    mean = world.log_ratio[:, columns].mean(axis=1)
    return world.kernel(int(np.nanargmax(mean) if worst else np.nanargmin(mean)))


class Journal:
    """A search and the events of the study it is on."""

    def __init__(self, search: Search, world: World) -> None:
        self.search, self.world = search, world
        self.events: list[Event] = []

    @property
    def now(self) -> float:
        return float(len(self.events))

    def adopt(self, *ideas: Idea, dropped: tuple[str, ...] = ()) -> Answered:
        event = answered(*ideas, dropped=dropped, at_s=self.now)
        rejected = self.search.adopt(ideas)
        self.search.drop(dropped)
        event = event.model_copy(update={"rejected": tuple(rejected)})
        self.events.append(event)
        return event

    def batch(self, size: int = SIZE, broken: bool = False) -> list[Proposal]:
        batch = self.search.next_batch(size)
        for proposal in batch:
            self.fail(proposal) if broken else self.tell(proposal)
        return batch

    def tell(self, proposal: Proposal) -> None:
        self.events.append(built(proposal).model_copy(update={"at_s": self.now}))
        known = ratios(self.world, proposal.kernel, row(self.search, proposal))
        self.events.append(KernelTold(kernel=proposal.kernel, log_ratio=known, at_s=self.now))
        self.search.tell(proposal.kernel, known)

    def fail(self, proposal: Proposal) -> None:
        self.events.append(KernelFailed(proposal=proposal, failure=BROKEN, at_s=self.now))
        self.search.tell(proposal.kernel, BROKEN)

    def resumed(self, name: SamplerName) -> Search:
        search = searching(self.world, name)
        assert search.restore(self.events) == []
        return search


def test_every_other_batch_of_the_sampler_is_of_the_ideas_part_of_the_space(
    world: World, name: SamplerName
) -> None:
    search = searching(world, name)
    stated = idea("a", targets(world, "tt"), expected=9.0, schedule=("pingpong",), tile_k=(64, 128))
    journal = Journal(search, world)
    journal.batch()
    before = dict(search.pool.distributions)
    journal.adopt(stated)
    rows = rows_of(search, world, stated)
    for turn in range(4):
        batch = search.next_batch(SIZE)  # in flight: nothing is lost yet
        assert batch and len({world.siblings(proposal.kernel) for proposal in batch}) == 1
        assert {(p.source, p.idea) for p in batch} == {("sampler", "" if turn % 2 else "a")}
        if turn % 2 == 0:
            assert {row(search, proposal) for proposal in batch} <= rows
        for proposal in batch:
            if turn % 2:
                journal.tell(proposal)
    trials = search.optuna_study.get_trials()
    assert {trial.user_attrs["idea"] for trial in trials} == {"", "a"}
    assert all(trial.distributions == before for trial in trials)
    assert search.pool.distributions == before


def test_suggestions_come_before_everything_in_turn_the_most_promising_idea_first(
    world: World, name: SamplerName
) -> None:
    search = searching(world, name)
    apart = {world.siblings(world.kernel(r)): world.kernel(r) for r in range(len(world))}
    kernels = list(apart.values())[:6]
    search.enqueue([Proposal(kernel=kernel, source="textbook") for kernel in kernels[4:6]])
    tt = targets(world, "tt")
    shy = idea("shy", tt[:1], suggestions=kernels[:1], expected=1.05)
    bold = idea("bold", tt, suggestions=[kernels[1], kernels[5], kernels[0]], expected=1.5)
    assert search.adopt([shy, bold]) == []
    first = [search.next_batch(1)[0] for _ in range(4)]
    expected = [
        (kernels[1], "llm", "bold"),
        (kernels[0], "llm", "shy"),
        (kernels[5], "llm", "bold"),  # was waiting as a textbook kernel
        (kernels[4], "textbook", ""),
    ]
    asked = [(p.kernel, p.source, p.idea) for p in first]
    if name == "portfolio":  # which picks those it expects to gain most, whoever proposed them
        asked.sort(key=lambda one: [e[0] for e in expected].index(one[0]))
    assert asked == expected
    attributes = [trial.user_attrs for trial in search.optuna_study.get_trials()]
    assert [(a["source"], a["idea"]) for a in attributes] == [(p.source, p.idea) for p in first]
    assert search.adopt([shy, bold]) == []  # known: nothing happens
    assert search.next_batch(1)[0].source == "sampler"


def test_a_batch_that_a_suggestion_opens_is_completed_in_its_idea_first(
    world: World, name: SamplerName
) -> None:
    search = searching(world, name)
    keys_of_tt = targets(world, "tt")
    groups = [search.pool.members(g).tolist() for g in range(int(search.pool.groups.max()) + 1)]

    def within(rows: list[int]) -> list[int]:
        return [r for r in rows if world.kernel(r).knobs["stages"] == 3 and world.serves[r].any()]

    group = next(g for g in groups if len(g) >= 5 and 2 <= len(within(g)) <= 3 and world.serves[g[0]][1])
    inside = within(group)
    stated = idea("a", keys_of_tt, suggestions=[world.kernel(inside[0])], stages=(3,))
    search.adopt([stated])
    batch = search.next_batch(5)
    assert (batch[0].source, batch[0].idea) == ("llm", "a")
    assert len(batch) == 5
    mine = [proposal for proposal in batch[1:] if proposal.idea == "a"]
    assert {row(search, proposal) for proposal in mine} == set(inside[1:])
    assert {(p.source, p.idea) for p in batch[1 + len(mine) :]} == {("sampler", "")}
    assert not {row(search, p) for p in batch[1 + len(mine) :]} & rows_of(search, world, stated)


def test_what_can_never_come_is_said(world: World) -> None:
    search = searching(world, "random")
    stranger = world.kernel(0).model_copy(update={"family": "gone"})
    one = idea("one", targets(world, "tn"), suggestions=[world.kernel(1), stranger], tile_m=(8,))
    other = idea("other", targets(world, "tn"), suggestions=[stranger], tile_m=(128,))
    rejected = search.adopt([one, other])
    reasons = {(r.idea, r.what): r.reason for r in rejected}
    assert len(reasons) == len(rejected)
    unknown = dict.fromkeys([("one", stranger.key), ("other", stranger.key)], "not among the candidates")
    assert reasons.pop(("one", "allow")).endswith("serves a target; tile_m 8")
    assert reasons == unknown
    tell(search, world, search.next_batch(1)[0])
    assert (search.fate("one"), search.fate("other")) == ("done", "waiting")


def test_a_dropped_idea_is_neither_waited_for_nor_searched(world: World, name: SamplerName) -> None:
    search = searching(world, name)
    kernels = [world.kernel(r) for r in (5, 600)]
    search.adopt([
        idea("a", targets(world, "tt"), suggestions=kernels[:1], tile_m=(64,)),
        idea("b", targets(world, "tn"), suggestions=kernels[1:]),
    ])  # fmt: skip
    search.drop(["a", "", "unheard of"])
    batches = [search.next_batch(1) for _ in range(4)]
    assert [batch[0].idea for batch in batches] == ["b", "", "", ""]
    assert (search.fate("a"), search.fate("b")) == ("dropped", "waiting")


def test_a_kernel_that_others_proposed_too_outlives_a_dropped_idea(world: World) -> None:
    apart = {world.siblings(world.kernel(r)): world.kernel(r) for r in range(len(world))}
    kernels = list(apart.values())[:3]
    textbook = [Proposal(kernel=kernel, source="textbook") for kernel in kernels]
    a, b = (idea(name, targets(world, "tt"), suggestions=[kernels[1]]) for name in "ab")

    def left(dropped: str, resumed: bool = False) -> list[tuple[str, str, str]]:
        search = searching(world, "random")
        steps = [lambda: search.enqueue(textbook), lambda: search.adopt([a]), lambda: search.adopt([b])]
        for step in steps[1:] + steps[:1] if resumed else steps:
            step()
        search.drop(dropped)
        return [(p.kernel.key, p.source, p.idea) for p in (search.next_batch(1)[0] for _ in range(4))]

    own = [(kernel.key, "textbook", "") for kernel in kernels]
    for resumed in (False, True):
        assert left("ab", resumed)[:3] == own
        assert left("b", resumed)[:3] == [(kernels[1].key, "llm", "a"), own[0], own[2]]
        assert left("a", resumed)[:3] == [(kernels[1].key, "llm", "b"), own[0], own[2]]
        assert [source for _, source, _ in left("ab", resumed)][3] == "sampler"


@pytest.mark.parametrize("sampler", ["portfolio", "random"])
def test_an_idea_that_loses_twice_is_left_alone_and_one_used_up_is_done(
    world: World, sampler: SamplerName
) -> None:
    search = searching(world, sampler)
    journal = Journal(search, world)
    tn = targets(world, "tn")
    search.enqueue([Proposal(kernel=optimal(world, tn[:1]), source="user")])
    journal.batch(1)
    losing = idea("losing", tn[:1], expected=9.0, tile_m=(64, 128, 256))
    only = optimal(world, tn, worst=True).knobs
    small = idea("small", tn, **{knob: (value,) for knob, value in only.items() if knob != "layout"})
    journal.adopt(losing, small)
    given = [journal.batch()[0].idea for _ in range(14)]
    assert 2 <= given.count("losing") <= 2 * ROUND
    assert given.count("small") == 1
    assert given[-2:] == ["", ""]
    assert search.adopt([losing]) == []  # once is enough: that it lost is not forgotten
    assert (search.fate("losing"), search.fate("small")) == ("lost", "done")
    ledger = Ledger()
    for event in journal.events:
        ledger.absorb(event)
    # That nothing is left of the small one's part of the space is not in the journal.
    assert {one.idea.id: one.fate for one in fared(ledger)} == {"losing": "lost", "small": "searching"}


def test_a_resumed_search_goes_on_as_the_uninterrupted_one(world: World, name: SamplerName) -> None:
    size = 1 if name == "gp" else SIZE  # a proposal of its costs up to a second
    journal = Journal(searching(world, name), world)
    tn, tt = targets(world, "tn"), targets(world, "tt")
    journal.batch(size)
    journal.batch(size, broken=True)
    good = idea("good", tt, suggestions=[optimal(world, tt)], expected=1.3, schedule=("cooperative",))
    bad = idea("bad", tn[:2], suggestions=[optimal(world, tn, worst=True)], expected=1.4, tile_k=(32,))
    gone = idea("gone", tt, suggestions=[world.kernel(9)], tile_m=(64,))
    stranger = world.kernel(1).model_copy(update={"family": "gone"})
    journal.adopt(good, bad, gone)
    for number in range(5):
        journal.batch(size, broken=number == 3)
    late = idea("late", tn, suggestions=[stranger, world.kernel(77)], expected=1.2, swap_ab=(True,))
    journal.adopt(late, dropped=("gone",))
    for _ in range(2):
        journal.batch(size)
    resumed = Journal(journal.resumed(name), world)
    asked = []
    for one in (journal, resumed):
        batches = [one.batch(size) for _ in range(4)]
        asked.append([(p.kernel.key, p.source, p.idea) for batch in batches for p in batch])
    assert asked[0] == asked[1]
    assert {idea for _, _, idea in asked[0]} > {""}
    before, after = journal.search.optuna_study.get_trials(), resumed.search.optuna_study.get_trials()
    for a, b in zip(before, after, strict=True):
        assert (a.state, a.params, a.value, a.user_attrs) == (b.state, b.params, b.value, b.user_attrs)
    ids = ("good", "bad", "gone", "late")
    fates = {i: journal.search.fate(i) for i in ids}
    assert fates == {i: resumed.search.fate(i) for i in ids}
    assert fates["gone"] == "dropped"
    ledger = Ledger()
    for event in journal.events:
        ledger.absorb(event)
    assert {one.idea.id: one.fate for one in fared(ledger)} == fates


def test_kernels_that_could_not_be_built_count_after_a_resume_too(world: World) -> None:
    journal = Journal(searching(world, "random"), world)
    journal.adopt(idea("a", targets(world, "tt"), tile_m=(64, 128)))
    while journal.search.fate("a") != "lost":
        journal.batch(broken=True)
    assert journal.resumed("random").fate("a") == "lost"


def test_suggestions_that_had_not_come_wait_again(world: World) -> None:
    journal = Journal(searching(world, "random"), world)
    apart = {world.siblings(world.kernel(r)): world.kernel(r) for r in range(len(world))}
    kernels = list(apart.values())[:4]
    journal.adopt(idea("a", targets(world, "tt"), suggestions=kernels[:3]))
    journal.adopt(idea("b", targets(world, "tt"), suggestions=kernels[3:]))
    for _ in range(2):
        journal.batch(1)  # of b, of a
    journal.search.next_batch(1)  # was being built when the search ended
    resumed = journal.resumed("random")
    resumed.enqueue([Proposal(kernel=kernels[2], source="textbook")])
    waiting = [resumed.next_batch(1)[0] for _ in range(3)]
    assert keys(waiting[:2]) == [kernel.key for kernel in kernels[1:3]]
    assert [(p.source, p.idea) for p in waiting] == [("llm", "a"), ("llm", "a"), ("sampler", "")]


def test_kernels_built_but_never_told_are_in_flight_after_a_resume(world: World) -> None:
    journal = Journal(searching(world, "random"), world)
    stated = idea("a", targets(world, "tt"), tile_m=(64, 128))
    journal.adopt(stated)
    cut = journal.search.next_batch(2)
    journal.events += map(built, cut)
    resumed = searching(world, "random")
    assert resumed.restore(journal.events) == cut
    assert [trial.user_attrs["idea"] for trial in resumed.optuna_study.get_trials()] == ["a"] * len(cut)
    assert [batch[0].idea for batch in (resumed.next_batch(2), resumed.next_batch(2))] == ["", "a"]


def test_what_the_machine_failed_on_is_not_held_against_an_idea(world: World) -> None:
    search = searching(world, "random")
    search.adopt([idea("a", targets(world, "tt"), tile_m=(64, 128))])
    asked = 0
    for _ in range(30):
        for proposal in search.next_batch(5):
            asked += proposal.idea == "a"
            search.tell(proposal.kernel, Failure(stage="build", reason="no memory", lasting=False))
    assert asked > 4 * ROUND
    assert search.fate("a") == "waiting"


@cache
def large() -> World:
    return World(size=5000, seed=7)


DEEP = ((64, 64, 16384), (512, 512, 16384), (2048, 512, 8192), (128, 128, 2048))


def regret_on_targets(sampler: SamplerName, seed: int, told_so: bool) -> float:
    """Mean over the deep problems of log(best time / best time there is), after 40 kernels more.

    The idea names the right values of four knobs, for all of the problems together.
    """
    world = large()
    deep = targets(world, "tn", *DEEP)
    columns = [i for i, problem in enumerate(world.problems) if problem.key in deep]
    journal = Journal(searching(world, sampler, seed), world)
    for _ in range(2):
        journal.batch()
    if told_so:
        best = [optimal(world, [target]).knobs for target in deep]
        knobs = ("scheduler", "schedule", "tile_m", "tile_n")
        right = {knob: tuple(dict.fromkeys(one[knob] for one in best)) for knob in knobs}
        journal.adopt(idea("a", deep, expected=2.0, **right))
    rows: list[int] = []
    while len(rows) < 40:
        rows += [row(journal.search, proposal) for proposal in journal.batch()]
    reached = world.log_ratio[rows[:40]][:, columns].min(axis=0)
    return float(np.mean(reached - world.log_ratio[:, columns].min(axis=0)))


@pytest.mark.parametrize("sampler", ["portfolio", "random"])
def test_a_good_idea_gets_its_targets_near_their_optimum_sooner(sampler: SamplerName) -> None:
    without = [regret_on_targets(sampler, seed, told_so=False) for seed in range(6)]
    with_it = [regret_on_targets(sampler, seed, told_so=True) for seed in range(6)]
    print(f"{sampler}: regret {np.mean(with_it):.4f} with the idea, {np.mean(without):.4f} without")
    assert np.mean(with_it) < 0.5 * np.mean(without)
