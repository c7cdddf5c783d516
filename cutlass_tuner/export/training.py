"""A study's search as training data: JSON lines of what was asked, proposed, refused and measured.

Every line stands alone: it says which study, op and GPU it is of. Nothing else of the environment is
written, and every text is scrubbed (`export.scrub`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cutlass_tuner.events import Answered, Asked, KernelFailed, RunFailed, StudyHeader
from cutlass_tuner.export.scrub import deeply
from cutlass_tuner.export.training_lines import (
    ConfigLine,
    ExchangeLine,
    FailureText,
    IdeaLine,
    Line,
    NoMeasurement,
    RejectedLine,
    Result,
    WrongAnswer,
)
from cutlass_tuner.ideas import Fared, Idea
from cutlass_tuner.records import Build, Failure, Measurement, Proposal


class Ranked(Protocol):
    """A verified measurement and its reference's time / its time."""

    @property
    def measurement(self) -> Measurement: ...
    @property
    def speedup(self) -> float: ...


@dataclass(frozen=True)
class SearchLog:
    """What a study's ledger knows. Keys are kernels' and problems' `key`; `rankings` holds the verified
    configs on each problem, fastest first, and `fared` every idea."""

    header: StudyHeader
    asked: Sequence[Asked]
    answered: Sequence[Answered]
    fared: Sequence[Fared]
    proposals: Mapping[str, Proposal]
    builds: Mapping[str, Build]
    failed: Mapping[str, KernelFailed]
    measured: Mapping[str, Sequence[Measurement]]
    run_failures: Sequence[RunFailed]
    rankings: Mapping[str, Sequence[Ranked]]


def to_jsonl(log: SearchLog) -> str:
    """The lines: each round's exchange, refusals and ideas, then the kernels in the order they were built."""
    lines = (json.dumps(deeply(line.model_dump(mode="json")), ensure_ascii=False) for line in _lines(log))
    return "".join(f"{line}\n" for line in lines)


def _lines(log: SearchLog) -> Iterator[Line]:
    same = _same(log.header)
    fared = {one.idea.id: one for one in log.fared}
    rounds = {idea.id: answered.round for answered in log.answered for idea in answered.ideas}
    for answered in log.answered:
        yield _exchange(same, _question(log.asked, answered), answered)
        for refused in answered.rejected:
            yield RejectedLine(**same, round=answered.round, **refused.model_dump())
        for adopted in answered.ideas:
            yield _idea(same, answered.round, fared[adopted.id])
    results = _results(log)
    for key, proposal in log.proposals.items():
        idea = fared[proposal.idea].idea if proposal.idea in fared else None
        outcome = {**_built(log.builds.get(key), log.failed.get(key)), "results": tuple(results.get(key, ()))}
        yield _config(same, proposal, idea, rounds.get(proposal.idea, 0), outcome)


def _question(asked: Sequence[Asked], answered: Answered) -> Asked | None:
    """The last question of that round before its answer."""
    before = (one for one in reversed(asked) if one.round == answered.round and one.at_s <= answered.at_s)
    return next(before, None)


def _same(header: StudyHeader) -> dict[str, Any]:
    """The fields that all lines of a study share, chosen one by one: not all of an environment may leave."""
    environment = header.environment
    return {
        "study": header.name,
        "op": header.op,
        "gpu": environment.gpu,
        "arch": environment.arch,
        "sm_count": environment.sm_count,
        "cuda": environment.cuda,
        "cutlass": environment.cutlass,
        "l2": header.l2,
        "simulated": header.simulated,
    }


def _exchange(same: dict[str, Any], asked: Asked | None, answered: Answered) -> ExchangeLine:
    answer = answered.answer
    return ExchangeLine(
        **same,
        round=answered.round,
        transport=answered.transport,
        model=answer.model,
        prompt_digest=asked.prompt_digest if asked else "",
        schema_digest=asked.schema_digest if asked else "",
        prompt=asked.prompt if asked else "",
        reply=answer.text,
        stop=answer.stop,
        usage=answer.usage,
        failure=_failure(answer.failure),
        ideas=tuple(idea.id for idea in answered.ideas),
        dropped=answered.dropped,
        rejected=len(answered.rejected),
    )


