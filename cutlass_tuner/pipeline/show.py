"""`show`: what a study holds, from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cutlass_tuner import settings
from cutlass_tuner.compare import against, rows, summary
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ShowOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.simulated import label
from cutlass_tuner.records import Config
from cutlass_tuner.report import ideas, summaries, tables
from cutlass_tuner.report.tables import counted
from cutlass_tuner.results import Row, headline
from cutlass_tuner.study import Study
from cutlass_tuner.study.fared import fared

FAILURES_SHOWN = 5


def open_study(name: str, studies: Path) -> Study:
    """A study to read: by name under `studies`, by path, or a shipped one. UserError where there is none."""
    return Study.load(studies, name, shipped=settings.data_dir("studies"))


def show(options: ShowOptions) -> str:
    study = open_study(options.study, options.studies)
    op = registry.op(study.header.op)
    environment, counts = study.header.environment, study.summary()
    head = [
        f"study {study.name}: {op.name}, {counted(len(study.problems), 'shape')}, L2 {study.header.l2}",
        f"{environment.gpu}, driver {environment.driver}, CUDA {environment.cuda}, "
        f"CUTLASS {environment.cutlass}, cuBLAS {environment.cublas}, torch {environment.torch}"
        + "".join(f", {name} {version}" for name, version in environment.libraries.items()),
        f"{counted(counts.built, 'kernel')} built, {counts.build_failed} failed to build; "
        f"{counted(counts.measured, 'measurement')}, {counts.wrong} wrong, {counts.run_failed} failed, "
        f"{counted(counts.condemned, 'kernel')} condemned; {counts.elapsed_s:.0f} s, "
        f"begun {study.header.created}",
    ]
    failed = list(study.ledger.failed.values())[:FAILURES_SHOWN]
    reasons = [f"  not built: {e.proposal.kernel.key}: {e.failure.reason}" for e in failed]
    return "\n".join([*head, *reasons, *_ideas(study), "", result_text(study, op)])


def _ideas(study: Study) -> list[str]:
    """What a proposer said and how its ideas fared; [] where nobody was asked."""
    answered = study.ledger.answered
    if not answered:
        return []
    labels = {problem.key: problem.label for problem in study.problems}
    width = tables.terminal_width()
    told = ideas.ideas_table(fared(study.ledger), labels, width)
    head = ["", "ideas, by torch's time / ours as screened:", told] if told else []
    refused = ideas.rejections(answered, FAILURES_SHOWN, width)
    return ["", *ideas.conversation_lines(answered), *refused, *head]


def study_rows(study: Study, op: registry.Op) -> list[Row]:
    """One row a problem, from the study's last finals."""
    return rows(
        study.ledger.finals.values(),
        study.ledger.baselines.values(),
        study.problems,
        names=op.baselines,
        device=study.header.device,
        flops=op.flops,
        bytes_=op.bytes,
    )


def result_text(study: Study, op: registry.Op, style: tables.Style = "simple") -> str:
    """The result table and the summaries of a study, after its label where it was simulated."""
    table = study_rows(study, op)
    text = rows_text(table, op, study.header.device.arch, style)
    return "\n".join([*label(study, op, table), text])


def rows_text(table: Sequence[Row], op: registry.Op, arch: str, style: tables.Style = "simple") -> str:
    """A comparison: its table, the winners, a summary against every baseline that was measured, the
    control, and the share of the roofline."""
    lines = [tables.results(table, style, headline(op)), ""]
    if any(row.winner for row in table):
        default = default_config(op, arch)
        lines += [tables.configs(table, default, style, tables.terminal_width()), ""]
    first, *others = [summary(table, baseline) for baseline in against(op)]
    lines += summaries.summary_lines([first, *(s for s in others if s.compared)])
    closing = [summaries.control_line(table), summaries.roofline_line(first)]
    return "\n".join([*lines, *filter(None, closing)])


def default_config(op: registry.Op, arch: str) -> Config | None:
    """The op's default kernel and launch, which tables show configs as differences from."""
    if arch not in op.spaces:
        return None
    space = setup.Space.of(op.name, arch)
    return Config(kernel=space.kernel(), launch=space.launch())
