"""Taking up a stored search: its events as Optuna's trials, and as the agenda saw them happen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optuna.trial import FrozenTrial, TrialState, create_trial

from cutlass_tuner.events import Answered, Event, KernelBuilt, KernelFailed, KernelTold
from cutlass_tuner.records import Failure, Proposal
from cutlass_tuner.refine.agenda import Agenda
from cutlass_tuner.refine.pool import Pool

USABLE = "usable"
"""Optuna's constraint: -1 for a kernel that was measured, 1 for one that failed (feasible is <= 0)."""


@dataclass
class Stored:
    """What a journal says of each row of the pool, each in the order of the journal."""

    proposals: dict[int, Proposal] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    told: dict[int, dict[str, float]] = field(default_factory=dict)

    @property
    def rows(self) -> list[int]:
        return [*self.proposals, *(row for row in self.told if row not in self.proposals)]


def stored(events: Iterable[Event], pool: Pool, problems: Collection[str]) -> Stored:
    """Kernels that are no longer candidates, and ratios on problems not among `problems`, are left out."""
    found = Stored()
    for event in events:
        if isinstance(event, KernelBuilt | KernelFailed):
            row = pool.row(event.proposal.kernel)
            if row is None:
                continue
            found.proposals.setdefault(row, event.proposal)
            if isinstance(event, KernelFailed):
                found.failures[row] = event.failure
            else:
                found.failures.pop(row, None)
        elif isinstance(event, KernelTold):
            row = pool.row(event.kernel)
            if row is not None:
                found.told[row] = {**found.told.get(row, {}), **_known(event.log_ratio, problems)}
    return found


def replay(
    events: Iterable[Event],
    agenda: Agenda,
    problems: Collection[str],
    answered: Callable[[Answered], None],
) -> None:
    """Let the agenda see everything again, in order; `answered` adopts and drops what an answer says."""
    for event in events:
        if isinstance(event, Answered):
            answered(event)
        elif isinstance(event, KernelBuilt):
            agenda.asked(event.proposal)
        elif isinstance(event, KernelFailed):
            agenda.asked(event.proposal)
            agenda.finished(event.proposal.kernel.key, {})
        elif isinstance(event, KernelTold):
            agenda.finished(event.kernel.key, _known(event.log_ratio, problems))


def _known(log_ratio: Mapping[str, float], problems: Collection[str]) -> dict[str, float]:
    return {key: value for key, value in log_ratio.items() if key in problems}


def finished_trial(pool: Pool, row: int, attributes: dict[str, Any], value: float | None) -> FrozenTrial:
    """The trial of a row that was told its objective, or failed (None)."""
    return create_trial(
        state=TrialState.PRUNED if value is None else TrialState.COMPLETE,
        value=value,
        params=dict(pool.params(row)),
        distributions=pool.distributions,
        user_attrs=attributes,
        constraints={USABLE: 1.0 if value is None else -1.0},
    )