def _idea(same: dict[str, Any], round_: int, fared: Fared) -> IdeaLine:
    idea = fared.idea
    return IdeaLine(
        **same,
        round=round_,
        id=idea.id,
        parent=idea.parent,
        hypothesis=idea.hypothesis,
        bottleneck=idea.bottleneck,
        targets=idea.targets,
        expected=idea.expected,
        achieved=fared.achieved,
        fate=fared.fate,
        built=fared.built,
        failed=fared.failed,
        speedup=fared.speedup,
        leads=fared.leads,
        family=idea.family,
        configs=tuple(one.kernel.knobs for one in idea.suggestions),
        narrowed=idea.narrowed,
        couplings=idea.couplings,
    )


def _config(
    same: dict[str, Any], proposal: Proposal, idea: Idea | None, round_: int, outcome: dict[str, Any]
) -> ConfigLine:
    suggestions = idea.suggestions if idea else ()
    launches = [launch for one in suggestions if one.kernel == proposal.kernel for launch in one.launches]
    return ConfigLine(
        **same,
        round=round_,
        idea=proposal.idea,
        source=proposal.source,
        family=proposal.kernel.family,
        kernel=proposal.kernel.knobs,
        suggested=tuple(launch.knobs for launch in launches),
        **outcome,
    )


def _built(build: Build | None, failed: KernelFailed | None) -> dict[str, Any]:
    """A kernel whose proposal is known was built or failed to build."""
    return {
        "outcome": "built" if build else "build_failed",
        "failure": _failure(failed.failure if failed and not build else None),
        "registers": build.registers if build else None,
        "spill_bytes": build.spill_bytes if build else None,
        "smem_bytes": build.smem_bytes if build else None,
    }


def _results(log: SearchLog) -> dict[str, list[Result]]:
    """By kernel: its result on each problem it was tried on."""
    tried: dict[tuple[str, str], list[Measurement]] = {}
    failed: dict[tuple[str, str], list[RunFailed]] = {}
    best: dict[tuple[str, str], Ranked] = {}
    for problem, measurements in log.measured.items():
        for one in measurements:
            tried.setdefault((one.kernel.key, problem), []).append(one)
        for ranked in log.rankings[problem]:
            best.setdefault((ranked.measurement.kernel.key, problem), ranked)
    for event in log.run_failures:
        failed.setdefault((event.kernel.key, event.problem), []).append(event)
    results: dict[str, list[Result]] = {}
    for pair in dict.fromkeys((*tried, *failed)):
        kernel, problem = pair
        result = _result(problem, tried.get(pair, []), failed.get(pair, []), best.get(pair))
        results.setdefault(kernel, []).append(result)
    return results


def _result(
    problem: str, tried: Sequence[Measurement], failed: Sequence[RunFailed], best: Ranked | None
) -> Result:
    return Result(
        problem=problem,
        launch=best.measurement.launch.knobs if best else None,
        speedup=best.speedup if best else None,
        reference=best.measurement.reference if best else "",
        samples=len(best.measurement.samples_us) if best else 0,
        launches=len({one.launch.key for one in tried}),
        wrong=tuple(
            WrongAnswer(launch=one.launch.knobs, reasons=one.verdict.reasons)
            for one in tried
            if not one.verdict.passed
        ),
        failed=tuple(
            NoMeasurement(launch=one.launch.knobs if one.launch else None, failure=_text(one.failure))
            for one in failed
        ),
    )


def _failure(failure: Failure | None) -> FailureText | None:
    return _text(failure) if failure else None


def _text(failure: Failure) -> FailureText:
    return FailureText(stage=failure.stage, reason=failure.reason, detail=failure.detail)
