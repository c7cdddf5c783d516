"""The arms of the lab, and one run of one: the search as `tune` does it, with a record for a device.

One compiler: a batch is told before the next is chosen, so that nothing is pending while the sampler thinks.
A tune on 16 cores has up to 18 batches in flight, and learns that much later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cutlass_tuner.compare.regret import MISS, Run, best_so_far, regret
from cutlass_tuner.emit.emitter import Emitter
from cutlass_tuner.fortunes import SAMPLER
from cutlass_tuner.ideas import Idea
from cutlass_tuner.ops.columns import FloatArray
from cutlass_tuner.options import SamplerName
from cutlass_tuner.pipeline.lab_data import Recorded
from cutlass_tuner.pipeline.searching import BATCH, FIRST_BATCH
from cutlass_tuner.records import Failure, KernelConfig, Proposal
from cutlass_tuner.refine.batch import one_thread
from cutlass_tuner.refine.search import Search
from cutlass_tuner.space.knobs import Knob

LLM, HEURISTICS, NVMMH = "llm", "heuristics", "nvmmh"
NOT_BUILT = Failure(stage="build", reason="recorded as not built")


@dataclass(frozen=True)
class Arm:
    """A way to search: who proposes the first kernels, in this order, and what chooses the others."""

    proposers: tuple[str, ...]
    sampler: SamplerName

    @property
    def name(self) -> str:
        return "+".join((*self.proposers, self.sampler))

    @property
    def asks_llm(self) -> bool:
        return LLM in self.proposers


_ARMS = (
    Arm((LLM,), "portfolio"),
    Arm((LLM,), "tpe"),
    Arm((LLM,), "gp"),
    Arm((LLM,), "random"),
    Arm((LLM, HEURISTICS), "portfolio"),
    Arm((HEURISTICS,), "portfolio"),
    Arm((NVMMH,), "portfolio"),
    Arm((), "portfolio"),
    Arm((), "tpe"),
    Arm((), "gp"),
    Arm((), "random"),
)
ARMS: Mapping[str, Arm] = {one.name: one for one in _ARMS}
DEFAULT = "heuristics+portfolio"
"""What `tune` does without a language model."""


@dataclass(frozen=True)
class Round:
    """What one reply of a language model comes to: ideas to take up and ids of ideas it gives up."""

    ideas: tuple[Idea, ...]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lab:
    """All that runs share. `starts` are the kernels of each proposer but the language model, best first;
    `replies` one sequence of rounds a set: run number s uses set s modulo their number.
    """

    recorded: Recorded
    knobs: tuple[Knob, ...]
    emitter: Emitter
    estimate_us: FloatArray
    starts: Mapping[str, tuple[Proposal, ...]]
    replies: tuple[tuple[Round, ...], ...]
    builds: int


@dataclass
class _Wish:
    """Kernels that a proposer wants built: those `waiting` are recorded, those `missing` are not.

    Misses are built between the others, evenly spread: in which order a search takes suggestions up is its
    own affair.
    """

    source: str
    waiting: set[str]
    missing: list[str]
    done: int = 0

    def __post_init__(self) -> None:
        self._of, self._misses = len(self.waiting), len(self.missing)

    def built(self, key: str) -> list[str]:
        """A kernel is being built, maybe one that waits here. The misses that are due then."""
        if key not in self.waiting:
            return []
        self.waiting.remove(key)
        self.done += 1
        return self._take(self._misses * self.done // self._of)

    def over(self) -> list[str]:
        """Nothing waits any more. The misses that are left."""
        self.waiting.clear()
        return self._take(self._misses)

    def _take(self, due: int) -> list[str]:
        count = due - (self._misses - len(self.missing))
        taken, self.missing = self.missing[:count], self.missing[count:]
        return taken


class Replay:
    """One run of an arm with one seed."""

    def __init__(self, lab: Lab, arm: Arm, seed: int) -> None:
        self.lab, self.arm, self.seed = lab, arm, seed
        recorded = lab.recorded
        self.search = Search(
            recorded.candidates,
            lab.knobs,
            recorded.problems,
            lab.emitter.batch_key,
            sampler=arm.sampler,
            seed=seed,
            estimate_us=lab.estimate_us,
        )
        self._told = recorded.told(seed)
        self._row = {recorded.candidates.kernel(row).key: row for row in range(len(recorded))}
        self._wishes: list[_Wish] = []
        self._rounds = list(lab.replies[seed % len(lab.replies)]) if arm.asks_llm else []
        self._built: dict[str, tuple[int, str]] = {}

    def run(self) -> Run:
        self._listen()
        for proposer in self.arm.proposers:
            if proposer != LLM:
                self._start(proposer)
        size = FIRST_BATCH
        while (left := self.lab.builds - len(self._built)) > 0:
            batch = self.search.next_batch(min(size, left))
            if not batch:
                break
            if batch[0].source == SAMPLER:  # which opens a batch only where no suggestion waits
                for wish in self._wishes:
                    self._miss(wish.source, wish.over())
            for proposal in batch:
                self._build(proposal)
            self._listen()
            size = BATCH
        return self._result()

    def _start(self, proposer: str) -> None:
        proposals = self.lab.starts[proposer]
        self._wish(proposer, [proposal.kernel for proposal in proposals])
        self.search.enqueue(p for p in proposals if p.kernel.key in self._row)

    def _wish(self, source: str, kernels: Iterable[KernelConfig]) -> None:
        keys = [key for key in dict.fromkeys(k.key for k in kernels) if key not in self._built]
        wish = _Wish(source, {k for k in keys if k in self._row}, [k for k in keys if k not in self._row])
        self._wishes.append(wish)
        if not wish.waiting:
            self._miss(source, wish.over())

    def _listen(self) -> None:
        """Read the next reply once every suggestion of the last one is told."""
        while self._rounds and not any(wish.waiting for wish in self._wishes if wish.source == LLM):
            reply = self._rounds.pop(0)
            self._wish(LLM, (s.kernel for idea in reply.ideas for s in idea.suggestions))
            self.search.adopt(reply.ideas)
            self.search.drop(reply.dropped)

    def _build(self, proposal: Proposal) -> None:
        key, recorded = proposal.kernel.key, self.lab.recorded
        for wish in self._wishes:
            self._miss(wish.source, wish.built(key))
        row = self._row[key]
        self._built[key] = (row, proposal.source)
        self.search.tell(proposal.kernel, NOT_BUILT if recorded.failed[row] else self._ratios(row))

    def _ratios(self, row: int) -> dict[str, float]:
        pairs = zip(self.lab.recorded.problems, self._told[row].tolist(), strict=True)
        return {problem.key: value for problem, value in pairs if not math.isnan(value)}

    def _miss(self, source: str, keys: Iterable[str]) -> None:
        """Kernels that are built for nothing, as far as the record tells."""
        for key in keys:
            self._built.setdefault(key, (MISS, source))

    def _result(self) -> Run:
        built = list(self._built.values())[: self.lab.builds]
        rows = [row for row, _ in built]
        recorded = self.lab.recorded
        best = best_so_far(recorded.log_ratio, rows)
        compile_s, device_s = recorded.typical_s
        costs = np.vstack([np.stack([recorded.compile_s, recorded.device_s], axis=1), [compile_s, device_s]])
        spent = np.cumsum(np.vstack([np.zeros((1, 2)), costs[rows]]), axis=0)
        return Run(
            arm=self.arm.name,
            seed=self.seed,
            rows=tuple(rows),
            sources=tuple(source for _, source in built),
            regret=_rounded(regret(best, recorded.known, recorded.counts)),
            compile_s=_rounded(spent[:, 0]),
            device_s=_rounded(spent[:, 1]),
        )


def _rounded(values: FloatArray) -> tuple[float, ...]:
    """Six digits behind the point, which is what the report's figures and the file of curves keep."""
    return tuple(np.round(values, 6).tolist())


def replay(lab: Lab, arm: str, seed: int) -> Run:
    """One run, on one thread of BLAS: the runs are spread over the cores."""
    with one_thread():
        return Replay(lab, ARMS[arm], seed).run()
