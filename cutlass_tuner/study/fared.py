"""How each idea fared, from a study's events alone: what `show` prints and a proposer gets to read."""

from __future__ import annotations

import math

from cutlass_tuner.events import KernelFailed, KernelTold
from cutlass_tuner.fortunes import Fortunes
from cutlass_tuner.ideas import Fared, Idea
from cutlass_tuner.study.ledger import Best, Ledger


def fared(ledger: Ledger) -> list[Fared]:
    """All ideas of a study, in the order of their answers.

    A kernel belongs to the idea it was first proposed for. That nothing is left to build in an idea's part of
    the space is not among the events: such an idea is "searching" here and "done" for `Search.fate`.
    """
    fortunes = _replayed(ledger)
    rankings = {problem: ledger.ranking(problem) for problem in ledger.measured}
    return [_fared(ledger, fortunes, rankings, fortune.idea) for fortune in fortunes.of.values()]


def _replayed(ledger: Ledger) -> Fortunes:
    fortunes = Fortunes()
    for answered in ledger.answered:
        for idea in answered.ideas:
            fortunes.adopt(idea, {one.what for one in answered.rejected if one.idea == idea.id})
        fortunes.drop(answered.dropped)
    for proposal in ledger.proposals.values():
        fortunes.asked(proposal)
    finished: list[KernelTold | KernelFailed] = [*ledger.told.values(), *ledger.failed.values()]
    for event in sorted(finished, key=lambda event: event.at_s):
        if isinstance(event, KernelTold):
            fortunes.finished(event.kernel.key, event.log_ratio)
        else:
            fortunes.finished(event.proposal.kernel.key, {})
    return fortunes


def _fared(ledger: Ledger, fortunes: Fortunes, rankings: dict[str, list[Best]], idea: Idea) -> Fared:
    mine = {key for key, proposal in ledger.proposals.items() if proposal.idea == idea.id}
    fastest = {
        problem: next((best.speedup for best in ranking if best.measurement.kernel.key in mine), None)
        for problem, ranking in rankings.items()
        if problem in idea.targets
    }
    speedup = {key: value for key in idea.targets if (value := fastest.get(key)) is not None}
    logs = [math.log(value) for value in speedup.values()]
    return Fared(
        idea=idea,
        fate=fortunes.fate(idea.id),
        built=len(mine & ledger.builds.keys()),
        failed=len(mine & ledger.failed.keys()),
        speedup=speedup,
        leads=tuple(
            p for p, ranking in rankings.items() if ranking and ranking[0].measurement.kernel.key in mine
        ),
        achieved=math.exp(sum(logs) / len(logs)) if len(logs) == len(idea.targets) else None,
    )
