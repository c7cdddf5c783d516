"""The outer search: which kernels to build next. One Optuna study over kernels, seeds first.

A kernel goes through `next_batch` (an Optuna trial is asked) and `tell` (it is finished). Many
batches may be in flight at once. Ideas put seeds before the others and have every other batch of the
sampler's chosen in a part of the space (`agenda`). Not thread-safe: call it from one thread.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.trial import Trial, TrialState

from cutlass_tuner.events import Answered, Event
from cutlass_tuner.fortunes import NO_SPACE, SAMPLER
from cutlass_tuner.ideas import Fate, Idea, Rejection
from cutlass_tuner.records import Failure, KernelConfig, Problem, Proposal
from cutlass_tuner.refine import masked
from cutlass_tuner.refine.agenda import Agenda
from cutlass_tuner.refine.batch import BatchSampler
from cutlass_tuner.refine.focus import Focus, focus, why_empty
from cutlass_tuner.refine.history import LOG_RATIO
from cutlass_tuner.refine.pool import Candidates, Knob, Pool
from cutlass_tuner.refine.portfolio import PortfolioSampler
from cutlass_tuner.refine.restore import USABLE, Stored, finished_trial, replay, stored

SamplerName = Literal["portfolio", "tpe", "gp", "random"]
NO_TIME = "no problem has a time"

Outcome = Mapping[str, float] | Failure
"""log(time / reference) by problem key for the problems a kernel has a time on, or why it has none."""


class Search:
    """Proposes kernels of `candidates` until they are used up; nothing is ever proposed twice.

    `siblings(kernel)` is equal for kernels that share template instantiations; what the sampler puts into
    a batch is siblings. `problems` are in the order of the columns of `candidates.serves` and of
    `estimate_us` (candidates x problems, microseconds by the op's analytic model, or None).
    """

    def __init__(
        self,
        candidates: Candidates,
        knobs: Sequence[Knob],
        problems: Sequence[Problem],
        siblings: Callable[[KernelConfig], str],
        *,
        sampler: SamplerName = "portfolio",
        seed: int = 0,
        estimate_us: NDArray[np.float64] | None = None,
    ) -> None:
        self.pool = Pool(candidates, knobs, siblings)
        self._counts = {problem.key: problem.count for problem in problems}
        self._sampler = self._make(sampler, seed, estimate_us)
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # else a line on stderr for each trial
        self.optuna_study = optuna.create_study(sampler=self._sampler, direction="minimize")
        self._agenda = Agenda(self._counts)
        self._seeds: dict[tuple[int, str], Proposal] = {}  # by row and idea: a kernel may wait for several
        self._open: dict[int, Trial] = {}
        self._ratios: dict[int, dict[str, float]] = {}

    def _make(self, name: SamplerName, seed: int, estimate_us: NDArray[np.float64] | None) -> BatchSampler:
        if name == "portfolio":
            return PortfolioSampler(self.pool, list(self._counts.values()), estimate_us, seed)
        return {"tpe": masked.tpe, "gp": masked.gp, "random": masked.random}[name](self.pool, seed)

    @property
    def pending(self) -> list[KernelConfig]:
        """Kernels proposed and not told yet, in the order of asking."""
        return [self.pool.candidates.kernel(row) for row in self._open]

    @property
    def _foremost(self) -> dict[int, Proposal]:
        """What waits, by row, in its order. Of a kernel's proposals the foremost counts; those behind it take
        its place when its idea is dropped."""
        foremost: dict[int, Proposal] = {}
        for (row, _), proposal in self._seeds.items():
            foremost.setdefault(row, proposal)
        return foremost

    def _forget(self, row: int) -> None:
        self._seeds = {key: one for key, one in self._seeds.items() if key[0] != row}

    def enqueue(self, proposals: Iterable[Proposal], first: bool = False) -> list[Proposal]:
        """Put proposals before whatever the sampler thinks of, in their order and behind those that wait.

        With `first` they go before those; a kernel that waits already moves up and is then this proposal's,
        until `drop`.
        Repetitions and kernels proposed already are dropped silently. Returns the proposals that
        are not among the candidates (`Space.check` can say why): they never become trials.
        """
        unknown, known = [], dict[tuple[int, str], Proposal]()
        for proposal in proposals:
            row = self.pool.row(proposal.kernel)
            if row is None:
                unknown.append(proposal)
            elif self.pool.fresh[row]:
                known.setdefault((row, proposal.idea), proposal)
        before, behind = (known, self._seeds) if first else (self._seeds, known)
        self._seeds = {**before, **{key: one for key, one in behind.items() if key not in before}}
        return unknown

    def adopt(self, ideas: Sequence[Idea]) -> list[Rejection]:
        """Put the ideas' suggestions before everything that waits, and open their parts of the space.

        The most promising idea's first suggestion comes first, then the next idea's first, and so on in
        turn. Returns what can never come: suggestions that are not among the candidates (`what` is the
        kernel's key), and parts of the space without any candidate. Ideas adopted before are passed over.
        """
        new = [idea for idea in ideas if idea.id not in self._agenda]
        ranked = sorted(new, key=self._agenda.promise, reverse=True)
        turns = itertools.zip_longest(*([(idea.id, s) for s in idea.suggestions] for idea in ranked))
        suggested = [
            Proposal(kernel=one[1].kernel, source="llm", idea=one[0]) for turn in turns for one in turn if one
        ]
        rejections = [
            Rejection(idea=unknown.idea, what=unknown.kernel.key, reason="not among the candidates")
            for unknown in self.enqueue(suggested, first=True)
        ]
        for idea in new:
            rejections += self._open_space(idea, {one.what for one in rejections if one.idea == idea.id})
        return rejections

    def _open_space(self, idea: Idea, refused: set[str]) -> list[Rejection]:
        keys = list(self._counts)
        space = focus(self.pool, idea, keys)
        self._agenda.adopt(idea, space, refused)
        if not idea.searches or space.rows.any():
            return []
        return [Rejection(idea=idea.id, what=NO_SPACE, reason=why_empty(self.pool, idea, keys))]

    def drop(self, ids: Collection[str]) -> None:
        """Give up ideas: their suggestions that still wait, and the search of their parts of the space.

        A kernel that somebody else proposed too still waits, where it was in that proposer's order.
        """
        gone = {one for one in ids if one in self._agenda}
        self._agenda.drop(gone)
        self._seeds = {key: one for key, one in self._seeds.items() if one.idea not in gone}

    def fate(self, idea: str) -> Fate:
        """How an idea stands. Raises KeyError for one that was never adopted."""
        return self._agenda.fate(idea, self.pool.fresh)

    def next_batch(self, size: int) -> list[Proposal]:
        """Up to `size` kernels to build in one translation unit; [] when nothing is left.

        While seeds wait, the sampler picks among them, siblings or not: each was proposed for a reason, and
        a kernel costs measuring as well. The last of them are completed with siblings, at first those in the
        part of the space of their idea. Without seeds the sampler chooses siblings, where the agenda says.
        """
        if size < 1:
            raise ValueError(f"a batch holds at least 1 kernel, not {size}")
        batch = [self._ask_seed(row) for row in self._seed_rows(size)]
        if self._seeds:
            return batch
        if not batch:
            self._choose(batch, size, None, self._agenda.turn(self.pool.fresh))
            return batch
        row = self.pool.row(batch[0].kernel)
        assert row is not None
        group = int(self.pool.groups[row])
        siblings = self.pool.fresh & (self.pool.groups == group)
        space = self._agenda.completing([proposal.idea for proposal in batch], siblings)
        if space is not None:
            self._choose(batch, size, group, space)
        self._choose(batch, size, group, None)
        return batch

    def _choose(self, batch: list[Proposal], size: int, group: int | None, space: Focus | None) -> None:
        """Fill the batch with the sampler's kernels."""
        self._sampler.begin(self.optuna_study, size - len(batch), group, space)
        while len(batch) < size and self._sampler.more():
            batch.append(self._ask(SAMPLER, space.idea if space else ""))

    def _seed_rows(self, size: int) -> list[int]:
        """The seeds that are built next."""
        return self._sampler.pick(self.optuna_study, list(self._foremost), size) if self._seeds else []

    def _ask_seed(self, row: int) -> Proposal:
        proposal = self._foremost[row]
        self._forget(row)
        self.pool.take(row)
        params: dict[str, Any] = dict(self.pool.params(row))
        self.optuna_study.enqueue_trial(params, skip_if_exists=True)
        return self._ask(proposal.source, proposal.idea)

    def _ask(self, source: str, idea: str) -> Proposal:
        trial = self.optuna_study.ask(self.pool.distributions)
        trial.set_user_attr("source", source)
        trial.set_user_attr("idea", idea)
        row = self.pool.row_of_params(trial.params)
        assert row is not None
        self._open[row] = trial
        proposal = Proposal(kernel=self.pool.candidates.kernel(row), source=source, idea=idea)
        self._agenda.asked(proposal)
        return proposal

    def tell(self, kernel: KernelConfig, outcome: Outcome) -> None:
        """Finish a kernel: its log ratios, or the failure that left it without any.

        Optuna's objective is the mean log ratio, weighted by the problems' counts, over the
        problems that have a ratio. Problems the kernel cannot serve, or failed on, are left out
        rather than given a made-up value; the portfolio sampler sees them as gaps. A kernel without
        any ratio counts as failed: infeasible and pruned, no value.

        A kernel told before may be told again, with ratios on further problems (they were added
        to the study since): the union counts.
        """
        row = self.pool.row(kernel)
        if row is None or (row not in self._open and row not in self._ratios):
            raise ValueError(f"{kernel.key} was told but never proposed")
        ratios = {} if isinstance(outcome, Failure) else self._checked(outcome)
        reason = outcome.reason if isinstance(outcome, Failure) else NO_TIME
        if isinstance(outcome, Failure) and not outcome.lasting:
            self._agenda.withdrawn(kernel.key)
        else:
            self._agenda.finished(kernel.key, ratios)
        trial = self._open.pop(row, None)
        if trial is None:
            if ratios:
                self._add_told(row, {**self._ratios[row], **ratios}, "again", "")
        elif ratios:
            self._ratios[row] = ratios
            trial.set_user_attr(LOG_RATIO, self._row(ratios))
            trial.set_constraint(USABLE, -1.0)
            self.optuna_study.tell(trial, self._objective(ratios))
        else:
            trial.set_user_attr("failure", reason)
            trial.set_constraint(USABLE, 1.0)
            self.optuna_study.tell(trial, state=TrialState.PRUNED)

    def _checked(self, ratios: Mapping[str, float]) -> dict[str, float]:
        for key, value in ratios.items():
            if key not in self._counts:
                raise ValueError(f"problem {key} is not one of this search")
            if not math.isfinite(value):
                raise ValueError(f"log ratio {value} on {key} is no measurement")
        return dict(ratios)

    def _objective(self, ratios: Mapping[str, float]) -> float:
        counts = {key: self._counts[key] for key in ratios}
        return sum(counts[key] * ratios[key] for key in ratios) / sum(counts.values())

    def _row(self, ratios: Mapping[str, float]) -> list[float | None]:
        return [ratios.get(key) for key in self._counts]

    def restore(self, events: Iterable[Event]) -> list[Proposal]:
        """Take up a stored study, before anything is asked. Returns kernels built but never told.

        Those are pending again: screen them and `tell`. Ideas are adopted and dropped as they were, so that
        their suggestions wait again where they had not come. Kernels that are no longer candidates and
        ratios on dropped problems are passed over.
        """
        events = list(events)
        replay(events, self._agenda, self._counts, self._answered)
        return self._take_up(stored(events, self.pool, self._counts))

    def _answered(self, answered: Answered) -> None:
        self.adopt(answered.ideas)
        self.drop(answered.dropped)

    def _take_up(self, found: Stored) -> list[Proposal]:
        unfinished = []
        for row in found.rows:
            self.pool.take(row)
            self._forget(row)
            proposal = found.proposals.get(row)
            source, idea = (proposal.source, proposal.idea) if proposal else ("restored", "")
            if found.told.get(row):
                self._add_told(row, found.told[row], source, idea)
            elif row in found.failures or row in found.told:
                reason = found.failures[row].reason if row in found.failures else NO_TIME
                attributes = {"failure": reason, "source": source, "idea": idea}
                self.optuna_study.add_trial(finished_trial(self.pool, row, attributes, None))
            else:
                self.optuna_study.enqueue_trial(dict(self.pool.params(row)))
                unfinished.append(self._ask(source, idea))
        return unfinished

    def _add_told(self, row: int, ratios: dict[str, float], source: str, idea: str) -> None:
        self._ratios[row] = ratios
        attributes = {LOG_RATIO: self._row(ratios), "source": source, "idea": idea}
        self.optuna_study.add_trial(finished_trial(self.pool, row, attributes, self._objective(ratios)))
