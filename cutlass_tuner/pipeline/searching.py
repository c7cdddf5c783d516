"""One run of the search on one study: propose, build, measure, verify, refine, decide."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from cutlass_tuner import settings
from cutlass_tuner.build.pool import Builds, Finished, Pool, default_jobs
from cutlass_tuner.events import KernelBuilt, KernelFailed, KernelTold
from cutlass_tuner.options import TuneOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.pipeline.conversation import Conversation
from cutlass_tuner.pipeline.deciding import Deciding
from cutlass_tuner.pipeline.past import nearby
from cutlass_tuner.pipeline.screening import Screening
from cutlass_tuner.propose.context import Context, Past
from cutlass_tuner.propose.transport import Transport
from cutlass_tuner.records import Build, Failure, Problem, Proposal
from cutlass_tuner.refine.budget import Budget
from cutlass_tuner.refine.search import Search
from cutlass_tuner.report.progress import Progress
from cutlass_tuner.report.tables import counted
from cutlass_tuner.space import Candidates
from cutlass_tuner.study import Study

BATCH = 5
FIRST_BATCH = 2
"""The first batch of each compiler is small: what it teaches is worth more than its share of the cost."""
QUEUED_BATCHES = 2
"""Batches waiting behind the running ones, so that no core idles while the GPU measures."""
LISTEN_S = 0.5
"""How long to wait for a build, or for an answer, before looking whether anything else has happened."""
SEEDS = 64
"""Starting kernels, best first. They cover the shapes; after that what was measured knows better."""

ALL_BUILT, ALL_RECORDED_BUILT = "every kernel of the space is built", "every recorded kernel is built"
NOBODY_ASKED = (
    "no language model is asked, as no ANTHROPIC_API_KEY is set: heuristics propose the starting kernels "
    "(--llm none leaves this line out)"
)


class Searching:
    """One run of the search on one study."""

    def __init__(
        self,
        options: TuneOptions,
        bench: Bench,
        builder: Builds,
        *,
        space: setup.Space,
        candidates: Candidates,
        study: Study,
        transport: Transport | None,
        started: float,
    ) -> None:
        self.options, self.op, self.problems = options, bench.op, study.problems
        self.bench, self.space, self.study = bench, space, study
        self.candidates = candidates
        self.device = study.header.device
        self._started = started
        self.builder = builder
        self.screening = Screening(bench, space, study)
        self.deciding = Deciding(bench, study, builder)
        self.budget = Budget(
            seconds=options.budget_s,
            builds=options.builds,
            target=options.target,
            finals_s=0.0 if bench.simulated else self.deciding.expected_s(),
        )
        self._transport = transport
        self._in_flight: dict[str, Proposal] = {}
        self._built: deque[Finished] = deque()  # and not measured yet
        self._submitted = 0

    def elapsed(self) -> float:
        """Seconds of this run, its start included."""
        return time.monotonic() - self._started

    @property
    def done(self) -> int:
        """Kernels built or failed, in all runs of this study."""
        return len(self.study.ledger.proposals)

    # --- the story

    def whole(self) -> None:
        simulated = "simulated " if self.bench.simulated else ""
        with Progress(f"{simulated}tune {self.op.name}, {counted(len(self.problems), 'shape')}") as progress:
            self.progress = progress
            for note in [*self.study.notes, *self._nobody_asked()]:
                progress.note(note)
            try:
                reason = self._searched()
            except KeyboardInterrupt:
                progress.note(f"search ended: interrupted; {self._standing()}")
                progress.note("no finals were run; the same command goes on from here")
                raise
            progress.note(f"search ended: {reason}")
            self.deciding.every_shape(self._show)

    def _nobody_asked(self) -> list[str]:
        """A line where a language model would be asked if there were a credential."""
        asked = self._transport is not None or self.options.llm.llm is not None
        return [] if asked else [NOBODY_ASKED]

    def _standing(self) -> str:
        """Where the search stands, in words."""
        counts = self.study.summary()
        if counts.geomean is None:
            return "no kernel is measured yet"
        found = len(self.problems) - len(counts.unsolved)
        return (
            f"as screened, the best kernels so far are {counts.geomean:.3f} times as fast as "
            f"{self.op.reference_call} in the geometric mean over {found} of {len(self.problems)} shapes"
        )

    def _searched(self) -> str:
        """Search until a limit is reached; which one."""
        self._catch_up()
        search = self._search()
        reason = self._limit()
        if reason is not None:
            return reason
        self.conversation = self._converse(search)
        try:
            with Pool(self.builder, self._jobs(), inline=self.bench.simulated) as pool:
                self.conversation.begin()
                return self._refine(search, pool)
        finally:
            self.conversation.close()

    def _jobs(self) -> int:
        return self.options.toolchain.jobs or (1 if self.bench.simulated else default_jobs())

    def _converse(self, search: Search) -> Conversation:
        return Conversation(
            self._transport,
            self._context(),
            self.study,
            self.screening,
            search,
            in_flight=self._in_flight,
            ready=self.deciding.ready,
            more=lambda: self._builds_left() != 0 and self.budget.search_s(self.elapsed()) != 0.0,
            rounds=self.options.llm.rounds,
            note=self.progress.note,
        )

    def _context(self) -> Context:
        """What a proposer is told; winners of earlier studies only where somebody is asked."""
        past: tuple[Past, ...] = ()
        if self._transport is not None and self.options.llm.history and not self.study.header.simulated:
            roots = [self.options.studies, settings.data_dir("studies")]
            past = nearby(roots, self.study.header, self.problems)
        return Context(self.op, self.space, self.problems, self.device, self.bench.l2, past)

    def _catch_up(self) -> None:
        """Screen what earlier runs left: kernels whose round was cut short, and shapes added since. The
        search takes up what comes of it with everything else that is in the study."""
        ledger = self.study.ledger
        left = {build.kernel.key: list(self.problems) for build in ledger.unfinished()}
        cut_short = set(left)
        for problem in self.problems:
            for build in ledger.untried(problem.key):
                if build.kernel.key not in cut_short | ledger.condemned:
                    left.setdefault(build.kernel.key, []).append(problem)
        for key, problems in left.items():
            build = ledger.builds[key]
            serves = [p for p in problems if not self.space.check(build.kernel, None, p, self.device).illegal]
            if serves and self.budget.search_s(self.elapsed()) != 0.0:
                ready = self.deciding.ready(build.kernel)
                if isinstance(ready, Build):
                    self._screen(ready, serves)

    def _search(self) -> Search:
        estimate_us = self.op.prior(self.candidates, self.problems, self.device)
        search = Search(
            self.candidates,
            self.space.kernel_knobs(),
            self.problems,
            setup.emitter(self.op).batch_key,
            sampler=self.options.sampler,
            seed=self.options.seed,
            estimate_us=estimate_us,
        )
        search.restore(self.study.events())
        seeds = self.op.seeds(self.space, self.candidates, estimate_us, self.problems, self.device)
        search.enqueue(seeds[:SEEDS])
        return search

    # --- search

    def _limit(self) -> str | None:
        """Which limit is reached, None while none is."""
        return self.budget.stop(self.elapsed(), self.done, self._speedup())

    def _builds_left(self) -> int | None:
        """How many more kernels may be asked for, None without a limit."""
        return self.budget.builds_left(self.done + len(self._in_flight))

    def _refill(self, search: Search, pool: Pool) -> None:
        """Keep the compilers busy, within the limit on builds."""
        while pool.pending + len(self._built) < pool.jobs + QUEUED_BATCHES:
            size = BATCH if self._submitted >= pool.jobs else FIRST_BATCH
            left = self._builds_left()
            batch = search.next_batch(size if left is None else min(size, left)) if left != 0 else []
            if not batch:
                return
            self._submitted += 1
            self._in_flight.update({p.kernel.key: p for p in batch})
            pool.submit([p.kernel for p in batch])

    def _refine(self, search: Search, pool: Pool) -> str:
        while True:
            self.conversation.hear()
            reason = self._limit()
            if reason is not None:
                return reason
            if self.bench.simulated and self.conversation.thinking:
                self._await_answer()  # a recording is played in no time: no answer would ever be in time
                continue
            self._refill(search, pool)
            idle = not pool.pending and not self._built
            if idle and self._all_built(search):
                return ALL_BUILT
            self.conversation.go_on(idle)
            if not idle:
                self._measure(search, pool)
            elif self.conversation.thinking:
                self._await_answer()
            else:
                return ALL_RECORDED_BUILT if self.bench.simulated else ALL_BUILT

    def _all_built(self, search: Search) -> bool:
        """Is nothing left that anybody could propose? Of kernels that are not recorded there is no end."""
        return not self.bench.simulated and not search.pool.fresh.any()

    def _await_answer(self) -> None:
        self._show("waiting for the language model")
        self.conversation.hear(LISTEN_S)

    def _measure(self, search: Search, pool: Pool) -> None:
        """Take the next batch that is built, waiting a moment for one. No more than one: what is chosen and
        asked next should rest on all that is known."""
        self._show("waiting for a build")
        self._built += pool.completed(timeout_s=0.0 if self._built else LISTEN_S)
        if self._built:
            for kernel, result in zip(*self._built.popleft(), strict=True):
                proposal = self._in_flight.pop(kernel.key)
                self._take(search, proposal, result)
                self.conversation.settle(proposal)

    def _take(self, search: Search, proposal: Proposal, result: Build | Failure) -> None:
        """Record a build, and screen it unless time is up: the next run then does (`_catch_up`)."""
        kernel, now = proposal.kernel, self.study.now_s()
        if isinstance(result, Failure):
            if result.lasting:
                self.study.append(KernelFailed(proposal=proposal, failure=result, at_s=now))
            search.tell(kernel, result)
            return
        self.study.append(KernelBuilt(proposal=proposal, build=result, at_s=now))
        if self.budget.search_s(self.elapsed()) != 0.0:
            search.tell(kernel, self._screen(result, self.problems))

    def _screen(self, build: Build, problems: Sequence[Problem]) -> dict[str, float] | Failure:
        """Measure a kernel and close its round; what `Screening.screen` answers."""
        self._show(f"measuring {build.kernel.digest}")
        outcome = self.screening.screen(build, problems)
        ratios = {} if isinstance(outcome, Failure) else outcome
        self.study.append(KernelTold(kernel=build.kernel, log_ratio=ratios, at_s=self.study.now_s()))
        if isinstance(outcome, Failure):  # the round is closed: a resumed search takes it for finished
            return outcome.model_copy(update={"lasting": True})
        return outcome

    def _speedup(self) -> float | None:
        """The least speed-up over the problems; None while one has no right kernel."""
        speedups = self.screening.speedups
        return min(speedups[p.key] for p in self.problems) if len(speedups) == len(self.problems) else None

    # --- display

    def _show(self, activity: str) -> None:
        ledger = self.study.ledger
        self.progress.update(
            built=len(ledger.builds),
            failed=len(ledger.failed),
            rounds=len(ledger.told),
            measurements=self.screening.measured,
            best_geomean=self.screening.geomean(),
            seconds_left=max(0.0, self.options.budget_s - self.elapsed()),
            activity=activity,
        )
