"""The finals of one problem: the best kernels found against every baseline, interleaved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cutlass_tuner import statistics
from cutlass_tuner.events import BaselineResult, FinalRow
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.pipeline import baselines
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import (
    Build,
    CardState,
    Config,
    Failure,
    KernelConfig,
    LaunchConfig,
    Measurement,
    Problem,
)
from cutlass_tuner.wire import BaselineEntry, ContestResult, Entry, Refused, Timed

SAMPLE_US = 400.0
FRESH_SEED = 7919
"""Added to the search's seed: finalists are checked on inputs the search never saw."""
FLOPS_PER_US = 700e6
"""What a large GEMM reaches on an H200, and attention nearly: good enough to plan time with."""
LARGE_US = 2000.0


@dataclass(frozen=True)
class Effort:
    """What finals cost: rounds of the semifinal and of each contest of the final, seconds of load before a
    contest, how many of screening's best meet in the semifinal (screening is noisy by a few per cent),
    and how many of cuBLASLt's algorithms are timed."""

    rounds: int
    final_rounds: tuple[int, ...]
    steady_s: float
    finalists: int
    algorithms: int


USUAL = Effort(rounds=31, final_rounds=(13, 13, 13), steady_s=0.3, finalists=8, algorithms=100)
LARGE = Effort(rounds=9, final_rounds=(7, 7, 7), steady_s=1.0, finalists=5, algorithms=40)


def expected_us(op: Op, problem: Problem) -> float:
    """About how long a launch takes if it is bound by arithmetic."""
    return op.flops(problem) / FLOPS_PER_US


def effort(op: Op, problem: Problem) -> Effort:
    return LARGE if expected_us(op, problem) > LARGE_US else USUAL


@dataclass(frozen=True)
class Finalist:
    build: Build
    launch: LaunchConfig

    @property
    def config(self) -> Config:
        return Config(kernel=self.build.kernel, launch=self.launch)


@dataclass(frozen=True)
class Outcome:
    """What the finals of one problem say beside the measurements, ready to be appended to the study."""

    row: FinalRow
    baselines: tuple[BaselineResult, ...]


def play(
    bench: Bench,
    problem: Problem,
    finalists: Sequence[Finalist],
    *,
    tuned: Callable[[], str],
    prefer: Sequence[KernelConfig],
    record: Callable[[Finalist, Measurement | Failure], None],
) -> Outcome | Failure:
    """Choose among the finalists in one contest, then measure the chosen one beside every baseline in
    others: a winner's figures never come from the samples that made it win.

    Ties go to the kernels in `prefer`, then to the earlier finalist. `tuned` is asked for cuBLASLt's best
    algorithm ("" for none) in between, when the card is as warm as in the final: the power state can change
    their order. `record` is called with every finalist's measurement, or why it has none, as soon as a
    contest is over.
    """
    semifinal = contest(bench, problem, [bench.reference(problem)], finalists)
    if isinstance(semifinal, Failure):
        return semifinal
    measured = _measurements(bench, problem, finalists, semifinal, record)
    right = [f for f in finalists if f.config.key in measured and measured[f.config.key].verdict.passed]
    if not right:
        return Outcome(_no_winner(bench, problem, semifinal, measured), ())
    winner = _winner(right, measured, prefer)
    theirs = baselines.entries(bench.op, problem, tuned())
    faults: list[str] = []

    def judged(result: ContestResult) -> None:
        one = bench.measurement(winner.build.kernel, winner.launch, problem, result, len(theirs))
        record(winner, one)
        if isinstance(one, Failure):
            faults.append(f"the chosen kernel failed in the final: {one.reason}")
        elif not one.verdict.passed:
            faults.append(f"the chosen kernel gave a wrong answer in the final: {one.verdict.reasons[0]}")

    final = final_contests(bench, problem, theirs, [winner], judged)
    if isinstance(final, Failure):
        return final
    why = "; ".join(dict.fromkeys(faults))
    row = final_row(bench, problem, final, None if faults else winner.config, why)
    return Outcome(row, baselines.results(theirs, problem, final))


