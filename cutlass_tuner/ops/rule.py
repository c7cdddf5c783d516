"""A legality rule: a named predicate over columns. Names' reasons and kinds stand in the space file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cutlass_tuner.ops.columns import BoolArray, Columns
from cutlass_tuner.records import DeviceFacts, Problem

Scope = Literal["kernel", "problem", "launch"]
"""What a rule looks at: the kernel alone, kernel and problem, or kernel and launch knobs."""

KernelPredicate = Callable[[Columns, DeviceFacts], BoolArray]
ProblemPredicate = Callable[[Columns, Problem, DeviceFacts], BoolArray]


@dataclass(frozen=True)
class Rule:
    """`broken(columns, problem, device)` marks the rows that break the rule.

    Columns hold effective kernel knobs, and launch knobs too for a rule of scope "launch". A rule
    of scope "problem" must be given a problem; the others do not look at it.
    """

    name: str
    scope: Scope
    broken: Callable[[Columns, Problem | None, DeviceFacts], BoolArray]


def kernel_rule(predicate: KernelPredicate) -> Rule:
    """A rule named after the predicate, about the kernel alone."""
    return Rule(predicate.__name__, "kernel", lambda columns, _, device: predicate(columns, device))


def launch_rule(predicate: KernelPredicate) -> Rule:
    """A rule named after the predicate, about a kernel and its launch knobs."""
    return Rule(predicate.__name__, "launch", lambda columns, _, device: predicate(columns, device))


def problem_rule(predicate: ProblemPredicate) -> Rule:
    """A rule named after the predicate, about a kernel on a problem."""

    def broken(columns: Columns, problem: Problem | None, device: DeviceFacts) -> BoolArray:
        if problem is None:
            raise TypeError(f"rule {predicate.__name__} needs a problem")
        return predicate(columns, problem, device)

    return Rule(predicate.__name__, "problem", broken)
