"""Rounds of questions: when one is put, and that no answer, or none, can hold up or end the search.

The transport is scripted; study, search and the small space are real, the screening is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cutlass_tuner.events import Answered, KernelTold, StudyHeader
from cutlass_tuner.fortunes import ROUND
from cutlass_tuner.ideas import Answer, Idea, Usage
from cutlass_tuner.ops import registry
from cutlass_tuner.pipeline import conversation
from cutlass_tuner.pipeline.conversation import WITHOUT, Conversation, said
from cutlass_tuner.pipeline.standing import NOT_RECORDED
from cutlass_tuner.propose.context import Context
from cutlass_tuner.propose.request import Request
from cutlass_tuner.records import Build, Failure, KernelConfig, Problem, Proposal
from cutlass_tuner.refine.search import Search
from cutlass_tuner.space import Space
from cutlass_tuner.study import Best, Study
from pipeline import harness
from pipeline.recording import DEVICE, ENVIRONMENT, built, log_ratio, measured
from pipeline.replies import config, idea, reply

SECRET = "sk-ant-0123456789"
WIDE = reply(idea("wide", config(tile_n=256, cluster_m=1, stages=3), config(tile_n=64, stages=3)))
SMALL = reply(idea("small", config(tile_n=64, stages=4)))
OPEN = reply(idea("open", allow=[{"knob": "tile_n", "values": [64]}]))
PASSING = Answer(failure=Failure(stage="propose", reason="the API is overloaded", lasting=False))
LASTING = Answer(failure=Failure(stage="propose", reason="the API does not accept the credential"))

Script = Iterable[Answer | BaseException | str | None]


class Scripted:
    """A transport that answers from a script, and then never again until it is cancelled."""

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self.script = list(script)
        self.questions: list[Request] = []
        self.cancelled: threading.Event | None = None
        self.closed = 0

    def introduce(self) -> str:
        return "introduced"

    def ask(self, request: Request, cancelled: threading.Event) -> Answer | None:
        self.questions.append(request)
        self.cancelled = cancelled
        if not self.script:
            cancelled.wait(30.0)
            return None
        answer = self.script.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return Answer(text=answer, model="m") if isinstance(answer, str) else answer

    def close(self) -> None:
        self.closed += 1


@dataclass
class Screen:
    """Stands where a Screening does; nothing is measured."""

    study: Study
    suggested: list[Idea] = field(default_factory=list)

    def suggest(self, ideas: Iterable[Idea]) -> None:
        self.suggested += ideas

    def contenders(self, problem: Problem) -> list[Best]:
        return self.study.ledger.ranking(problem.key)

    def remeasure(self, ready: object, more: object) -> dict[str, Best]:
        return {p.key: best for p in self.study.problems if (best := self.study.best(p.key)) is not None}


class World:
    """A search in the small space and a conversation about it."""

    def __init__(self, folder: Path, script: Script = (), simulated: str = "", **options: object) -> None:
        path, shapes = folder / "space.yaml", folder / "s.csv"
        path.write_text(harness.SPACE)
        shapes.write_text(harness.SHAPES)
        op, self.space = registry.op("hgemm"), Space.load(path)
        self.problems = op.read_shapes(shapes)
        header = {
            "name": "s", "op": "hgemm", "family": "tma_ws", "environment": ENVIRONMENT, "device": DEVICE,
            "space_digest": self.space.digest, "l2": "cold", "created": "2026", "simulated": simulated,
        }  # fmt: skip
        head = StudyHeader.model_validate(header)
        self.study = Study.open_or_create(folder / "studies", head, self.problems)
        candidates = self.space.candidates(self.problems, DEVICE)
        knobs = self.space.kernel_knobs()
        self.search = Search(
            candidates, knobs, self.problems, lambda k: str(k.knobs["tile_m"]), sampler="random"
        )
        self.search.restore(self.study.events())
        self.in_flight: dict[str, Proposal] = {}
        self.notes: list[str] = []
        self.left = 1000
        self.screen = Screen(self.study)
        self.transport = Scripted(())
        self.will_say(*script)
        given = {"rounds": 6, "ready": self.ready} | options
        context = Context(op, self.space, tuple(self.problems), DEVICE, "cold")
        self.talk = Conversation(
            self.transport, context, self.study, self.screen, self.search, in_flight=self.in_flight,  # type: ignore[arg-type]
            more=lambda: self.left > len(self.study.ledger.proposals), note=self.notes.append, **given,
        )  # type: ignore[arg-type]  # fmt: skip

    def will_say(self, *script: Answer | BaseException | str | None) -> None:
        """Further answers; they are worth waiting for."""
        self.transport.script += script
        conversation.AT_ONCE_S = 10.0 if script else 0.01

    def ready(self, kernel: KernelConfig) -> Build | Failure:
        return Failure(stage="build", reason=f"not recorded in {self.study.header.simulated}")

    def fly(self, count: int = 1) -> list[Proposal]:
        """Kernels that are being built from now on."""
        flying = [proposal for _ in range(count) for proposal in self.search.next_batch(1)]
        self.in_flight.update({p.kernel.key: p for p in flying})
        return flying

    def land(self, proposals: Iterable[Proposal], speedup: float = 1.0) -> None:
        """They are measured."""
        for one in proposals:
            del self.in_flight[one.kernel.key]
            event = built(one.kernel, 0.0)
            self.study.append(event.model_copy(update={"proposal": one}))
            ratios = {p.key: log_ratio(one.kernel, p) * 1e-3 for p in self.problems}
            for problem in self.problems:
                log = ratios[problem.key] - (speedup - 1.0)
                self.study.append(measured(one.kernel, problem, log, 0.0))
            self.study.append(KernelTold(kernel=one.kernel, log_ratio=ratios, at_s=0.0))
            self.search.tell(one.kernel, ratios)
            self.talk.settle(one)

    def fail(self, proposals: Iterable[Proposal], lasting: bool) -> None:
        for one in proposals:
            del self.in_flight[one.kernel.key]
            self.search.tell(one.kernel, Failure(stage="build", reason="gone", lasting=lasting))
            self.talk.settle(one)

    def heard(self) -> None:
        """Wait for the answer to the question that is open."""
        assert self.talk.thinking
        self.talk.hear(10.0)

    @property
    def answered(self) -> list[Answered]:
        return self.study.ledger.answered

    def asked(self) -> int:
        return len(self.transport.questions)

    def asks_now(self, idle: bool = False) -> bool:
        """Is the next question put?"""
        self.talk.go_on(idle)
        return self.talk.thinking


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    monkeypatch.setattr(conversation, "AT_ONCE_S", 0.0)  # put back afterwards: each world has its own

    def world(*script: object, **options: object) -> World:
        return World(tmp_path, script, **options)  # type: ignore[arg-type]

    return world


# --- answers


def test_an_answer_is_stored_with_its_question_and_its_kernels_come_next(make: Callable[..., World]) -> None:
    world = make(WIDE)
    world.talk.begin()
    (asked,), (answered,) = world.study.ledger.asked, world.answered
    question = world.transport.questions[0]
    assert (asked.round, asked.transport, asked.prompt) == (1, "scripted", question.prompt)
    assert (asked.prompt_digest, asked.schema_digest) == (question.digest, question.schema_digest)
    assert (answered.round, answered.answer.text, answered.answer.model) == (1, WIDE, "m")
    assert [one.id for one in answered.ideas] == ["wide"] == [one.id for one in world.screen.suggested]
    assert [(p.source, p.idea) for p in world.fly(3)] == [("llm", "wide")] * 2 + [("sampler", "")]
    assert world.notes == ["introduced", "round 1: 1 idea with 2 kernels"]


@pytest.mark.parametrize("error", [ValueError(SECRET), SystemExit(SECRET), KeyError(SECRET)])
def test_a_transport_that_raises_costs_a_round_and_tells_no_secret(
    error: BaseException, make: Callable[..., World]
) -> None:
    world = make(error, SMALL)
    world.talk.begin()
    assert not world.talk.thinking
    reason = world.answered[0].answer.failure.reason  # type: ignore[union-attr]
    assert reason.startswith(f"asking ended in {type(error).__name__} (test_conversation.py:")
    assert world.notes[1:] == [f"round 1: no ideas from the language model: {reason}"]
    world.land(world.fly(ROUND))
    assert world.asks_now()
    world.heard()
    assert [one.id for one in world.answered[1].ideas] == ["small"]
    assert SECRET not in world.study.folder.joinpath("events.jsonl").read_text() + "".join(world.notes)


def test_one_failure_costs_one_round_and_the_next_question_waits_for_news(make: Callable[..., World]) -> None:
    world = make(PASSING, SMALL)
    world.talk.begin()
    flying = world.fly(ROUND)
    for one in flying:
        assert not world.asks_now()
        world.land([one])
    assert world.asks_now()
    world.heard()
    assert [answered.round for answered in world.answered] == [1, 2]
    assert world.study.ledger.asked[1].prompt.count("What is known after 5 kernels") == 1
    assert [one.id for one in world.answered[1].ideas] == ["small"]


def test_kernels_in_flight_count_as_news_after_a_failure(make: Callable[..., World]) -> None:
    world = make()
    flying = world.fly(ROUND)
    world.will_say(PASSING)
    world.talk.begin()
    world.land(flying)
    assert world.asks_now()


def test_two_failures_in_a_row_end_it_in_one_line_each(make: Callable[..., World]) -> None:
    world = make(PASSING, PASSING)
    world.talk.begin()
    assert world.asks_now(idle=True)
    world.heard()
    why = "no ideas from the language model: the API is overloaded"
    assert world.notes[1:] == [f"round 1: {why}", f"round 2: {why}; {WITHOUT}"]
    world.land(world.fly(2 * ROUND))
    assert not world.asks_now(idle=True) and world.asked() == 2 and world.transport.closed == 1


def test_a_lasting_failure_ends_it_at_once_in_one_line(make: Callable[..., World]) -> None:
    world = make(LASTING)
    world.talk.begin()
    why = "no ideas from the language model: the API does not accept the credential"
    assert world.notes[1:] == [f"round 1: {why}; {WITHOUT}"]
    assert len(world.answered) == 1
    assert not world.asks_now(idle=True) and world.asked() == 1


def test_no_more_replies_are_no_answer(make: Callable[..., World]) -> None:
    world = make(None)
    world.talk.begin()
    assert world.notes[1:] == [f"there are no more replies: {WITHOUT}"]
    assert not world.study.ledger.asked and not world.answered
    assert not world.asks_now(idle=True)


NOT_ONE_IDEA = {
    "garbage": "Sure! Here are some ideas: {",
    "empty": "",
    "blank": " \n",
    "a list": "[]",
    "another schema": '{"ideas": [{"name": "x"}], "drop": []}',
    "no ideas": '{"ideas": [], "drop": []}',
    "illegal configs": reply(idea("bad", config(tile_m=64), config(stages=99))),
    "unknown knobs": reply(idea("bad", {"kernel": {"speed": 9}, "launches": []})),
    "a fence": f"```json\n{reply(idea('bad', config(tile_m=64)))}\n```",
    "deep": "[" * 100_000,
    "numbers": '{"ideas": [1e999, NaN, -0, 1' + "0" * 5000 + '], "drop": []}',
    "halves of characters": r'{"ideas": [{"id": "\ud800"}, "\udfff"], "drop": ["\ud800"]}',
    "escapes": reply(idea("\x1b[2J\n", config(tile_n=64, stages=4))),
    "lone surrogate in a knob": reply(idea("bad", config(tile_m="\ud800"))),
    "much": reply(*[idea(f"i{n}", *[config(tile_m=64)] * 50) for n in range(200)]),
}


@pytest.mark.parametrize("what", NOT_ONE_IDEA)
def test_an_answer_without_an_idea_is_a_round_in_vain_told_in_one_plain_line(
    what: str, make: Callable[..., World]
) -> None:
    world = make(NOT_ONE_IDEA[what], SMALL)
    world.talk.begin()
    (answered,) = world.answered
    assert answered.answer.text == NOT_ONE_IDEA[what] and not answered.ideas
    assert all(note.isprintable() and len(note) < 300 for note in world.notes) and len(world.notes) == 2
    assert Study.load(world.study.folder.parent, "s").ledger.answered == [answered]
    assert world.asks_now(idle=True)
    world.heard()
    assert [one.id for one in world.answered[1].ideas] == ["small"]


def test_what_a_server_says_reaches_the_terminal_tamed() -> None:
    answer = Answer(
        failure=Failure(stage="propose", reason="a\x1b[31m\r\nb " + "x" * 5000),
        usage=Usage(input_tokens=1200, output_tokens=7, cost_usd=0.5),
    )
    text = said(Answered(round=3, transport="t", answer=answer, at_s=0.0))
    assert text.startswith("round 3: no ideas from the language model: a[31m b")
    assert text.endswith("; 1,200 tokens read, 7 written, 0.50 USD")
    assert text.isprintable() and len(text) < 300


def test_usage_of_an_unknown_price_is_told_without_one() -> None:
    answer = Answer(usage=Usage(input_tokens=1, output_tokens=2))
    text = said(Answered(round=1, transport="t", answer=answer, at_s=0.0))
    assert text == "round 1: 0 ideas with 0 kernels; 1 tokens read, 2 written"


# --- waiting


def test_an_answer_that_never_comes_keeps_nobody(make: Callable[..., World]) -> None:
    world = make()
    world.talk.begin()
    assert world.talk.thinking
    world.talk.hear()
    world.land(world.fly(20))
    world.talk.go_on(idle=True)
    assert world.talk.thinking and world.asked() == 1 and not world.answered
    cancelled = world.transport.cancelled
    world.talk.close()
    assert cancelled is not None and cancelled.is_set() and not world.talk.thinking
    world.talk.close()
    world.talk.hear()
    world.talk.go_on(idle=True)
    assert world.asked() == 1 == world.transport.closed and not world.answered


def test_without_a_transport_nothing_happens(make: Callable[..., World]) -> None:
    world = make()
    world.talk._asking = None
    world.talk.begin()
    world.talk.hear()
    world.talk.go_on(idle=True)
    world.talk.close()
    assert not world.notes and not world.talk.thinking


def test_nothing_is_asked_when_no_kernel_may_be_built_any_more(make: Callable[..., World]) -> None:
    world = make(WIDE, SMALL)
    world.talk.begin()
    world.land(world.fly(2))
    world.left = 2
    assert not world.asks_now()
    world.left = 3
    assert world.asks_now()


# --- when the next question is put


def test_a_round_waits_for_its_suggestions(make: Callable[..., World]) -> None:
    world = make(WIDE, SMALL)
    world.talk.begin()
    assert not world.asks_now() and not world.asks_now(idle=True)
    flying = world.fly(2)
    assert not world.asks_now()
    world.land(flying[:1])
    assert not world.asks_now()
    world.land(flying[1:])
    assert world.asks_now()


def test_a_round_that_opened_a_part_of_the_space_waits_for_the_sampler_there(
    make: Callable[..., World],
) -> None:
    """Kernels that were in flight before the answer, or are others' proposals, are not the sampler's turn."""
    world = make()
    early = world.fly(ROUND)
    world.search.enqueue([Proposal(kernel=k, source="textbook") for k in other_kernels(world, ROUND)])
    world.will_say(OPEN)
    world.talk.begin()
    world.land(early)
    assert not world.asks_now()
    seeds = world.fly(ROUND)
    assert {one.source for one in seeds} == {"textbook"}
    world.land(seeds)
    assert not world.asks_now()
    sampled = world.fly(ROUND)
    assert {one.source for one in sampled} == {"sampler"}
    world.land(sampled[1:])
    assert not world.asks_now()
    world.land(sampled[:1])
    assert world.asks_now()


def test_where_nothing_is_left_to_build_the_next_question_comes_at_once(make: Callable[..., World]) -> None:
    world = make(OPEN)
    world.talk.begin()
    assert not world.asks_now()
    assert world.asks_now(idle=True)


def other_kernels(world: World, count: int) -> list[KernelConfig]:
    table = world.search.pool.candidates
    rows = [row for row in range(len(table)) if world.search.pool.fresh[row]]
    return [table.kernel(row) for row in rows[:count]]


def test_a_suggestion_that_the_sampler_is_building_already_is_waited_for(make: Callable[..., World]) -> None:
    world = make()
    kernel = world.space.effective(suggested(world), DEVICE)
    world.search.enqueue([Proposal(kernel=kernel, source="textbook")])
    flying = world.fly(1)
    assert flying[0].kernel == kernel
    world.will_say(SMALL)
    world.talk.begin()
    assert [one.id for one in world.answered[0].ideas] == ["small"]
    assert not world.asks_now()
    world.land(flying)
    assert world.asks_now()


def suggested(world: World) -> KernelConfig:
    """The raw kernel of SMALL."""
    return world.space.kernel(tile_n=64, stages=4)


@pytest.mark.parametrize("lasting", [True, False])
def test_a_suggestion_that_fails_holds_up_nothing(lasting: bool, make: Callable[..., World]) -> None:
    world = make(SMALL)
    world.talk.begin()
    flying = world.fly(1)
    assert flying[0].idea == "small"
    world.fail(flying, lasting)
    assert world.asks_now()


def test_a_suggestion_that_is_no_candidate_holds_up_nothing(make: Callable[..., World]) -> None:
    """Say because its layout was dropped from the shapes, or nobody recorded it."""
    world = make(SMALL)
    row = world.search.pool.row(world.space.effective(suggested(world), DEVICE))
    known = world.search.pool._row_of_knobs
    world.search.pool._row_of_knobs = {knobs: r for knobs, r in known.items() if r != row}
    world.talk.begin()
    (refused,) = world.answered[0].rejected
    assert (refused.idea, refused.reason) == ("small", "not among the candidates")
    assert world.asks_now()


def test_suggestions_of_a_dropped_idea_are_not_waited_for(make: Callable[..., World]) -> None:
    dropping = reply(idea("next", config(tile_n=64, stages=4)), drop=["wide"])
    world = make(WIDE, dropping)
    world.talk.begin()
    world.land(world.fly(1))
    world.search._seeds = {}  # as if the other one had been in flight
    world.search.pool.fresh[:] = False
    assert world.asks_now()
    world.search.pool.fresh[:] = True
    world.heard()
    assert world.answered[1].dropped == ("wide",)
    world.land(world.fly(1))
    assert world.asks_now()


def test_what_a_dropped_idea_did_not_get_another_one_may(make: Callable[..., World]) -> None:
    world = make(WIDE, reply(drop=["wide"]), reply(idea("heir", config(tile_n=64, stages=3))))
    world.talk.begin()
    world.land(world.fly(1))
    assert not world.asks_now()
    world.search.drop(["wide"])
    assert world.asks_now()
    world.heard()
    assert world.asks_now(idle=True)
    world.heard()
    assert [one.id for one in world.answered[2].ideas] == ["heir"]
    assert [(one.source, one.idea) for one in world.fly(1)] == [("llm", "heir")]


# --- how often


def test_rounds_are_limited_over_all_runs_and_that_is_said_once(make: Callable[..., World]) -> None:
    world = make(SMALL, rounds=1)
    world.talk.begin()
    world.land(world.fly(1))
    assert not world.asks_now()
    limit = "the language model was asked 1 time, --llm-rounds allows no more"
    assert world.notes == ["introduced", "round 1: 1 idea with 1 kernel", limit]
    assert not world.asks_now()
    world.study.close()
    again = make(WIDE, rounds=1)
    again.talk.begin()
    assert again.notes == [limit] and again.asked() == 0
    again.study.close()
    more = make(WIDE, rounds=2)
    more.talk.begin()
    assert more.asks_now() and [q.round for q in more.transport.questions] == [2]


def test_two_rounds_without_a_gain_end_it(make: Callable[..., World]) -> None:
    world = make(SMALL, WIDE, OPEN)
    world.land(world.fly(3), speedup=2.0)
    world.talk.begin()
    assert world.asks_now()
    world.heard()
    world.land(world.fly(1))
    assert world.asks_now()
    world.heard()
    world.land(world.fly(2))
    assert not world.asks_now()
    assert world.notes[-1] == f"2 rounds in a row brought nothing: {WITHOUT}"
    assert world.asked() == 2


def test_a_gain_between_two_vain_rounds_counts(make: Callable[..., World]) -> None:
    world = make(SMALL, WIDE, PASSING, OPEN)
    world.land(world.fly(3), speedup=2.0)
    world.talk.begin()
    assert world.asks_now()
    world.heard()
    world.land(world.fly(1))
    assert world.asks_now()
    world.heard()
    world.land(world.fly(2), speedup=2.5)
    assert world.asks_now()
    world.heard()
    assert world.asks_now(idle=True)  # one failure after a gain is one round in vain
    world.heard()
    assert [one.id for one in world.answered[3].ideas] == ["open"]


def test_a_gain_of_the_samplers_own_is_none_of_the_ideas(make: Callable[..., World]) -> None:
    world = make(SMALL, WIDE)
    world.land(world.fly(1))
    world.talk.begin()
    assert world.asks_now()
    world.heard()
    world.land(world.fly(1))
    world.land(world.fly(1), speedup=3.0)
    assert world.asks_now()
    world.heard()
    world.land(world.fly(2))
    assert not world.asks_now()


# --- going on


def test_a_run_that_goes_on_builds_what_was_suggested_before_it_asks_again(
    make: Callable[..., World],
) -> None:
    world = make(WIDE)
    world.talk.begin()
    world.land(world.fly(1))
    world.study.close()
    again = make(SMALL)
    again.talk.begin()
    assert again.notes == ["introduced"] and not again.talk.thinking and not again.asks_now()
    (left,) = again.fly(1)
    assert (left.source, left.idea) == ("llm", "wide")
    again.land([left])
    assert again.asks_now()
    again.heard()
    assert [answered.round for answered in again.answered] == [1, 2]


def test_a_round_that_an_earlier_run_began_is_judged(make: Callable[..., World]) -> None:
    world = make(WIDE)
    world.land(world.fly(3), speedup=2.0)
    world.talk.begin()
    assert world.asks_now()
    world.heard()
    world.land(world.fly(1))
    world.study.close()
    again = make(SMALL)
    again.talk.begin()
    again.land(again.fly(1))
    assert again.asks_now()
    again.heard()
    again.land(again.fly(1))
    assert not again.asks_now()
    assert again.notes[-1] == f"2 rounds in a row brought nothing: {WITHOUT}"


def test_a_question_without_an_answer_is_put_again_by_the_next_run(make: Callable[..., World]) -> None:
    world = make()
    world.talk.begin()
    world.talk.close()
    world.study.close()
    again = make(WIDE)
    again.talk.begin()
    assert [(one.round, one.transport) for one in again.study.ledger.asked] == [(1, "scripted")]


# --- simulated


def only_recorded(world: World, *kernels: KernelConfig) -> None:
    rows = {world.search.pool.row(kernel) for kernel in kernels}
    known = world.search.pool._row_of_knobs
    world.search.pool._row_of_knobs = {knobs: row for knobs, row in known.items() if row in rows}


def test_what_is_not_recorded_is_a_miss_and_told_as_that(make: Callable[..., World]) -> None:
    world = make(WIDE, SMALL, simulated="ignore-all-rules")
    first = world.space.effective(world.space.kernel(tile_n=256, cluster_m=1, stages=3), DEVICE)
    only_recorded(world, first)
    world.talk.begin()
    (missed,) = world.answered[0].rejected
    assert missed.reason == NOT_RECORDED and missed.idea == "wide"
    (event,) = world.study.ledger.failed.values()
    assert (
        event.proposal.kernel.key == missed.what
        and event.failure.reason == "not recorded in ignore-all-rules"
    )
    world.land(world.fly(1))
    assert world.asks_now()
    world.heard()
    prompt = world.study.ledger.asked[1].prompt
    assert f"- wide, tile_n=64 stages=3: {NOT_RECORDED}" in prompt
    assert "Kernels that failed" not in prompt and "ignore-all-rules" not in prompt
    assert "| wide |  | done | 1 | 1.100 |" in prompt


def test_a_miss_that_is_suggested_again_is_told_why(make: Callable[..., World]) -> None:
    again = reply(idea("again", config(tile_n=64, stages=3), config(tile_n=64, stages=4)))
    world = make(WIDE, again, simulated="r")
    only_recorded(world)
    world.talk.begin()
    assert world.asks_now()
    world.heard()
    assert [one.reason for one in world.answered[1].rejected] == [
        f"this kernel is not new: {NOT_RECORDED}", NOT_RECORDED,
    ]  # fmt: skip


def test_misses_count_as_kernels_only_while_kernels_are_left(make: Callable[..., World]) -> None:
    world = make(WIDE, simulated="r")
    only_recorded(world)
    world.left = 1
    world.talk.begin()
    assert len(world.answered[0].rejected) == 2
    assert len(world.study.ledger.failed) == 1
