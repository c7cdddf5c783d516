"""Ideas about the synthetic world, short to write in tests."""

from __future__ import annotations

from collections.abc import Iterable

from cutlass_tuner.events import Answered
from cutlass_tuner.ideas import Answer, Condition, Coupling, Idea, Suggestion
from cutlass_tuner.records import KernelConfig, Scalar


def idea(
    name: str,
    targets: Iterable[str],
    *,
    suggestions: Iterable[KernelConfig] = (),
    expected: float = 1.2,
    family: str = "sm90",
    couplings: tuple[Coupling, ...] = (),
    **narrowed: tuple[Scalar, ...],
) -> Idea:
    return Idea(
        id=name,
        hypothesis="because",
        bottleneck="wave",
        targets=tuple(targets),
        expected=expected,
        family=family,
        suggestions=tuple(Suggestion(kernel=kernel) for kernel in suggestions),
        narrowed=dict(narrowed),
        couplings=couplings,
    )


def coupling(when: tuple[str, tuple[Scalar, ...]], then: tuple[str, tuple[Scalar, ...]]) -> Coupling:
    return Coupling(
        when=Condition(knob=when[0], one_of=when[1]), then=Condition(knob=then[0], one_of=then[1])
    )


def answered(*ideas: Idea, dropped: tuple[str, ...] = (), at_s: float = 0.0) -> Answered:
    return Answered(round=1, transport="replay", answer=Answer(), ideas=ideas, dropped=dropped, at_s=at_s)
