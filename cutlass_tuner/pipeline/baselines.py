"""The baselines of a problem: as entrants of a contest, and what contests say of them."""

from __future__ import annotations

from collections.abc import Sequence

from cutlass_tuner.events import BaselineResult
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Failure, Problem
from cutlass_tuner.results import CONTROL, LT_TUNED, TORCH, in_layout
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.wire import BaselineEntry, ContestResult, Refused, Timed


def entries(op: Op, problem: Problem, tuned: str) -> list[BaselineEntry]:
    """Every baseline of the op: torch first (the reference) and once more as a control, then the others
    (an auto-tuned one only with `tuned`, its algorithm in hex), and torch in the other layouts, for the
    column in which the baseline may choose."""
    found = [BaselineEntry(name=name, layout=problem.layout) for name in (TORCH, CONTROL)]
    for name in op.baselines:
        if name == LT_TUNED and tuned:
            found.append(BaselineEntry(name=name, layout=problem.layout, algorithm=tuned))
        elif name not in (TORCH, LT_TUNED):
            found.append(BaselineEntry(name=name, layout=problem.layout))
    return found + [
        BaselineEntry(name=in_layout(TORCH, layout), layout=layout)
        for layout in _other_layouts(op)
        if layout != problem.layout
    ]


def entrants(op: Op) -> int:
    """How many meet in a final at most: the winner, and every baseline as `entries` has them."""
    return 1 + len((CONTROL, *op.baselines)) + max(0, len(_other_layouts(op)) - 1)


def _other_layouts(op: Op) -> tuple[str, ...]:
    """What torch may choose from; nothing where there is no choice."""
    return op.baseline_layouts if len(op.baseline_layouts) > 1 else ()


def results(
    entries: Sequence[BaselineEntry], problem: Problem, contests: Sequence[ContestResult]
) -> tuple[BaselineResult, ...]:
    """What the contests say of each baseline; `entries` are the first of every contest."""
    return tuple(
        _result(entry, problem, [contest.entries[index] for contest in contests])
        for index, entry in enumerate(entries)
    )


def _result(entry: BaselineEntry, problem: Problem, outcomes: Sequence[Timed | Refused]) -> BaselineResult:
    timed = [outcome for outcome in outcomes if isinstance(outcome, Timed)]
    failures = [outcome.failure for outcome in outcomes if isinstance(outcome, Refused)]
    for outcome in timed:
        # A baseline may legally reduce in its output's type, so it is held to the bound, not to the probe.
        verdict = judge(outcome.evidence.model_copy(update={"exact_mismatches": 0}), False)
        if not verdict.passed:
            failures.append(Failure(stage="verify", reason="; ".join(verdict.reasons)))
    return BaselineResult(
        name=entry.name,
        problem=problem.key,
        layout=entry.layout,
        samples_us=tuple(us for outcome in timed for us in outcome.samples_us),
        workspace_bytes=timed[-1].workspace_bytes if timed else 0,
        algorithm=entry.algorithm,
        evidence=timed[-1].evidence if timed else None,
        failure=failures[0] if failures else None,
    )


def tune_cublaslt(bench: Bench, problem: Problem, algorithms: int) -> BaselineResult:
    """cuBLASLt's best of so many algorithms: what was tried and what won, measured beside nothing yet."""
    tuned = bench.tune_baseline(problem, algorithms)
    result = BaselineResult(
        name=LT_TUNED, problem=problem.key, layout=problem.layout, samples_us=(), workspace_bytes=0
    )
    if isinstance(tuned, Failure):
        return result.model_copy(update={"failure": tuned})
    found = {
        "workspace_bytes": tuned.workspace_bytes,
        "algorithm": tuned.algorithm,
        "tried": len(tuned.tried_us),
        "tried_us": tuned.tried_us,
        "rejected": tuned.rejected,
    }
    return result.model_copy(update=found)


def as_tried(result: BaselineResult, before: BaselineResult) -> BaselineResult:
    """`result` with what was tried to find its algorithm, which a contest alone does not know."""
    kept = {name: getattr(before, name) for name in ("tried", "tried_us", "rejected")}
    return result.model_copy(update=kept)