def final_row(
    bench: Bench, problem: Problem, results: Sequence[ContestResult], winner: Config | None, why: str
) -> FinalRow:
    """The samples of all contests, with who won them. Who was refused in one of them is left out."""
    timed = [{e.name: e.samples_us for e in result.entries if isinstance(e, Timed)} for result in results]
    entrants = [name for name in timed[0] if all(name in each for each in timed)]
    return FinalRow(
        problem=problem.key,
        l2=bench.l2,
        entrants=tuple(entrants),
        samples_us=tuple(tuple(us for each in timed for us in each[name]) for name in entrants),
        contests=tuple(len(each[entrants[0]]) for each in timed) if entrants else (),
        winner=winner,
        why=why,
        card=_card(results),
    )


def _card(results: Sequence[ContestResult]) -> CardState | None:
    """The card in the last contest, with what held it back in any."""
    cards = [result.card for result in results if result.card is not None]
    held = dict.fromkeys(reason for card in cards for reason in card.throttle)
    return cards[-1].model_copy(update={"throttle": tuple(held)}) if cards else None


def final_contests(
    bench: Bench,
    problem: Problem,
    theirs: Sequence[BaselineEntry],
    finalists: Sequence[Finalist],
    seen: Callable[[ContestResult], None] = lambda _: None,
) -> list[ContestResult] | Failure:
    """Several contests of the same entrants, each with fresh operands at other addresses: they differ by
    more than the rounds of one do. `seen` is called after each. A Failure where one of them failed.

    A recording has one set of samples: played three times it would look three times as certain."""
    results = []
    every = effort(bench.op, problem).final_rounds
    for number, rounds in enumerate([sum(every)] if bench.simulated else every):
        result = contest(bench, problem, theirs, finalists, rounds=rounds, seed=FRESH_SEED + 1 + number)
        if isinstance(result, Failure):
            return result
        seen(result)
        results.append(result)
    return results


def contest(
    bench: Bench,
    problem: Problem,
    theirs: Sequence[BaselineEntry],
    finalists: Sequence[Finalist],
    *,
    rounds: int | None = None,
    seed: int = FRESH_SEED,
) -> ContestResult | Failure:
    """A contest with the effort of a semifinal; the first of `theirs` is the reference. `seed` is added
    to the search's."""
    spent = effort(bench.op, problem)
    entries: list[Entry] = [*theirs, *(bench.kernel_entry(f.build, f.launch) for f in finalists)]
    return bench.contest(
        problem,
        entries,
        rounds or spent.rounds,
        sample_us=SAMPLE_US,
        steady_s=spent.steady_s,
        check_after=True,
        seed=bench.seed + seed,
    )


def _measurements(
    bench: Bench,
    problem: Problem,
    finalists: Sequence[Finalist],
    result: ContestResult,
    record: Callable[[Finalist, Measurement | Failure], None],
) -> dict[str, Measurement]:
    """A semifinal's, by config key, and recorded; its first entry is the reference."""
    found = {}
    for index, f in enumerate(finalists, start=1):
        one = bench.measurement(f.build.kernel, f.launch, problem, result, index)
        record(f, one)
        if isinstance(one, Measurement):
            found[f.config.key] = one
    return found


def _no_winner(
    bench: Bench, problem: Problem, result: ContestResult, measured: Mapping[str, Measurement]
) -> FinalRow:
    said = [e.failure.reason for e in result.entries if isinstance(e, Refused)]
    said += [reason for m in measured.values() for reason in m.verdict.reasons]
    why = "no finalist gave a right answer: " + "; ".join(dict.fromkeys(said))
    reference = result.model_copy(update={"entries": result.entries[:1]})
    return final_row(bench, problem, [reference], None, why)


def _winner(
    right: Sequence[Finalist], measured: Mapping[str, Measurement], prefer: Sequence[KernelConfig]
) -> Finalist:
    preferred = {kernel.key for kernel in prefer}
    order = sorted(right, key=lambda f: f.build.kernel.key not in preferred)
    samples = {f.config.key: measured[f.config.key].samples_us for f in right}
    wanted = [f.config.key for f in order if f.build.kernel.key in preferred]
    key = statistics.pick(samples, wanted)
    return next(f for f in right if f.config.key == key)
