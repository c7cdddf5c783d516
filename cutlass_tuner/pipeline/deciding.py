"""After the search: the finals of every problem, from a study's records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cutlass_tuner.build.pool import Builds
from cutlass_tuner.events import BaselineMeasured, BaselineResult, FinalRow, Finished, Measured
from cutlass_tuner.pipeline import baselines, finals
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Build, Failure, KernelConfig, Measurement, Problem
from cutlass_tuner.results import LT_TUNED
from cutlass_tuner.study import Study

TUNING_S, CONTEST_S = 1.0, 0.6
"""Seconds that tuning cuBLASLt, and that every contest, takes beside launches: inputs and references."""
CHECKS = 8
"""Launches of an entrant beside its rounds, in samples."""
TRIALS, DECIDING = 5, 150
"""Launches of one of cuBLASLt's algorithms when it is tuned, and of the best in its deciding rounds, in
samples."""
ATTEMPTS = 3
"""How often the finals of a problem are played, each time without the configs that failed in the last."""


class Deciding:
    """Plays the finals of a study's problems and records them."""

    def __init__(self, bench: Bench, study: Study, builder: Builds) -> None:
        self._bench, self._study, self._builder = bench, study, builder

    def every_shape(self, show: Callable[[str], None]) -> None:
        """One problem after the other; `show` is told what is going on. A problem without a right
        kernel, or whose finals fail, gets a row that says why. What is settled is not played again."""
        used: list[KernelConfig] = []
        problems = self._study.problems
        settled = self._settled()
        for number, problem in enumerate(problems):
            show(f"finals on {problem.label} ({number + 1} of {len(problems)})")
            row = settled.get(problem.key) or self._one(problem, used)
            if row.winner is not None:
                used.append(row.winner.kernel)

    def expected_s(self) -> float:
        """Seconds the finals of all problems take."""
        total = 0.0
        tunes, entrants = self._bench.op.tunes_baseline, baselines.entrants(self._bench.op)
        for problem in self._study.problems:
            spent = finals.effort(self._bench.op, problem)
            us = max(finals.expected_us(self._bench.op, problem), finals.SAMPLE_US)
            samples = (spent.finalists + 1) * (spent.rounds + CHECKS)
            samples += (DECIDING + TRIALS * spent.algorithms) * tunes
            samples += sum(entrants * (rounds + CHECKS) for rounds in spent.final_rounds)
            contests = 1 + len(spent.final_rounds)
            total += TUNING_S * tunes + contests * (CONTEST_S + spent.steady_s) + samples * us / 1e6
        return total

    def ready(self, kernel: KernelConfig) -> Build | Failure:
        """This kernel from the cache, built again where it was pruned. A build in the study's journal may
        name files that another batch has replaced since, with the kernel at another index."""
        return self._builder.build([kernel])[0]

    def _settled(self) -> dict[str, FinalRow]:
        """Finals with a winner since which nothing new was measured on their problem, by its key."""
        rows: dict[str, FinalRow] = {}
        for event in self._study.events():
            if isinstance(event, Finished):
                rows[event.row.problem] = event.row
            elif isinstance(event, Measured):
                rows.pop(event.measurement.problem, None)
            elif isinstance(event, BaselineMeasured) and event.result.failure is None:
                rows.pop(event.result.problem, None)
        refused = self._study.ledger.refused
        return {
            key: row
            for key, row in rows.items()
            if row.winner is not None and not refused(row.winner.kernel, row.winner.launch, key)
        }

    def _one(self, problem: Problem, used: list[KernelConfig]) -> FinalRow:
        """The finals of one problem, recorded. Kernels that fail there make room for the next best."""
        row: FinalRow | None = None
        wrong: set[str] = set()

        def record(f: finals.Finalist, one: Measurement | Failure) -> None:
            if isinstance(one, Failure):
                self._study.run_failed(f.build.kernel, f.launch, problem, one)
            else:
                self._study.append(Measured(measurement=one, at_s=self._study.now_s()))
            if isinstance(one, Failure) or not one.verdict.passed:
                wrong.add(f.build.kernel.key)

        for _ in range(ATTEMPTS):
            finalists = self._finalists(problem, wrong)
            if not finalists:
                break
            outcome = finals.play(
                self._bench,
                problem,
                finalists,
                tuned=lambda: self._tuned(problem),
                prefer=used,
                record=record,
            )
            if isinstance(outcome, Failure):
                row = self._empty(problem, f"the finals failed: {outcome.reason}")
                guilty = self._blame(problem, finalists)
                if not guilty:
                    break
                wrong |= guilty
                continue
            self._record_baselines(outcome.baselines)
            row = outcome.row
            if row.winner is not None:
                break
        row = row or self._empty(problem, self._why_none(problem))
        self._study.append(Finished(row=row, at_s=self._study.now_s()))
        return row

    def _blame(self, problem: Problem, finalists: Sequence[finals.Finalist]) -> set[str]:
        """Record those that lose the measuring process, each tried alone; their kernels' keys."""
        self._bench.require_reference(problem)
        guilty = set[str]()
        for f in finalists:
            reference = [self._bench.reference(problem)]
            alone = finals.contest(self._bench, problem, reference, [f])
            if isinstance(alone, Failure) and alone.stage == "worker":
                guilty.add(f.build.kernel.key)
                self._study.run_failed(f.build.kernel, f.launch, problem, alone)
        return guilty

    def _finalists(self, problem: Problem, wrong: Collection[str]) -> list[finals.Finalist]:
        """The best configs of this problem by screening, at most two launches of one kernel, none of a
        kernel that was `wrong` in these finals: whatever launch it was, the others may be right by luck."""
        most = finals.effort(self._bench.op, problem).finalists
        found: list[finals.Finalist] = []
        for best in self._study.ledger.ranking(problem.key):
            kernel, launch = best.measurement.kernel, best.measurement.launch
            if kernel.key in wrong or self._study.ledger.refused(kernel, launch, problem.key):
                continue
            if sum(f.build.kernel == kernel for f in found) == 2:
                continue
            build = self.ready(kernel)
            if isinstance(build, Build):
                found.append(finals.Finalist(build, launch))
            if len(found) == most:
                break
        return found

    def _why_none(self, problem: Problem) -> str:
        """Why no kernel is in the finals of this problem."""
        wrong = [m.verdict.reasons[0] for m in self._study.measurements(problem.key) if not m.verdict.passed]
        failed = [f.failure.reason for f in self._study.ledger.run_failures if f.problem == problem.key]
        reasons = list(dict.fromkeys([*wrong, *failed]))[:2]
        return "no right kernel was measured" + (
            f": {'; '.join(reasons)}" if reasons else " in the time given"
        )

    def _empty(self, problem: Problem, why: str) -> FinalRow:
        return FinalRow(
            problem=problem.key, l2=self._bench.l2, entrants=(), samples_us=(), winner=None, why=why
        )

    def _record_baselines(self, results: Sequence[BaselineResult]) -> None:
        study = self._study
        for result in results:
            before = study.ledger.baselines.get((result.problem, result.name))
            known = result if before is None else baselines.as_tried(result, before)
            study.append(BaselineMeasured(result=known, at_s=study.now_s()))

    def _tuned(self, problem: Problem) -> str:
        """cuBLASLt's best algorithm in hex, "" where there is none: the study's, or it is found now."""
        if not self._bench.op.tunes_baseline:
            return ""
        known = self._study.ledger.baselines.get((problem.key, LT_TUNED))
        if known is None or known.failure is not None:
            algorithms = finals.effort(self._bench.op, problem).algorithms
            known = baselines.tune_cublaslt(self._bench, problem, algorithms)
            self._study.append(BaselineMeasured(result=known, at_s=self._study.now_s()))
        return known.algorithm
