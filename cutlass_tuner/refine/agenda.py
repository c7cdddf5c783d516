"""Whose turn it is: which idea's part of the space the sampler's next batch is chosen in, or the whole space.

The sampler's batches go to ideas and to the whole space by turns: an idea that is wrong costs at most half of
them, and no longer than until it has lost. Everything follows from the order in which kernels were asked for
and finished, so that a search resumed from its journal goes on as it would have.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from cutlass_tuner.fortunes import PATIENCE, ROUND, SAMPLER, Fortune, Fortunes
from cutlass_tuner.ideas import Fate, Idea
from cutlass_tuner.ops.columns import BoolArray
from cutlass_tuner.records import Proposal
from cutlass_tuner.refine.focus import Focus

FLOOR = 0.01
"""What any idea may still gain on a target, in log units, even where all it expected is reached."""


class Agenda:
    """The ideas of a search. `counts` are the problems' counts by key, whose shares are their weights.

    An idea is live while there are fresh rows in its focus and it is neither lost nor dropped.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        total = sum(counts.values())
        self._weights = {key: count / total for key, count in counts.items()}
        self._focus: dict[str, Focus] = {}
        self._fortunes = Fortunes()
        self._ideas_turn = True

    def __contains__(self, idea: str) -> bool:
        return idea in self._fortunes.of

    def adopt(self, idea: Idea, focus: Focus, refused: Collection[str]) -> None:
        """Take an idea in, with what of it can never come (`Fortune.refused`)."""
        self._fortunes.adopt(idea, refused)
        if self._fortunes.of[idea.id].searches:
            self._focus[idea.id] = focus

    def drop(self, ids: Collection[str]) -> None:
        self._fortunes.drop(ids)

    def asked(self, proposal: Proposal) -> None:
        """A kernel is asked for: by whom decides whose turn is next."""
        self._fortunes.asked(proposal)
        if proposal.source == SAMPLER:
            self._ideas_turn = not proposal.idea

    def withdrawn(self, kernel: str) -> None:
        self._fortunes.withdrawn(kernel)

    def finished(self, kernel: str, log_ratio: Mapping[str, float]) -> None:
        self._fortunes.finished(kernel, log_ratio)

    def turn(self, fresh: BoolArray) -> Focus | None:
        """Where the sampler's next batch is chosen: in the most promising live idea, or None for anywhere."""
        if not self._ideas_turn:
            return None
        live = [idea for idea in self._focus if self._live(idea, fresh)]
        return self._focus[max(live, key=self.due)] if live else None

    def completing(self, ideas: Iterable[str], siblings: BoolArray) -> Focus | None:
        """The first of these ideas that is live among `siblings` (fresh rows), to complete a batch in."""
        return next((self._focus[i] for i in ideas if i in self._focus and self._live(i, siblings)), None)

    def promise(self, idea: Idea) -> float:
        """What an idea promises of the objective, in log units: the sum, over its targets, of the target's
        weight times log(expected / best speed-up so far), where that is positive, plus `FLOOR`."""
        expected, best = math.log(idea.expected), self._fortunes.best
        left = {key: max(0.0, expected + best.get(key, 0.0)) for key in idea.targets}
        return sum(self._weights.get(key, 0.0) * (gain + FLOOR) for key, gain in left.items())

    def due(self, idea: str) -> float:
        """What decides between ideas: what one promises and what its last kernels did gain (log units of the
        objective), over one more than the batches it got.

        A promise unfulfilled after n batches is believed 1 / (n + 1), as by Laplace's rule of succession, and
        ideas of equal promise get equally many batches, also while nothing of them is told yet.
        """
        fortune = self._fortunes.of[idea]
        gained = sum(
            self._weights.get(key, 0.0) * gain for gains in fortune.recent for key, gain in gains.items()
        )
        return (self.promise(fortune.idea) + gained) / (1.0 + fortune.asked / ROUND)

    def _live(self, idea: str, fresh: BoolArray) -> bool:
        return _open(self._fortunes.of[idea]) and bool((self._focus[idea].rows & fresh).any())

    def fate(self, idea: str, fresh: BoolArray) -> Fate:
        """Raises KeyError for an idea that was never adopted."""
        rows = self._focus[idea].rows if idea in self._focus else fresh
        return self._fortunes.fate(idea, exhausted=not (rows & fresh).any())


def _open(fortune: Fortune) -> bool:
    """Not dropped, and not lost even if nothing in flight gains: many compilers would else be kept busy with
    an idea long after it was found to be wrong."""
    return not fortune.dropped and fortune.losses(fortune.in_flight) < PATIENCE
