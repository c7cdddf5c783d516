"""A contest: check every entry, then time all of them in interleaved rounds on one problem."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from cutlass_tuner import statistics
from cutlass_tuner.device import cublaslt, driver, kernel, timing
from cutlass_tuner.device.attention import Attention
from cutlass_tuner.device.card import Card
from cutlass_tuner.device.entrants import AnyWorkload, Entrant, entrant
from cutlass_tuner.device.gemm import Gemm
from cutlass_tuner.device.library import LibraryError
from cutlass_tuner.device.workload import BaselineRefused, Binding, refusal
from cutlass_tuner.records import Evidence, Failure, Problem, Stage
from cutlass_tuner.wire import (
    BaselineEntry,
    Contest,
    ContestResult,
    KernelEntry,
    LibraryEntry,
    Refused,
    Timed,
    TuneBaseline,
    TunedBaseline,
)

MEMORY_SHARE = 0.5
"""Part of the card that prepared problems may keep; the oldest go first."""
FINALISTS = 8
TUNE_NEAR = 1.2
"""A cuBLASLt algorithm this many times slower than the best so far is not timed a second time."""
FINAL_ROUNDS = 16
STEADY_S = 0.4
"""Load before the deciding rounds: which algorithm is best can depend on the power state."""

Entry = KernelEntry | BaselineEntry | LibraryEntry


class ReferenceFailed(Exception):
    """The contest's reference could not be run: nothing can be compared."""


@dataclass
class Contestant:
    """An entrant that was checked, its captured replay and its samples so far."""

    entrant: Entrant
    evidence: Evidence
    bindings: list[Binding]
    replay: timing.Replay
    samples: list[float] = field(default_factory=list)


@dataclass
class Algorithm:
    """One cuBLASLt algorithm that gave a right answer, with its first time and its later samples."""

    choice: bytes
    replay: timing.Replay
    first_us: float = 0.0
    samples: list[float] = field(default_factory=list)


WORKLOADS: dict[str, Callable[..., AnyWorkload]] = {"gemm": Gemm, "attention": Attention}
"""What a request's `workload` names: the class that makes operands, reference and evidence."""


