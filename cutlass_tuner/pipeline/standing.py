"""What a proposer gets to read of a search: a study's records, put as `propose.feedback` wants them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cutlass_tuner.events import Answered
from cutlass_tuner.export.scrub import scrubbed
from cutlass_tuner.fortunes import GAIN
from cutlass_tuner.ideas import Fared, Rejection
from cutlass_tuner.pipeline.screening import Screening
from cutlass_tuner.pipeline.simulated import unrecorded
from cutlass_tuner.propose.context import Context
from cutlass_tuner.propose.feedback import Leader, Standing
from cutlass_tuner.records import Config, Failure, KernelConfig
from cutlass_tuner.refine.search import Search
from cutlass_tuner.statistics import median_us
from cutlass_tuner.study import Best, Study
from cutlass_tuner.study.fared import fared

RANKED = 20
"""As many of a problem's kernels are looked at for other kinds than its best."""
NOT_RECORDED = "not recorded, so nobody knows its time"
"""What is said of a miss. The recording's name is its user's text, and no business of a proposer's."""


@dataclass(frozen=True)
class Leaders:
    """Each problem's best config by its key, as `Screening.remeasure` gave them."""

    of: Mapping[str, Best] = field(default_factory=dict)

    @property
    def geomean(self) -> float | None:
        """Of torch's time / theirs; None without any."""
        logs = [math.log(best.speedup) for best in self.of.values()]
        return math.exp(sum(logs) / len(logs)) if logs else None

    def gained(self, before: Leaders, kernels: Collection[str]) -> bool:
        """Does one of these kernels (keys) lead now, by more than a tie over who led before?"""
        return any(
            best.measurement.kernel.key in kernels
            and (problem not in before.of or math.log(best.speedup / before.of[problem].speedup) > GAIN)
            for problem, best in self.of.items()
        )


def standing(
    context: Context, study: Study, screening: Screening, search: Search, *, before: Leaders, now: Leaders
) -> Standing:
    """How the search stands; `before` are the leaders when the last question was asked."""
    ledger = study.ledger
    others = [
        _leader(study, one)
        for problem in context.problems
        if problem.key in now.of
        for one in _other_kernels(screening.contenders(problem), now.of[problem.key])
    ]
    return Standing(
        built=len(ledger.builds),
        leaders=tuple(_leader(study, best) for best in now.of.values()),
        runners_up=tuple(others),
        fared=tuple(_fared(study, search)),
        failures=tuple(_failures(study)),
        rejected=tuple(_rejected(context, ledger.answered[-1])) if ledger.answered else (),
        geomean=(before.geomean, now.geomean),
    )


def known(study: Study) -> dict[str, str]:
    """Who has each kernel already, in words, by its key: no proposer gets it again."""
    answers = study.ledger.answered
    dropped = {name for answered in answers for name in answered.dropped}
    words = {
        suggestion.kernel.key: f"idea {idea.id} has it already"
        for answered in answers
        for idea in answered.ideas
        if idea.id not in dropped
        for suggestion in idea.suggestions
    }
    for key, proposal in study.ledger.proposals.items():
        words[key] = "it is built already" + (f", for idea {proposal.idea}" if proposal.idea else "")
    for key, event in study.ledger.failed.items():
        words[key] = NOT_RECORDED if _is_miss(study, event.failure) else "it did not build"
    return words


def _leader(study: Study, best: Best) -> Leader:
    one = best.measurement
    proposal = study.ledger.proposals.get(one.kernel.key)
    return Leader(
        problem=one.problem,
        config=Config(kernel=one.kernel, launch=one.launch),
        us=median_us(one.samples_us),
        speedup=best.speedup,
        idea=proposal.idea if proposal is not None else "",
    )


def _other_kernels(ranking: Sequence[Best], best: Best) -> list[Best]:
    """A problem's fastest kernels but for its best, each with its best launch."""
    found = {best.measurement.kernel.key: best}
    for one in ranking:
        found.setdefault(one.measurement.kernel.key, one)
    return list(found.values())[1:RANKED]


def _fared(study: Study, search: Search) -> Iterator[Fared]:
    """How ideas fared. Misses did not fail; and only the search knows that nothing is left in an idea's part
    of the space."""
    failed = study.ledger.failed.values()
    misses = Counter(event.proposal.idea for event in failed if _is_miss(study, event.failure))
    for one in fared(study.ledger):
        fate = search.fate(one.idea.id) if one.fate == "searching" else one.fate
        yield one.model_copy(update={"fate": fate, "failed": one.failed - misses[one.idea.id]})


def _failures(study: Study) -> Iterator[tuple[KernelConfig, str]]:
    """Of kernels that did not build or run; neither what the machine did that day nor misses are any."""
    found = [(event.proposal.kernel, event.failure) for event in study.ledger.failed.values()]
    found += [(event.kernel, event.failure) for event in study.ledger.run_failures]
    for kernel, failure in found:
        if failure.lasting and not _is_miss(study, failure):
            yield kernel, scrubbed(failure.reason)


def _rejected(context: Context, last: Answered) -> Iterator[Rejection]:
    """Kernels spelled as everywhere in a prompt: as differences from the default."""
    suggested = {s.kernel.key: s.kernel for idea in last.ideas for s in idea.suggestions}
    for one in last.rejected:
        kernel = suggested.get(one.what)
        yield one if kernel is None else one.model_copy(update={"what": context.kernel_text(kernel)})


def _is_miss(study: Study, failure: Failure) -> bool:
    """Is this what a simulated study says of a kernel or a config that nobody recorded?"""
    simulated = study.header.simulated
    return bool(simulated) and failure.reason == unrecorded(simulated)
