"""An idea's part of the space as a mask over the rows of a pool.

A study's Optuna distributions never change; a sampler that is given a focus chooses among its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cutlass_tuner.ideas import Condition, Idea
from cutlass_tuner.ops.columns import BoolArray
from cutlass_tuner.records import Scalar
from cutlass_tuner.refine.pool import Pool


@dataclass(frozen=True, eq=False)
class Focus:
    """The `rows` of a pool that an idea (its id) is searched in, and the `problems` (columns) it is after."""

    idea: str
    rows: BoolArray
    problems: BoolArray


def focus(pool: Pool, idea: Idea, problem_keys: Sequence[str]) -> Focus:
    """Rows of the idea's family that serve one of its targets and satisfy all it says, fresh or not.

    `problem_keys` name the columns of the candidates' `serves`. A knob satisfies a condition by its raw or
    by its effective value: where "auto" means 4 stages, the row counts as "auto" and as 4.
    """
    rows = np.ones(len(pool), dtype=np.bool_)
    for _, mask in _restrictions(pool, idea, problem_keys):
        rows &= mask
    return Focus(idea.id, rows, _targets(idea, problem_keys))


def why_empty(pool: Pool, idea: Idea, problem_keys: Sequence[str]) -> str:
    """For a focus without rows: the restrictions, in their order, that together leave nothing."""
    rows = np.ones(len(pool), dtype=np.bool_)
    words = []
    for said, mask in _restrictions(pool, idea, problem_keys):
        rows &= mask
        words.append(said)
        if not rows.any():
            break
    return f"no candidate has all of this: {'; '.join(words)}"


def _targets(idea: Idea, problem_keys: Sequence[str]) -> BoolArray:
    return np.array([key in idea.targets for key in problem_keys], dtype=np.bool_)


def _restrictions(pool: Pool, idea: Idea, problem_keys: Sequence[str]) -> Iterator[tuple[str, BoolArray]]:
    """Everything the idea demands of a row, in words and as a mask over the rows."""
    yield f"family {idea.family}", np.equal(pool.families, idea.family)
    serves = pool.candidates.serves[:, _targets(idea, problem_keys)]
    yield "serves a target", np.logical_or.reduce(serves, axis=1)
    for knob, values in idea.narrowed.items():
        condition = Condition(knob=knob, one_of=values)
        yield _said(condition), _true_of(pool, condition)
    for coupling in idea.couplings:
        mask = ~_true_of(pool, coupling.when) | _true_of(pool, coupling.then)
        yield f"if {_said(coupling.when)} then {_said(coupling.then)}", mask


def _said(condition: Condition) -> str:
    values = (str(value).lower() if isinstance(value, bool) else str(value) for value in condition.one_of)
    return f"{condition.knob} {' or '.join(values)}"


def _true_of(pool: Pool, condition: Condition) -> BoolArray:
    """Rows whose raw or effective value is among those named; none where the space has no such knob."""
    if condition.knob not in pool.values:
        return np.zeros(len(pool), dtype=np.bool_)
    named = {_typed(value) for value in condition.one_of}
    raw = [_typed(value) in named for value in pool.values[condition.knob]]
    values, places = pool.distinct(condition.knob)
    by_effect = np.array([_typed(value) in named for value in values], dtype=np.bool_)[places]
    codes = pool.codes[:, list(pool.values).index(condition.knob)]
    either: BoolArray = np.array(raw, dtype=np.bool_)[codes] | by_effect
    return either


def _typed(value: Scalar) -> tuple[type, Scalar]:
    return type(value), value  # True is not 1
