"""`lab`: a recorded study searched again in several ways, many times, and who gets near its best first."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import track

from cutlass_tuner.compare.regret import Run
from cutlass_tuner.errors import UserError
from cutlass_tuner.ops import registry
from cutlass_tuner.options import LabOptions, SpaceOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.lab_arms import ARMS, HEURISTICS, LLM, NVMMH, Arm, Lab, replay
from cutlass_tuner.pipeline.lab_data import recorded
from cutlass_tuner.pipeline.lab_replies import read_set
from cutlass_tuner.pipeline.lab_report import summary, write
from cutlass_tuner.pipeline.lab_verdict import Outcome
from cutlass_tuner.pipeline.searching import SEEDS
from cutlass_tuner.pipeline.show import open_study
from cutlass_tuner.propose import nvmmh
from cutlass_tuner.records import Failure, Proposal
from cutlass_tuner.report.progress import PLAIN_EVERY_S
from cutlass_tuner.report.tables import counted
from cutlass_tuner.space import Candidates
from cutlass_tuner.study import Study


def lab(options: LabOptions) -> str:
    """Run all arms, write the report to `options.out`, and return its table and verdict."""
    asked = _asked(options)
    study = open_study(options.data, options.studies)
    op = registry.op(study.header.op)
    space = setup.space(op, study.header.device.arch, SpaceOptions())
    table, whole = recorded(study, space)
    sets = [read_set(folder, study, op, space, table) for folder in options.replies]
    starts, notes = _starts(asked, study, op, space, whole)
    arms = [arm for arm in asked if starts.keys() >= set(arm.proposers) - {LLM}]
    if not arms:
        raise UserError(f"no arm can run: {'; '.join(notes)}")
    _make_folder(options.out)
    shared = Lab(
        recorded=table,
        knobs=space.kernel_knobs(),
        emitter=setup.emitter(op),
        estimate_us=op.prior(table.candidates, table.problems, study.header.device),
        starts=starts,
        replies=tuple(one.rounds for one in sets),
        builds=options.builds,
    )
    runs = _run_all(shared, arms, options.seeds, options.jobs or len(os.sched_getaffinity(0)))
    outcome = Outcome(options, study, space, table, sets, runs, (*table.notes, *notes))
    written = write(outcome)
    return "\n".join([summary(outcome), "", *written])


def _asked(options: LabOptions) -> list[Arm]:
    """The arms to run, in the order of `ARMS`. Raises UserError for a name that is none, or lacks replies."""
    if options.arms is None:
        return [arm for arm in ARMS.values() if options.replies or not arm.asks_llm]
    for name in options.arms:
        if name not in ARMS:
            raise UserError(f"--arm {name}: no such arm; there are {', '.join(ARMS)}")
        if ARMS[name].asks_llm and not options.replies:
            raise UserError(
                f"--arm {name} needs replies of a language model; give their folder with --replies"
            )
    return [arm for arm in ARMS.values() if arm.name in options.arms]


def _starts(
    arms: Sequence[Arm], study: Study, op: registry.Op, space: setup.Space, whole: Candidates
) -> tuple[dict[str, tuple[Proposal, ...]], list[str]]:
    """The first kernels of each proposer that the arms name, chosen from the whole space as `tune` does; and
    a line for each that cannot name any."""
    wanted = {proposer for arm in arms for proposer in arm.proposers}
    device = study.header.device
    starts: dict[str, tuple[Proposal, ...]] = {}
    notes = []
    if HEURISTICS in wanted:
        estimate_us = op.prior(whole, whole.problems, device)
        starts[HEURISTICS] = tuple(op.seeds(space, whole, estimate_us, whole.problems, device)[:SEEDS])
    if NVMMH in wanted:
        found = nvmmh.proposals(space, whole.problems, device, SEEDS)
        if isinstance(found, Failure):
            notes.append(f"no arm with nvMatmulHeuristics: {found.reason}")
        else:
            starts[NVMMH] = tuple(found)
    return starts, notes


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write to {out}: {error.strerror}; choose another folder with --out"
        ) from error


# --- running

_shared: list[Lab] = []
"""In a worker: what all its runs share."""


def _run_all(shared: Lab, arms: Sequence[Arm], seeds: int, jobs: int) -> list[Run]:
    """One run for each arm and seed, arms in their order; the same runs whatever `jobs` is."""
    tasks = [(arm.name, seed) for arm in arms for seed in range(seeds)]
    # Optuna's GP takes a hundred times as long as the others: last of all it would keep one core busy alone.
    tasks.sort(key=lambda task: ARMS[task[0]].sampler != "gp")
    title = f"lab: {counted(len(arms), 'arm')}, {counted(seeds, 'seed')}"
    runs = list(_shown(_runs(shared, tasks, jobs), title, len(tasks)))
    order = [arm.name for arm in arms]
    return sorted(runs, key=lambda run: (order.index(run.arm), run.seed))


def _shown(runs: Iterator[Run], title: str, total: int) -> Iterator[Run]:
    """The runs, with what is done of them on stderr: a bar on a terminal, else a line now and then."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        yield from track(runs, title, total=total, console=console)
        return
    said = time.monotonic()
    for done, run in enumerate(runs, start=1):
        yield run
        if time.monotonic() - said >= PLAIN_EVERY_S or done == total:
            said = time.monotonic()
            console.print(f"{title}: {done} of {counted(total, 'run')}", soft_wrap=True)


def _runs(shared: Lab, tasks: Sequence[tuple[str, int]], jobs: int) -> Iterator[Run]:
    """The runs as they come to an end."""
    if min(jobs, len(tasks)) == 1:
        yield from (replay(shared, arm, seed) for arm, seed in tasks)
        return
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), mp_context=get_context("spawn"), initializer=_share, initargs=(shared,)
    )
    try:
        futures: list[Future[Run]] = [pool.submit(_run, arm, seed) for arm, seed in tasks]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _share(shared: Lab) -> None:
    _shared[:] = [shared]


def _run(arm: str, seed: int) -> Run:
    return replay(_shared[0], arm, seed)