class Arena:
    """Runs contests on one device. Prepared problems and baselines' graphs are kept between them."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.card = Card()
        self._properties = torch.cuda.get_device_properties(0)
        self._prepared: OrderedDict[tuple[object, ...], AnyWorkload] = OrderedDict()
        self._baselines: dict[tuple[object, ...], Contestant] = {}

    # --- problems

    def _problem(self, request: Contest | TuneBaseline, problem: Problem) -> AnyWorkload:
        key = (problem.key, request.tolerance, request.l2, request.seed)
        if key not in self._prepared:
            self._make_room()
            try:
                self._prepared[key] = self._prepare(request, problem)
            except torch.cuda.OutOfMemoryError:
                # What is kept between contests may take half the card: without it there is room.
                self._prepared.clear()
                self._baselines.clear()
                torch.cuda.empty_cache()
                self._prepared[key] = self._prepare(request, problem)
        self._prepared.move_to_end(key)
        return self._prepared[key]

    def _prepare(self, request: Contest | TuneBaseline, problem: Problem) -> AnyWorkload:
        l2_bytes = self._properties.L2_cache_size
        return WORKLOADS[request.workload](problem, request.tolerance, request.l2, l2_bytes, request.seed)

    def _make_room(self) -> None:
        most = MEMORY_SHARE * self._properties.total_memory
        while self._prepared and sum(w.bytes for w in self._prepared.values()) > most:
            _, oldest = self._prepared.popitem(last=False)
            self._baselines = {k: c for k, c in self._baselines.items() if c.entrant.workload is not oldest}
            del oldest
            torch.cuda.empty_cache()

    # --- one contest

    def run(self, request: Contest) -> ContestResult:
        with torch.cuda.stream(self.stream):
            return self._run(request)

    def _run(self, request: Contest) -> ContestResult:
        running: list[Contestant] = []
        refused: dict[str, Refused] = {}
        for position, entry in enumerate(request.entries):
            outcome = self._enter(request, entry)
            if isinstance(outcome, Refused):
                if position == 0:
                    raise ReferenceFailed(f"{outcome.name}: {outcome.failure.reason}")
                refused[entry.name] = outcome
            else:
                outcome.samples = []
                running.append(outcome)
        self._rounds(request, running)
        done = {c.entrant.name: self._timed(request, c) for c in running}
        entries = tuple(done.get(e.name) or refused[e.name] for e in request.entries)
        return ContestResult(entries=entries, card=self.card.state())

    def _enter(self, request: Contest, entry: Entry) -> Contestant | Refused:
        problem = request.problem
        if isinstance(entry, BaselineEntry):
            problem = problem.model_copy(update={"layout": entry.layout})
        try:
            workload = self._problem(request, problem)
            launches = workload.rotation.launches(request.sample_us)
            if isinstance(entry, BaselineEntry):
                key = (id(workload), entry.name, entry.algorithm, launches)
                if key not in self._baselines:
                    self._baselines[key] = self._check(entry, workload, launches, repeat=False)
                return self._baselines[key]
            return self._check(entry, workload, launches, repeat=request.check_after)
        except (kernel.PlanRefused, BaselineRefused) as error:
            return _refused(entry, "plan", str(error))
        except (OSError, ValueError, IndexError, LibraryError, cublaslt.NoAlgorithm) as error:
            return _refused(entry, "load", str(error))
        except driver.DriverError as error:
            if error.fatal:
                raise
            return _refused(entry, "launch", str(error))

    def _check(self, entry: Entry, workload: AnyWorkload, launches: int, repeat: bool) -> Contestant:
        one = entrant(entry, workload, self.stream.cuda_stream)
        bindings = one.bind(workload.sets[:launches], workload.scalar)
        probing = [one.bind([probe.operands], probe.scalar)[0].run for probe in workload.probes]
        evidence = workload.evidence(
            bindings[0].run, probing, repeat and one.deterministic, every_output=one.every_output
        )
        replay = _captured(entry, bindings, launches, workload)
        if launches > 1:  # a single launch is warm from the checks
            replay.replay()
        return Contestant(one, evidence, bindings, replay)

    def _rounds(self, request: Contest, running: list[Contestant]) -> None:
        if not running:
            return
        timing.warm_up(running[0].replay, request.steady_s)
        active = list(running)
        for number in range(request.rounds):
            flush = active[0].entrant.workload.rotation.flush
            times = timing.one_round([c.replay for c in active], flush, number)
            for contestant, microseconds in zip(active, times, strict=True):
                contestant.samples.append(microseconds)
            self.card.sample()
            if number == 0 and request.stop_above > 0:
                worst = request.stop_above * times[0]
                active = [active[0], *(c for c in active[1:] if c.samples[0] <= worst)]
            if len(active) == 1 and len(running) > 1:
                break

    def _timed(self, request: Contest, contestant: Contestant) -> Timed:
        evidence = self._checked_again(contestant) if request.check_after else contestant.evidence
        return Timed(
            name=contestant.entrant.name,
            samples_us=tuple(contestant.samples),
            launches_per_sample=contestant.replay.launches,
            evidence=evidence,
            readback=contestant.entrant.readback,
            workspace_bytes=contestant.entrant.workspace_bytes,
        )

    def _checked_again(self, contestant: Contestant) -> Evidence:
        """The outputs that the timed graph leaves, of the first and of the last operand set it uses."""
        evidence, checked = contestant.evidence, contestant.entrant
        workload, every = checked.workload, checked.every_output
        last = min(contestant.replay.launches, len(workload.sets)) - 1
        workload.poison(0)
        workload.poison(last)
        contestant.replay.replay()
        for index in {0, last}:
            contestant.bindings[index].deliver()
        wrong = workload.out_of_bound(every)
        wrong += workload.out_of_bound_of(last, every) if last > 0 else 0
        guards = max(
            evidence.guard_touched,
            *(workload.guard_touched(index) for index in {0, last}),
            checked.guard_touched(),
        )
        return evidence.model_copy(update={"after_timing_mismatches": wrong, "guard_touched": guards})

    # --- auto-tuned cuBLASLt

    def tune_baseline(self, request: TuneBaseline) -> TunedBaseline:
        with torch.cuda.stream(self.stream):
            return self._tune_baseline(request)

    def _tune_baseline(self, request: TuneBaseline) -> TunedBaseline:
        """Time every offered algorithm, drop the wrong ones, decide among the best in rounds."""
        problem = request.problem
        gemm = self._problem(request, problem)
        if not isinstance(gemm, Gemm):
            raise ReferenceFailed(f"only cuBLASLt's matrix products are tuned, not {request.workload}")
        matmul = cublaslt.LtMatmul(problem, problem.layout, request.workspace_bytes)
        offered = matmul.algorithms(request.limit)
        launches = gemm.rotation.launches(request.sample_us)
        right: list[Algorithm] = []
        for choice in offered:
            algorithm = self._algorithm(matmul, choice, gemm, launches)
            if algorithm is not None:
                (first,) = timing.one_round([algorithm.replay], gemm.rotation.flush)
                if not right or first < TUNE_NEAR * min(a.first_us for a in right):
                    (again,) = timing.one_round([algorithm.replay], gemm.rotation.flush, 1)
                    first = min(first, again)
                algorithm.first_us = first
                right.append(algorithm)
        if not right:
            raise ReferenceFailed(f"none of {len(offered)} cuBLASLt algorithms gives a right answer")
        # The heuristic's own choice is always among them: auto-tuned must not mean worse.
        best = [right[0], *sorted(right[1:], key=lambda a: a.first_us)[:FINALISTS]]
        timing.warm_up(right[0].replay, STEADY_S)
        for number in range(FINAL_ROUNDS):
            times = timing.one_round([a.replay for a in best], gemm.rotation.flush, number)
            for algorithm, microseconds in zip(best, times, strict=True):
                algorithm.samples.append(microseconds)
        winner = statistics.pick({a.choice.hex(): a.samples for a in best})
        assert winner is not None, "every algorithm has its samples"
        return TunedBaseline(
            algorithm=winner,
            tried_us=tuple(a.first_us for a in right),
            workspace_bytes=request.workspace_bytes,
            rejected=len(offered) - len(right),
        )

    def _algorithm(
        self, matmul: cublaslt.LtMatmul, choice: bytes, gemm: Gemm, launches: int
    ) -> Algorithm | None:
        """This algorithm checked and captured, or None where cuBLASLt refuses it or it is wrong."""
        stream = self.stream.cuda_stream
        enqueues = [matmul.bind(operands, choice, 1.0, stream) for operands in gemm.sets[:launches]]
        gemm.poison()
        try:
            enqueues[0]()
            if gemm.out_of_bound():
                return None
            replay = timing.Replay(enqueues, launches, gemm.rotation.guess_us)
        except cublaslt.LtError:
            return None
        replay.replay()
        return Algorithm(choice, replay)


def _captured(entry: Entry, bindings: list[Binding], launches: int, workload: AnyWorkload) -> timing.Replay:
    """The bindings in a CUDA graph. Raises BaselineRefused for a library that cannot be captured."""
    enqueues = [binding.enqueue for binding in bindings]
    try:
        return timing.Replay(enqueues, launches, workload.rotation.guess_us)
    except RuntimeError as error:
        if isinstance(entry, BaselineEntry) and not isinstance(error, torch.cuda.OutOfMemoryError):
            raise refusal(error) from error
        raise


def _refused(entry: Entry, stage: Stage, reason: str) -> Refused:
    return Refused(name=entry.name, failure=Failure(stage=stage, reason=reason))
