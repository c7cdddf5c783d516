"""How ideas fare while a search goes on: what their kernels gained, and when an idea has lost.

These rules need nothing but what a journal holds, so that a running search, a resumed one and whoever reads
the study say the same. A journal does not say which kernels were one batch: rounds are counted in kernels.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cutlass_tuner.ideas import Fate, Idea
from cutlass_tuner.records import Proposal
from cutlass_tuner.statistics import TIE

SAMPLER = "sampler"
"""Source of the kernels that a sampler chose; those of an idea it chose in the idea's part of the space."""

ROUND = 5
"""As many kernels of the sampler's are one round of an idea: a full batch."""

PATIENCE = 2
"""After as many rounds in a row without a gain an idea is lost. Its suggestions are its first round."""

GAIN = math.log1p(TIE)
"""A gain, in log units of time: less is a tie."""

NO_SPACE = "allow"
"""What a `Rejection` of an idea's part of the space names."""


@dataclass
class Fortune:
    """One idea's. `refused` names suggestions that can never come, and NO_SPACE if there is none to search.

    `suggested` and `sampled` count kernels that are finished (told or failed); `asked` counts the sampler's,
    finished or not, `fruitless` those of `sampled` since the last gain. `recent` is what each of the last
    `ROUND` kernels gained on the targets, in log units by problem key.
    """

    idea: Idea
    refused: frozenset[str] = frozenset()
    dropped: bool = False
    suggested: int = 0
    asked: int = 0
    sampled: int = 0
    fruitless: int = 0
    gained: bool = False
    recent: deque[dict[str, float]] = field(default_factory=lambda: deque(maxlen=ROUND))

    @property
    def searches(self) -> bool:
        """Does it open a part of the space in which there is anything?"""
        return self.idea.searches and NO_SPACE not in self.refused

    @property
    def in_flight(self) -> int:
        """The sampler's kernels that were asked for and are not finished."""
        return self.asked - self.sampled

    def losses(self, more: int = 0) -> int:
        """Rounds in a row without a gain, if `more` kernels of the sampler's gained nothing either."""
        opening = self.suggested > 0 and not self.gained
        return int(opening) + (self.fruitless + more) // ROUND

    @property
    def lost(self) -> bool:
        return self.losses() >= PATIENCE


class Fortunes:
    """All ideas', in the order of adoption (`of`), and the least log(time / torch) by problem key (`best`).

    Each kernel counts once: say it is `asked` for, then that it is `finished`, in the order of the journal.
    """

    def __init__(self) -> None:
        self.of: dict[str, Fortune] = {}
        self.best: dict[str, float] = {}
        self._proposals: dict[str, Proposal] = {}
        self._finished = set[str]()

    def adopt(self, idea: Idea, refused: Collection[str] = ()) -> None:
        self.of[idea.id] = Fortune(idea, frozenset(refused))

    def drop(self, ids: Collection[str]) -> None:
        """Ids of no idea are passed over."""
        for one in ids:
            if one in self.of:
                self.of[one].dropped = True

    def asked(self, proposal: Proposal) -> None:
        """A kernel is asked for; the first proposal of a kernel stands."""
        fortune = self.of.get(proposal.idea)
        if fortune is not None and proposal.source == SAMPLER and proposal.kernel.key not in self._proposals:
            fortune.asked += 1
        self._proposals.setdefault(proposal.kernel.key, proposal)

    def withdrawn(self, kernel: str) -> None:
        """The machine failed on a kernel (its key): it is as good as never asked for."""
        proposal = self._proposals.get(kernel)
        if proposal is None or kernel in self._finished:
            return
        del self._proposals[kernel]
        if proposal.idea in self.of and proposal.source == SAMPLER:
            self.of[proposal.idea].asked -= 1

    def finished(self, kernel: str, log_ratio: Mapping[str, float]) -> None:
        """A kernel's log(time / torch) by problem key; {} for one that failed.

        Told again, say on problems added since, a kernel counts as another best, not as another kernel.
        """
        proposal = self._proposals.get(kernel)
        fortune = self.of.get(proposal.idea) if proposal is not None else None
        if proposal is not None and fortune is not None and kernel not in self._finished:
            self._credit(fortune, proposal.source, log_ratio)
        self._finished.add(kernel)
        for problem, value in log_ratio.items():
            self.best[problem] = min(value, self.best.get(problem, math.inf))

    def _credit(self, fortune: Fortune, source: str, log_ratio: Mapping[str, float]) -> None:
        """Count a kernel and what it gained. A target's first time is a gain, of what it beats torch by."""
        on_targets = {key: log_ratio[key] for key in fortune.idea.targets if key in log_ratio}
        gains = {key: max(0.0, self.best.get(key, 0.0) - value) for key, value in on_targets.items()}
        gained = any(gain > GAIN or key not in self.best for key, gain in gains.items())
        fortune.recent.append(gains)
        fortune.gained |= gained
        if source == SAMPLER:
            fortune.sampled += 1
            fortune.fruitless += 1
        else:
            fortune.suggested += 1
        if gained:
            fortune.fruitless = 0

    def fate(self, idea: str, exhausted: bool = False) -> Fate:
        """`exhausted`: no kernel of its part of the space is left to build, which only the search knows."""
        fortune = self.of[idea]
        if fortune.dropped:
            return "dropped"
        if fortune.lost:
            return "done" if fortune.gained else "lost"
        searching = fortune.searches and not exhausted
        suggestions = {one.kernel.key for one in fortune.idea.suggestions} - fortune.refused
        if searching and fortune.suggested + fortune.sampled > 0:
            return "searching"
        return "waiting" if searching or suggestions - self._finished else "done"
