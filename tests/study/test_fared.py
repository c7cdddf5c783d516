"""How ideas fared, read off a study's events alone."""

from __future__ import annotations

import math

import pytest

from cutlass_tuner.events import Answered, Event, KernelBuilt
from cutlass_tuner.fortunes import NO_SPACE, ROUND
from cutlass_tuner.ideas import Answer, Idea, Rejection, Suggestion
from cutlass_tuner.records import Proposal
from cutlass_tuner.study import Ledger
from cutlass_tuner.study.fared import fared
from study.events import P1, P2, P3, build_failed, built, kernel, measured, told


def idea(name: str, *suggestions: int, searches: bool = False) -> Idea:
    return Idea(
        id=name, hypothesis="h", bottleneck="wave", targets=(P1.key, P2.key), expected=1.1, family="tma_ws",
        suggestions=tuple(Suggestion(kernel=kernel(tile)) for tile in suggestions),
        narrowed={"tile_m": (1,)} if searches else {},
    )  # fmt: skip


def answered(*ideas: Idea, dropped: tuple[str, ...] = (), rejected: tuple[Rejection, ...] = ()) -> Answered:
    return Answered(
        round=1,
        transport="replay",
        answer=Answer(),
        ideas=ideas,
        dropped=dropped,
        rejected=rejected,
        at_s=0.0,
    )


def of(name: str, event: KernelBuilt, source: str = "llm") -> KernelBuilt:
    proposal = Proposal(kernel=event.proposal.kernel, source=source, idea=name)
    return event.model_copy(update={"proposal": proposal})


def ledger(*events: Event) -> Ledger:
    found = Ledger()
    for event in events:
        found.absorb(event)
    return found


def test_a_study_without_ideas_has_none() -> None:
    assert fared(ledger(built(), told(p=0.1))) == []


def test_speedups_leads_and_what_was_achieved() -> None:
    (a, b) = fared(
        ledger(
            answered(idea("a", 64, 128, 256), idea("b", 32)),
            of("a", built(64)),
            measured(64, us=(8.0,) * 3),
            measured(64, swizzle=2, us=(5.0,) * 3, passed=False),  # wrong: it does not count
            measured(64, us=(20.0,) * 3, on=P2),
            of("a", built(128)),
            measured(128, us=(40.0,) * 3, on=P2),
            measured(128, us=(5.0,) * 3, on=P3),
            of("b", built(32)),
            measured(32, us=(10.0,) * 3, on=P2),
        )
    )
    assert (a.idea.id, a.built, a.failed) == ("a", 2, 0)
    assert a.speedup == pytest.approx({P1.key: 1.25, P2.key: 0.5})
    assert a.achieved == pytest.approx(math.sqrt(1.25 * 0.5))
    assert a.leads == (P1.key, P3.key)  # P3 is no target of its
    assert (b.speedup, b.achieved, b.leads) == ({P2.key: 1.0}, None, (P2.key,))


def test_failures_are_counted_and_end_the_waiting() -> None:
    failure = build_failed(64)
    failure = failure.model_copy(update={"proposal": of("a", built(64)).proposal})
    (a,) = fared(ledger(answered(idea("a", 64)), failure))
    assert (a.built, a.failed, a.fate, a.achieved) == (0, 1, "done", None)


def test_fates() -> None:
    events: list[Event] = [answered(idea("a", 64, 128), idea("b", 256, searches=True), idea("c", 32))]
    assert {one.fate for one in fared(ledger(*events))} == {"waiting"}
    events += [of("a", built(64)), told(64), of("b", built(256)), told(256), of("c", built(32)), told(32)]
    assert [one.fate for one in fared(ledger(*events))] == ["waiting", "searching", "done"]
    events += [of("a", built(128)), told(128)]
    assert [one.fate for one in fared(ledger(*events))] == ["done", "searching", "done"]
    events += [answered(dropped=("b",))]
    assert [one.fate for one in fared(ledger(*events))] == ["done", "dropped", "done"]


def test_lost_is_judged_in_the_order_of_the_journal() -> None:
    """Kernels of one time, built in any order: only the first told of them was a gain."""
    tiles = [1000 + number for number in range(2 * ROUND + 1)]
    asked = [of("a", built(tile), "sampler") for tile in reversed(tiles)]
    rounds = [told(tile, at_s=float(tile), **{P1.key: -0.1}) for tile in tiles]
    found = ledger(answered(idea("a", searches=True)), *asked, *rounds[:-1])
    assert [one.fate for one in fared(found)] == ["searching"]
    found.absorb(rounds[-1])
    assert [one.fate for one in fared(found)] == ["done"]
    gain = told(1, at_s=2000.0, **{P2.key: -0.1})
    for event in (of("a", built(1), "sampler"), gain):
        found.absorb(event)
    assert [one.fate for one in fared(found)] == ["searching"]


def test_failures_stand_among_the_others_in_the_order_of_the_journal() -> None:
    failed = [
        build_failed(tile, at_s=float(tile)).model_copy(
            update={"proposal": of("a", built(tile), "sampler").proposal}
        )
        for tile in range(1, 2 * ROUND)
    ]
    gain = told(500, at_s=500.0, **{P2.key: -0.1})
    again = [of("a", built(501), "sampler"), told(501, at_s=501.0, **{P2.key: 0.1})]
    stated = answered(idea("a", searches=True))
    found = ledger(stated, *failed, of("a", built(500), "sampler"), gain, *again)
    assert [one.fate for one in fared(found)] == ["searching"]
    found = ledger(stated, *failed, *again, of("b", built(502)), told(502, at_s=0.0, **{P2.key: -0.5}))
    assert [one.fate for one in fared(found)] == ["lost"]


def test_what_was_refused_is_not_waited_for() -> None:
    stated = idea("a", 64, 128, searches=True)
    refused = (
        Rejection(idea="a", what=kernel(128).key, reason="not among the candidates"),
        Rejection(idea="a", what=NO_SPACE, reason="empty"),
        Rejection(idea="b", what=kernel(64).key, reason="not this idea's"),
    )
    events: list[Event] = [answered(stated, rejected=refused)]
    assert [one.fate for one in fared(ledger(*events))] == ["waiting"]
    events += [of("a", built(64)), told(64)]
    assert [one.fate for one in fared(ledger(*events))] == ["done"]
