"""The outer search: which kernels to build next. One Optuna study over kernels, seeds first.

A kernel goes through `next_batch` (an Optuna trial is asked) and `tell` (it is finished). Many
batches may be in flight at once. Not thread-safe: call it from one thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from cutlass_tuner.events import Event, KernelBuilt, KernelFailed, KernelTold
from cutlass_tuner.records import Failure, KernelConfig, Problem, Proposal
from cutlass_tuner.refine import masked
from cutlass_tuner.refine.batch import BatchSampler
from cutlass_tuner.refine.history import LOG_RATIO
from cutlass_tuner.refine.pool import Candidates, Knob, Pool
from cutlass_tuner.refine.portfolio import PortfolioSampler

SamplerName = Literal["portfolio", "tpe", "gp", "random"]
USABLE = "usable"
"""Optuna's constraint: -1 for a kernel that was measured, 1 for one that failed (feasible is <= 0)."""

Outcome = Mapping[str, float] | Failure
"""log(time / reference) by problem key for the problems a kernel has a time on, or why it has none."""


class Search:
    """Proposes kernels of `candidates` until they are used up; nothing is ever proposed twice.

    `siblings(kernel)` is equal for kernels that share template instantiations; every batch is
    siblings. `problems` are in the order of the columns of `candidates.serves` and of `estimate_us`
    (candidates x problems, microseconds by the op's analytic model, or None).
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
        self._seeds: dict[int, Proposal] = {}
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

    def enqueue(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """Put proposals before whatever the sampler thinks of, in their order.

        Repetitions and kernels proposed already are dropped silently. Returns the proposals that
        are not among the candidates (`Space.check` can say why): they never become trials.
        """
        unknown = []
        for proposal in proposals:
            row = self.pool.row(proposal.kernel)
            if row is None:
                unknown.append(proposal)
            elif self.pool.fresh[row]:
                self._seeds.setdefault(row, proposal)
        return unknown

    def next_batch(self, size: int) -> list[Proposal]:
        """Up to `size` siblings to build in one translation unit; [] when nothing is left.

        The first waiting seed opens a batch, other seeds of its group join it, and the sampler
        completes it with further siblings. Without seeds the sampler chooses all.
        """
        if size < 1:
            raise ValueError(f"a batch holds at least 1 kernel, not {size}")
        batch = [self._ask_seed(row) for row in self._seed_rows(size)]
        group = None
        if batch:
            row = self.pool.row(batch[0].kernel)
            assert row is not None
            group = int(self.pool.groups[row])
        self._sampler.begin(self.optuna_study, size - len(batch), group)
        while len(batch) < size and self._sampler.more():
            batch.append(self._ask("sampler"))
        return batch

    def _seed_rows(self, size: int) -> list[int]:
        """The first waiting seed and its siblings among the seeds."""
        groups = self.pool.groups
        first = next(iter(self._seeds), None)
        return [row for row in self._seeds if groups[row] == groups[first]][:size]

    def _ask_seed(self, row: int) -> Proposal:
        proposal = self._seeds.pop(row)
        self.pool.take(row)
        params: dict[str, Any] = dict(self.pool.params(row))
        self.optuna_study.enqueue_trial(params, skip_if_exists=True)
        return self._ask(proposal.source)

    def _ask(self, source: str) -> Proposal:
        trial = self.optuna_study.ask(self.pool.distributions)
        trial.set_user_attr("source", source)
        row = self.pool.row_of_params(trial.params)
        assert row is not None
        self._open[row] = trial
        return Proposal(kernel=self.pool.candidates.kernel(row), source=source)

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
        reason = outcome.reason if isinstance(outcome, Failure) else "no problem has a time"
        trial = self._open.pop(row, None)
        if trial is None:
            if ratios:
                self._add_told(row, {**self._ratios[row], **ratios}, "again")
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

        Those are pending again: screen them and `tell`. Kernels that are no longer candidates and
        ratios on dropped problems are passed over.
        """
        proposals: dict[int, Proposal] = {}
        failures: dict[int, Failure] = {}
        told: dict[int, dict[str, float]] = {}
        for event in events:
            if isinstance(event, KernelBuilt | KernelFailed):
                row = self.pool.row(event.proposal.kernel)
                if row is None:
                    continue
                proposals.setdefault(row, event.proposal)
                if isinstance(event, KernelFailed):
                    failures[row] = event.failure
                else:
                    failures.pop(row, None)
            elif isinstance(event, KernelTold):
                row = self.pool.row(event.kernel)
                if row is not None:
                    known = {k: v for k, v in event.log_ratio.items() if k in self._counts}
                    told[row] = {**told.get(row, {}), **known}
        return self._take_up(proposals, failures, told)

    def _take_up(
        self, proposals: dict[int, Proposal], failures: dict[int, Failure], told: dict[int, dict[str, float]]
    ) -> list[Proposal]:
        unfinished = []
        for row in [*proposals, *(row for row in told if row not in proposals)]:
            self.pool.take(row)
            self._seeds.pop(row, None)
            source = proposals[row].source if row in proposals else "restored"
            if told.get(row):
                self._add_told(row, told[row], source)
            elif row in failures:
                self._add_failed(row, failures[row].reason, source)
            elif row in told:
                self._add_failed(row, "no problem has a time", source)
            else:
                self.optuna_study.enqueue_trial(dict(self.pool.params(row)))
                unfinished.append(self._ask(source))
        return unfinished

    def _add_told(self, row: int, ratios: dict[str, float], source: str) -> None:
        self._ratios[row] = ratios
        attributes = {LOG_RATIO: self._row(ratios), "source": source}
        self.optuna_study.add_trial(self._finished(row, attributes, self._objective(ratios)))

    def _add_failed(self, row: int, reason: str, source: str) -> None:
        self.optuna_study.add_trial(self._finished(row, {"failure": reason, "source": source}, None))

    def _finished(self, row: int, attributes: dict[str, Any], value: float | None) -> FrozenTrial:
        return create_trial(
            state=TrialState.PRUNED if value is None else TrialState.COMPLETE,
            value=value,
            params=dict(self.pool.params(row)),
            distributions=self.pool.distributions,
            user_attrs=attributes,
            constraints={USABLE: 1.0 if value is None else -1.0},
        )
