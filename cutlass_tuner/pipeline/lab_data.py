"""A recorded study as the lab sees it: a table of kernels with their times, and what each costs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutlass_tuner.errors import UserError
from cutlass_tuner.events import (
    BaselineMeasured,
    Event,
    Finished,
    KernelBuilt,
    KernelTold,
    Measured,
)
from cutlass_tuner.ops.columns import BoolArray, FloatArray
from cutlass_tuner.pipeline.setup import Space
from cutlass_tuner.records import Config, Measurement, Problem
from cutlass_tuner.space import Candidates
from cutlass_tuner.statistics import MANY_ROUNDS
from cutlass_tuner.study import Study
from cutlass_tuner.study.ledger import Ledger

MAD_TO_SD = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


@dataclass(frozen=True)
class Recorded:
    """Row i of everything is kernel i of `candidates`: the kernels of a study that were screened or failed.

    `screened` (kernels x problems) is log(time / torch) with the kernel's best recorded launch, NaN where
    it has no right one: what a search is told. `log_ratio` is what a run is judged by: the same, but for
    kernels that were measured again afterwards, the best of each problem, of that. `failed` did not
    build. `compile_s` and `device_s` are CPU seconds of compiling and seconds of measuring for one
    screening. `noise` is, by problem, how far one round of a contest is from another of the same kernel
    and launch: the standard deviation of a log ratio. `best` is each problem's fastest kernel and launch.
    `sources` counts who proposed the kernels. `notes` say what is left out.
    """

    candidates: Candidates
    screened: FloatArray
    log_ratio: FloatArray
    failed: BoolArray
    compile_s: FloatArray
    device_s: FloatArray
    noise: FloatArray
    best: tuple[Config, ...]
    sources: dict[str, int]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.candidates.problems

    @cached_property
    def known(self) -> FloatArray:
        """The least log ratio of each problem."""
        least: FloatArray = np.nanmin(self.log_ratio, axis=0)
        return least

    @property
    def counts(self) -> FloatArray:
        return np.array([problem.count for problem in self.problems], dtype=np.float64)

    @property
    def typical_s(self) -> tuple[float, float]:
        """What a kernel costs that is not recorded: the medians of compiling and of measuring."""
        return float(np.median(self.compile_s)), float(np.median(self.device_s))

    def told(self, seed: int) -> FloatArray:
        """The log ratios as another day would have told them: each with the noise of one round, drawn anew by
        the seed alone, so that all arms of a seed hear the same."""
        draws = np.random.default_rng([seed]).standard_normal(self.screened.shape)
        ratios: FloatArray = self.screened + self.noise * draws
        return ratios


def screened(events: Iterable[Event]) -> Ledger:
    """The study without its finals: they measured only finalists again, on a warmer card, so that their
    figures cannot stand beside those of other kernels. A kernel's round on a problem ends when it is told."""
    ledger = Ledger()
    open_rounds: dict[str, set[str]] = defaultdict(set)
    closed = set[tuple[str, str]]()
    for event in events:
        if isinstance(event, Measured):
            kernel, problem = event.measurement.kernel.key, event.measurement.problem
            if (kernel, problem) in closed:
                continue
            open_rounds[kernel].add(problem)
        ledger.absorb(event)
        if isinstance(event, KernelTold):
            key = event.kernel.key
            closed |= {(key, problem) for problem in open_rounds.pop(key, ())}
    return ledger


def measured_again(events: Iterable[Event]) -> Ledger:
    """What was measured, in many rounds, after the last finals of its problem: several configs in one
    contest. Finalists are chosen by theirs, and one that is measured again alone was the best by luck."""
    after: dict[str, list[Measured]] = {}
    for event in events:
        if isinstance(event, Finished):
            after[event.row.problem] = []
        elif isinstance(event, Measured) and len(event.measurement.samples_us) >= MANY_ROUNDS:
            after.get(event.measurement.problem, []).append(event)
    ledger = Ledger()
    for several in after.values():
        contests = Counter(event.measurement.reference_us for event in several)
        for event in several:
            if contests[event.measurement.reference_us] > 1:
                ledger.absorb(event)
    return ledger


def screening_s(events: Iterable[Event]) -> dict[str, float]:
    """Seconds that measuring each kernel took, by its key: from when it was built, or the round of the
    kernel before it (or a final) ended, whichever is later, until it was told."""
    built: dict[str, float] = {}
    spent: dict[str, float] = defaultdict(float)
    idle_since = 0.0
    for event in events:
        if isinstance(event, KernelBuilt):
            built[event.proposal.kernel.key] = event.at_s
        elif isinstance(event, KernelTold):
            key = event.kernel.key
            spent[key] += max(0.0, event.at_s - max(idle_since, built.get(key, 0.0)))
            idle_since = event.at_s
        elif isinstance(event, BaselineMeasured | Finished):
            idle_since = event.at_s
    return dict(spent)


