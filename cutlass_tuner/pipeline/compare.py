"""`compare`: the baselines on a file of shapes, and a study's winners beside them, measured afresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cutlass_tuner.build.batches import batches
from cutlass_tuner.build.pool import Pool, default_jobs
from cutlass_tuner.compare import rows
from cutlass_tuner.errors import UserError
from cutlass_tuner.events import BaselineMeasured, BaselineResult, FinalRow, Finished
from cutlass_tuner.ops import registry
from cutlass_tuner.options import CompareOptions
from cutlass_tuner.pipeline import baselines, finals, setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.pipeline.searching import BATCH
from cutlass_tuner.pipeline.show import open_study, rows_text
from cutlass_tuner.records import (
    Build,
    Config,
    Failure,
    Problem,
)
from cutlass_tuner.report import tables
from cutlass_tuner.report.progress import Progress
from cutlass_tuner.report.tables import counted
from cutlass_tuner.study import Study
from cutlass_tuner.wire import ContestResult


def compare(options: CompareOptions) -> str:
    """The comparison table. Without a study it has the baselines alone."""
    op = registry.op(options.op)
    problems = op.read_shapes(options.shapes)
    if options.save is not None and not options.save.parent.is_dir():
        raise UserError(f"--save {options.save}: there is no folder {options.save.parent}")
    study = open_study(options.study, options.studies) if options.study else None
    if study is not None and study.header.op != op.name:
        raise UserError(f"study {study.name} is of {study.header.op}, not of {op.name}")
    results: list[BaselineResult] = []
    finished: list[FinalRow] = []
    title = f"compare {op.name}, {counted(len(problems), 'shape')}"
    with Bench(op, options.l2, options.gpu, setup.child_log()) as bench:
        device = bench.describe().device
        setup.check_fits(op, problems, device)
        winners = _winners(study, problems)
        with Progress(title) as progress:
            progress.update(activity=f"building the winners of {counted(len(winners), 'shape')}")
            builds = _built(winners, op, device.arch, options) if winners else {}
            if study is not None and (study.header.device.name, study.header.l2) != (device.name, options.l2):
                progress.note(
                    f"the study was measured on {study.header.device.name}, L2 {study.header.l2}; this is "
                    f"{device.name}, L2 {options.l2}"
                )
            for number, problem in enumerate(problems):
                progress.update(activity=f"{problem.label} ({number + 1} of {len(problems)})")
                config = winners.get(problem.key)
                ours = _finalist(config, builds)
                if config is not None and ours is None:
                    progress.note(f"{problem.label}: the study's winner cannot be built, see `build`")
                row = _measure(bench, problem, ours, results)
                if isinstance(row, Failure):
                    progress.note(f"{problem.label}: {row.reason}")
                else:
                    finished.append(row)
    table = rows(
        finished,
        results,
        problems,
        names=op.baselines,
        device=device,
        flops=op.flops,
        bytes_=op.bytes,
    )
    if options.save is not None:
        _save(options.save, results, finished)
    if study is None:
        return tables.baselines(table)
    return rows_text(table, op, device.arch)


def _save(path: Path, results: Sequence[BaselineResult], finished: Sequence[FinalRow]) -> None:
    """The raw samples, as the events that a study would hold."""
    events = [BaselineMeasured(result=result, at_s=0.0) for result in results]
    lines = [e.model_dump_json() for e in (*events, *(Finished(row=row, at_s=0.0) for row in finished))]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _winners(study: Study | None, problems: Sequence[Problem]) -> dict[str, Config]:
    """The study's winner, else its best verified config, by problem key."""
    winners: dict[str, Config] = {}
    for problem in problems if study is not None else ():
        assert study is not None
        row, best = study.ledger.finals.get(problem.key), study.best(problem.key)
        if row is not None and row.winner is not None:
            winners[problem.key] = row.winner
        elif best is not None:
            winners[problem.key] = Config(kernel=best.measurement.kernel, launch=best.measurement.launch)
    return winners


def _built(
    winners: Mapping[str, Config], op: registry.Op, arch: str, options: CompareOptions
) -> dict[str, Build | Failure]:
    """The winners' kernels, by key, all compilers at work."""
    found = setup.toolchain(options.toolchain)
    builder = setup.builder(found, arch, op, options.toolchain)
    kernels = list({config.kernel.key: config.kernel for config in winners.values()}.values())
    jobs = options.toolchain.jobs or default_jobs()
    with Pool(builder, jobs) as pool:
        for batch in batches(kernels, setup.emitter(op), BATCH, workers=jobs):
            pool.submit(batch)
        return {kernel.key: outcome for kernel, outcome in pool.drain()}


def _finalist(config: Config | None, builds: Mapping[str, Build | Failure]) -> finals.Finalist | None:
    """What to measure; None where there is no winner or it cannot be built."""
    if config is None:
        return None
    build = builds[config.kernel.key]
    return None if isinstance(build, Failure) else finals.Finalist(build, config.launch)


def _measure(
    bench: Bench, problem: Problem, ours: finals.Finalist | None, results: list[BaselineResult]
) -> FinalRow | Failure:
    tuned = None
    if bench.op.tunes_baseline:
        tuned = baselines.tune_cublaslt(bench, problem, finals.effort(bench.op, problem).algorithms)
    theirs = baselines.entries(bench.op, problem, tuned.algorithm if tuned else "")
    final = finals.final_contests(bench, problem, theirs, [ours] if ours is not None else [])
    if isinstance(final, Failure):
        return final
    measured = {result.name: result for result in baselines.results(theirs, problem, final)}
    if tuned is not None:
        in_contest = measured.get(tuned.name)
        measured[tuned.name] = tuned if in_contest is None else baselines.as_tried(in_contest, tuned)
    results += measured.values()
    return finals.final_row(bench, problem, final, *_judged(bench, problem, ours, final))


def _judged(
    bench: Bench, problem: Problem, ours: finals.Finalist | None, final: Sequence[ContestResult]
) -> tuple[Config | None, str]:
    """Our config, the last entry of every contest, where it was right in all; else why it is not shown."""
    if ours is None:
        return None, ""
    for result in final:
        one = bench.measurement(ours.build.kernel, ours.launch, problem, result, len(result.entries) - 1)
        if isinstance(one, Failure):
            return None, f"the study's kernel failed: {one.reason}"
        if not one.verdict.passed:
            return None, f"the study's kernel gave a wrong answer: {'; '.join(one.verdict.reasons)}"
    return ours.config, ""
