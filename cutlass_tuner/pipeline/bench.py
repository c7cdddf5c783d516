"""The measuring side of the pipeline: contests asked of the child, answers judged and recorded."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.measure.child import visible
from cutlass_tuner.measure.recorded import RecordedDevice
from cutlass_tuner.measure.worker import Worker
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.records import (
    Build,
    Config,
    Evidence,
    Failure,
    KernelConfig,
    L2Mode,
    LaunchConfig,
    Measurement,
    Problem,
)
from cutlass_tuner.results import TORCH
from cutlass_tuner.statistics import MANY_ROUNDS, disturbed
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.verify.tolerance import tolerance
from cutlass_tuner.wire import (
    BaselineEntry,
    Broken,
    Contest,
    ContestResult,
    Describe,
    Described,
    Entry,
    KernelEntry,
    Refused,
    Reply,
    Request,
    Timed,
    TuneBaseline,
    TunedBaseline,
)

CHILD = [sys.executable, "-m", "cutlass_tuner.device"]
"""The measuring child's command."""

SCREEN_ROUNDS = 3
SCREEN_SAMPLE_US = 200.0
LARGE_FLOPS = 1e12
LARGE_SCREEN_ROUNDS = 2
"""A launch of over a millisecond needs no repetition to be timed, and there is no time for it."""

ANSWER_S = 30.0
"""How long a contest of small problems may take before the child counts as hung."""
GUILTY_LAUNCHES = 2
"""Each guilty launch costs a deadline and a new child; two of them speak for the kernel."""
FLOPS_PER_S = 1e14
"""A pessimistic rate, to give large problems a longer deadline."""