def round_noise(ledger: Ledger, problems: Iterable[Problem]) -> FloatArray:
    """The standard deviation of a log ratio from round to round, one a problem; 0 where nothing was repeated.

    From the steps between successive rounds, less what all contests do from that round to the next, by their
    median: a few rounds that something disturbed were outvoted in the recording too.
    """
    return np.array(
        [_noise([m for m in ledger.measured.get(p.key, ()) if m.verdict.passed]) for p in problems]
    )


def _noise(measurements: Iterable[Measurement]) -> float:
    steps: dict[int, list[float]] = defaultdict(list)
    for one in measurements:
        ratios = np.log(np.array(one.samples_us) / np.array(one.reference_us))
        for place, step in enumerate(np.diff(ratios).tolist()):
            steps[place].append(step)
    if not steps:
        return 0.0
    alone = np.concatenate([np.array(some) - np.median(some) for some in steps.values()])
    return float(np.median(np.abs(alone))) * MAD_TO_SD / math.sqrt(2.0)


def recorded(study: Study, space: Space) -> tuple[Recorded, Candidates]:
    """The table of a study, and the space's candidates for its problems, of which it is a part.

    Raises UserError where there is nothing to replay.
    """
    if study.header.simulated:
        raise UserError(
            f"study {study.name} is itself simulated, from {study.header.simulated}; give one that a GPU "
            "measured"
        )
    ledger = screened(study.events())
    problems = [p for p in study.problems if ledger.best(p.key) is not None]
    if not problems:
        raise UserError(f"study {study.name} holds no right measurement to replay; choose another study")
    whole = space.candidates(problems, study.header.device)
    told = [event.kernel for event in ledger.told.values()]
    failed = [event.proposal.kernel for key, event in ledger.failed.items() if key not in ledger.told]
    found = [whole.row(kernel) for kernel in (*told, *failed)]
    rows = np.array(sorted({row for row in found if row is not None}), dtype=np.int64)
    table = whole.take(rows)
    told_ratio = _log_ratio(ledger, table)
    again = measured_again(study.events())
    again_ratio = _log_ratio(again, table)
    for problem, column in zip(problems, told_ratio.T, strict=True):
        if np.isnan(column).all():
            raise UserError(
                f"study {study.name}: no kernel that has a time on {problem.label} is in this version's "
                "space, so it cannot be replayed; choose another study"
            )
    keys = [table.kernel(row).key for row in range(len(table))]
    compile_s = np.array([b.compile_s if (b := ledger.builds.get(key)) else np.nan for key in keys])
    seconds = screening_s(study.events())
    return Recorded(
        candidates=table,
        screened=told_ratio,
        log_ratio=np.where(np.isnan(again_ratio), told_ratio, again_ratio),
        failed=np.array([key in ledger.failed for key in keys]),
        compile_s=np.where(np.isnan(compile_s), np.nanmedian(compile_s), compile_s),
        device_s=np.array([seconds.get(key, 0.0) for key in keys]),
        noise=round_noise(ledger, problems),
        best=tuple(_config(again if again.best(p.key) else ledger, p) for p in problems),
        sources=_sources(ledger, keys),
        notes=tuple(
            _notes(study, space, ledger, again, foreign=len(found) - len(rows), problems=len(problems))
        ),
    ), whole


def _log_ratio(ledger: Ledger, table: Candidates) -> FloatArray:
    """Kernels x problems, the least over a kernel's launches."""
    place = {table.kernel(row).key: row for row in range(len(table))}
    values = np.full((len(table), len(table.problems)), np.nan)
    for column, problem in enumerate(table.problems):
        for rank in ledger.ranking(problem.key):  # fastest first: the first of a kernel is its best
            row = place.get(rank.measurement.kernel.key)
            if row is not None and np.isnan(values[row, column]):
                values[row, column] = -math.log(rank.speedup)
    return values


def _config(ledger: Ledger, problem: Problem) -> Config:
    best = ledger.best(problem.key)
    assert best is not None
    return Config(kernel=best.measurement.kernel, launch=best.measurement.launch)


def _sources(ledger: Ledger, keys: Sequence[str]) -> dict[str, int]:
    proposers = (ledger.proposals[key].source if key in ledger.proposals else "unknown" for key in keys)
    return dict(Counter(proposers).most_common())


def _notes(
    study: Study, space: Space, ledger: Ledger, again: Ledger, *, foreign: int, problems: int
) -> list[str]:
    notes = []
    if configs := sum(map(len, again.measured.values())):
        notes.append(
            f"runs are judged by what {configs} configs, the best of each shape, did when they were measured "
            "again together; a search is told what screening saw"
        )
    if space.digest != study.header.space_digest:
        notes.append("the study was searched in another space than this version's")
    if foreign:
        notes.append(f"{foreign} recorded kernels are not in this version's space and are left out")
    if unfinished := ledger.unfinished():
        notes.append(f"{len(unfinished)} kernels were built but never screened; they are left out")
    if dropped := len(study.problems) - problems:
        notes.append(f"{dropped} problems have no right kernel and are left out")
    return notes