class Bench:
    """One GPU, seen through one child process. A context manager: leaving it ends the child.

    With `replay` that answers instead: there is no child, and `gpu` and `log` do not matter.
    """

    def __init__(
        self, op: Op, l2: L2Mode, gpu: int, log: Path, seed: int = 0, *, replay: RecordedDevice | None = None
    ) -> None:
        self.op, self.l2, self.seed = op, l2, seed
        self._tolerance = tolerance(op.contract)
        self._replay = replay
        self._worker: Worker | RecordedDevice = replay or _child(gpu, log)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()

    def describe(self) -> Described:
        """The device. Raises UserError where there is none."""
        reply = self._worker.ask(Describe(), 120.0)
        if isinstance(reply, Described):
            return reply
        failure = reply.failure if isinstance(reply, Broken) else reply
        reason = failure.reason if isinstance(failure, Failure) else "an unexpected answer"
        raise UserError(
            f"no GPU to measure on ({reason}); `cutlass-tuner doctor` says what is missing, "
            "`cutlass-tuner build` compiles without one"
        )

    @property
    def simulated(self) -> bool:
        """Does a recording stand in for the GPU?"""
        return self._replay is not None

    def offered(
        self, kernel: KernelConfig, problem: Problem, launches: Sequence[LaunchConfig]
    ) -> Sequence[LaunchConfig]:
        """Those of a kernel's launches that can be timed: all of them, unless a recording says which."""
        return launches if self._replay is None else self._replay.offered(kernel, problem, launches)

    # --- contests

    def contest(
        self,
        problem: Problem,
        entries: Sequence[Entry],
        rounds: int,
        *,
        sample_us: float = SCREEN_SAMPLE_US,
        stop_above: float = 0.0,
        steady_s: float = 0.0,
        check_after: bool = False,
        seed: int | None = None,
    ) -> ContestResult | Failure:
        """Interleaved samples of all entries; the first is the reference. A Failure where the child
        hung, died or could not run the reference."""
        request = Contest(
            workload=self.op.workload,
            problem=problem,
            entries=tuple(entries),
            tolerance=self._tolerance,
            l2=self.l2,
            rounds=rounds,
            sample_us=sample_us,
            stop_above=stop_above,
            steady_s=steady_s,
            seed=self.seed if seed is None else seed,
            check_after=check_after,
        )
        launches = len(entries) * (rounds + 8)
        work_s = launches * self.op.flops(problem) / FLOPS_PER_S
        reply = self._ask(request, ANSWER_S + steady_s + 2 * work_s)
        if isinstance(reply, ContestResult | Failure):
            return reply
        return Failure(stage="worker", reason=f"a {reply.reply} answer to a contest")

    def tune_baseline(self, problem: Problem, limit: int) -> TunedBaseline | Failure:
        """The best of up to `limit` of cuBLASLt's algorithms for this problem, each timed."""
        request = TuneBaseline(
            workload=self.op.workload,
            problem=problem,
            tolerance=self._tolerance,
            l2=self.l2,
            limit=limit,
            seed=self.seed,
        )
        work_s = limit * 12 * self.op.flops(problem) / FLOPS_PER_S
        reply = self._ask(request, 2 * ANSWER_S + work_s)
        if isinstance(reply, TunedBaseline | Failure):
            return reply
        return Failure(stage="worker", reason=f"a {reply.reply} answer to a baseline's tuning")

    def _ask(self, request: Request, timeout_s: float) -> Reply | Failure:
        """The child's answer; a request that failed as a whole is a Failure, of stage "worker" where it cost
        the child its CUDA context.

        A new child is first asked for the device: what its start takes is then no part of the deadline,
        which would otherwise be a minute longer after every hang.
        """
        if self._worker.pid is None:
            started = self._worker.ask(Describe(), ANSWER_S)
            if isinstance(started, Failure):
                return started
        reply = self._worker.ask(request, timeout_s)
        if not isinstance(reply, Broken):
            return reply
        return reply.failure.model_copy(update={"stage": "worker"}) if reply.fatal else reply.failure

    # --- entries

    def kernel_entry(self, build: Build, launch: LaunchConfig) -> KernelEntry:
        return KernelEntry(
            name=entry_name(build.kernel, launch),
            cubin=build.cubin,
            host_library=build.host_library,
            index=build.index,
            symbol=build.symbol,
            launch=launch,
            launch_codes=self.op.launch_codes(launch),
            deterministic=self.op.deterministic(launch),
        )

    def reference(self, problem: Problem) -> BaselineEntry:
        return BaselineEntry(name=TORCH, layout=problem.layout)

    def require_reference(self, problem: Problem) -> None:
        """Raises UserError where not even the reference runs: then no kernel is to blame for a failure."""
        result = self.contest(problem, [self.reference(problem)], 1)
        if isinstance(result, Failure):
            raise UserError(
                f"the GPU no longer runs {self.op.reference_call} on {problem.label} ({result.reason}); "
                "what was measured is kept, and the same command goes on once the GPU is well"
            )

    # --- measuring kernels

    def screen(
        self,
        build: Build,
        problem: Problem,
        launches: Sequence[LaunchConfig],
        stop_above: float,
        *,
        alone: bool = True,
    ) -> list[Measurement | Failure]:
        """Measure one kernel with several launches on one problem, cheaply, beside the reference.

        A contest that was disturbed is held once more, in so many rounds that one of them may be. Where the
        contest fails, all its launches did; or, with `alone`, each is tried by itself, so that only the
        guilty one fails. After `GUILTY_LAUNCHES` guilty ones the rest is not tried.
        """
        entries = [self.kernel_entry(build, launch) for launch in launches]
        large = self.op.flops(problem) > LARGE_FLOPS
        rounds = LARGE_SCREEN_ROUNDS if large else SCREEN_ROUNDS
        asked: list[Entry] = [self.reference(problem), *entries]
        result = self.contest(problem, asked, rounds, stop_above=stop_above)
        if isinstance(result, ContestResult) and not self.simulated and _disturbed(result):
            result = self.contest(problem, asked, MANY_ROUNDS, stop_above=stop_above)
        if isinstance(result, Failure):
            self.require_reference(problem)
            if alone and len(launches) > 1:
                return self._one_by_one(build, problem, launches, stop_above, result)
            return [result for _ in launches]
        return [
            self.measurement(build.kernel, launch, problem, result, index + 1)
            for index, launch in enumerate(launches)
        ]

    def _one_by_one(
        self,
        build: Build,
        problem: Problem,
        launches: Sequence[LaunchConfig],
        stop_above: float,
        together: Failure,
    ) -> list[Measurement | Failure]:
        outcomes: list[Measurement | Failure] = []
        guilty = 0
        for launch in launches:
            if guilty == GUILTY_LAUNCHES:
                outcomes.append(together)
                continue
            (outcome,) = self.screen(build, problem, [launch], stop_above)
            guilty += isinstance(outcome, Failure) and outcome.stage == together.stage
            outcomes.append(outcome)
        return outcomes

    def measurement(
        self, kernel: KernelConfig, launch: LaunchConfig, problem: Problem, result: ContestResult, index: int
    ) -> Measurement | Failure:
        """Entry `index` of a contest as a record, judged."""
        reference, ours = result.entries[0], result.entries[index]
        if isinstance(ours, Refused):
            return ours.failure
        assert isinstance(reference, Timed), "a contest whose reference failed is a Failure"
        assert ours.readback is not None, "a kernel of ours always reads its plan back"
        wrong = self.op.ran_otherwise(kernel, launch, ours.readback)
        if wrong:
            return Failure(stage="plan", reason=wrong)
        return Measurement(
            kernel=kernel,
            launch=launch,
            problem=problem.key,
            reference=reference.name,
            samples_us=ours.samples_us,
            reference_us=reference.samples_us[: len(ours.samples_us)],
            launches_per_sample=ours.launches_per_sample,
            l2=self.l2,
            readback=ours.readback,
            evidence=ours.evidence,
            verdict=judge(ours.evidence, _repeated(ours.evidence) and self.op.deterministic(launch)),
            card=result.card,
        )


def _child(gpu: int, log: Path) -> Worker:
    return Worker(CHILD, log, {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **visible(gpu)})


def entry_name(kernel: KernelConfig, launch: LaunchConfig) -> str:
    """What a kernel and launch are called in a contest: their config's key."""
    return Config(kernel=kernel, launch=launch).key


def _repeated(evidence: Evidence) -> bool:
    """Screening launches once; only finalists' repeated launches are compared."""
    return evidence.repeat_mismatches is not None


def _disturbed(result: ContestResult) -> bool:
    reference = result.entries[0]
    return isinstance(reference, Timed) and disturbed(reference.samples_us)
