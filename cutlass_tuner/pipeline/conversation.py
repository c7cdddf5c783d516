"""Rounds of questions to a proposer while the GPU measures: when one is put, and what its answer leads to.

A round ends when its kernels are measured and the sampler had its turn on them. Whatever becomes of a
question, the search goes on: an answer that fails costs its round, and two in vain end the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from cutlass_tuner.events import Answered, Asked, KernelFailed
from cutlass_tuner.fortunes import NO_SPACE, ROUND, SAMPLER
from cutlass_tuner.ideas import Answer, Idea, Rejection
from cutlass_tuner.pipeline.asking import Asking, Heard
from cutlass_tuner.pipeline.screening import Screening
from cutlass_tuner.pipeline.standing import NOT_RECORDED, Leaders, known, standing
from cutlass_tuner.propose import reply
from cutlass_tuner.propose.context import Context
from cutlass_tuner.propose.markdown import line
from cutlass_tuner.propose.prompt import request
from cutlass_tuner.propose.transport import Transport
from cutlass_tuner.records import Build, Failure, KernelConfig, Proposal
from cutlass_tuner.refine.search import Search
from cutlass_tuner.report.tables import counted
from cutlass_tuner.study import Study

FOLLOW_UPS = 0.5
"""Kernels of the sampler's that a round waits for beside its own, as a share of those, but a full batch at
least: somebody must have looked into the parts of the space that its ideas open."""
VAIN_ROUNDS = 2
"""Rounds in a row without gain, or without an answer, after which nobody is asked again."""
AT_ONCE_S = 0.5
"""Recorded replies are there at once: waiting for the first spares it a race against the first builds."""
REASON_CHARACTERS = 160
"""As much of a reason is printed; the journal has the whole."""

WITHOUT = "the search goes on without a language model"


class Conversation:
    """Questions to a proposer on one study. `transport` None: nobody is asked.

    For one thread, which calls `begin`, then `hear` and `go_on` now and then, and `settle` for every kernel
    that is measured or failed; `close` ends it at once. `in_flight` are the proposals that are being built,
    by kernel key; `ready` gives a kernel that was built before; `more` says whether time and builds are left
    for further kernels; `note` shows a line.
    """

    def __init__(
        self,
        transport: Transport | None,
        context: Context,
        study: Study,
        screening: Screening,
        search: Search,
        *,
        in_flight: Mapping[str, Proposal],
        ready: Callable[[KernelConfig], Build | Failure],
        more: Callable[[], bool],
        rounds: int,
        note: Callable[[str], None],
    ) -> None:
        self._asking = None if transport is None else Asking(transport)
        self._context, self._study, self._screening, self._search = context, study, screening, search
        self._in_flight, self._ready, self._more = in_flight, ready, more
        self._rounds, self._note = rounds, note
        self._leaders = Leaders()
        """When the last question was put."""
        self._has_ideas = False
        """Is there a round with ideas to be worked off and judged?"""
        self._vain = 0
        self._awaited = 0
        """Kernels that have still to be measured, beside suggestions, before the next question."""
        self._not_awaited: set[str] = set()
        """Kernels that do not count among those: they were in flight when the last answer came."""

    @property
    def thinking(self) -> bool:
        """Is an answer awaited?"""
        return self._asking is not None and self._asking.thinking

    def begin(self) -> None:
        """Ask for the first ideas. A study that was interrupted goes on with those it has: see `go_on`."""
        if self._asking is None or self._used_up():
            return
        self._note(self._asking.transport.introduce())
        self._has_ideas = self._unfinished()
        if self._has_ideas:
            self._leaders = Leaders(self._screening.remeasure(self._ready, lambda: False))
        elif not self._study.ledger.told:
            self._ask(Leaders())
            self.hear(AT_ONCE_S)

    def hear(self, timeout_s: float = 0.0) -> None:
        """Take over an answer that has come, or comes within `timeout_s`."""
        heard = self._asking.hear(timeout_s) if self._asking is not None else None
        if heard is None:
            return
        if heard.answer is None:
            self._end(f"there are no more replies: {WITHOUT}")
        else:
            self._take_over(heard, heard.answer)

    def go_on(self, idle: bool = False) -> None:
        """Ask again once the last round is worked off, if there is time. `idle`: nothing is left to build, so
        that no more will come of it."""
        waits = self.thinking or self._unfinished() or (self._awaited > 0 and not idle)
        if self._asking is None or waits or not self._more() or self._used_up():
            return
        before, self._leaders = self._leaders, self._measured_again()
        if self._has_ideas:
            self._has_ideas = False
            mine = {key for key, proposal in self._study.ledger.proposals.items() if proposal.idea}
            self._vain = 0 if self._leaders.gained(before, mine) else self._vain + 1
        if self._vain >= VAIN_ROUNDS:
            self._end(f"{VAIN_ROUNDS} rounds in a row brought nothing: {WITHOUT}")
        else:
            self._ask(before)

    def settle(self, proposal: Proposal) -> None:
        """This kernel was in flight, and has been measured or failed."""
        if proposal.kernel.key in self._not_awaited:
            self._not_awaited.discard(proposal.kernel.key)
        elif proposal.source == SAMPLER or not self._has_ideas:
            self._awaited -= 1

    def close(self) -> None:
        """Ask no more, and wait for no answer. May be called again."""
        if self._asking is not None:
            self._asking.close()
        self._asking = None

    # --- questions

    def _used_up(self) -> bool:
        """Was the proposer asked as often as it may be? Then that is said, and the conversation is over."""
        asked = len(self._study.ledger.answered)
        if asked >= self._rounds:
            self._end(f"the language model was asked {counted(asked, 'time')}, --llm-rounds allows no more")
        return asked >= self._rounds

    def _measured_again(self) -> Leaders:
        return Leaders(self._screening.remeasure(self._ready, self._more))

    def _ask(self, before: Leaders) -> None:
        """Put the next question. `before`: who led when the last one was put."""
        assert self._asking is not None
        stands = None
        if self._study.ledger.told:
            context, study, screening = self._context, self._study, self._screening
            stands = standing(context, study, screening, self._search, before=before, now=self._leaders)
        question = request(self._context, len(self._study.ledger.answered) + 1, stands)
        self._asking.put(question, self._study.now_s())

    def _ideas(self) -> list[Idea]:
        return [idea for answered in self._study.ledger.answered for idea in answered.ideas]

    def _unfinished(self) -> bool:
        """Is a suggestion still to come: does it wait to be built, or is it being built? One that the machine
        failed on is neither."""
        pool = self._search.pool
        kernels = (
            suggestion.kernel
            for idea in self._ideas()
            if self._search.fate(idea.id) != "dropped"
            for suggestion in idea.suggestions
        )
        return any(
            kernel.key in self._in_flight or ((row := pool.row(kernel)) is not None and pool.fresh[row])
            for kernel in kernels
        )

    # --- answers

    def _take_over(self, heard: Heard, answer: Answer) -> None:
        """An answer into the search and the study."""
        reading = self._read(answer)
        refused = [self._reworded(one) for one in self._search.adopt(reading.ideas)]
        self._search.drop(reading.dropped)
        self._screening.suggest(reading.ideas)
        event = self._record(heard, answer, reading, refused)
        missed = {one.what for one in refused}
        self._count_misses(reading.ideas, missed)
        self._await_kernels(reading.ideas, missed)
        ends = answer.failure is not None and answer.failure.lasting
        if not reading.ideas:
            self._vain += 1
            ends = ends or self._vain >= VAIN_ROUNDS
        self._note(said(event) + (f"; {WITHOUT}" if ends else ""))
        if ends:
            self.close()

    def _read(self, answer: Answer) -> reply.Reading:
        if answer.failure is not None:
            return reply.Reading()
        context, ideas = self._context, {idea.id for idea in self._ideas()}
        space, problems, device = context.space, context.problems, context.device
        return reply.read(answer.text, space, problems, device, known=known(self._study), ideas=ideas)

    def _reworded(self, refused: Rejection) -> Rejection:
        """Where a recording is replayed, what is no candidate is a miss."""
        if not self._study.header.simulated or refused.what == NO_SPACE:
            return refused
        return refused.model_copy(update={"reason": NOT_RECORDED})

    def _record(
        self, heard: Heard, answer: Answer, reading: reply.Reading, refused: Collection[Rejection]
    ) -> Answered:
        """Into the journal, the question with its answer: one that nothing came of is put again."""
        assert self._asking is not None
        question, transport = heard.question, self._asking.transport.name
        asked = Asked(
            round=question.round,
            transport=transport,
            prompt=question.prompt,
            prompt_digest=question.digest,
            schema_digest=question.schema_digest,
            at_s=heard.asked_s,
        )
        answered = Answered(
            round=question.round,
            transport=transport,
            answer=answer,
            ideas=reading.ideas,
            dropped=reading.dropped,
            rejected=(*reading.rejected, *refused),
            at_s=self._study.now_s(),
        )
        self._study.append(asked)
        self._study.append(answered)
        return answered

    def _count_misses(self, ideas: Collection[Idea], missed: Collection[str]) -> None:
        """On a simulated device: what was proposed and is not recorded is a kernel that failed to build, as
        long as kernels may be asked for."""
        if not self._study.header.simulated:
            return
        for idea in ideas:
            for kernel in (s.kernel for s in idea.suggestions if s.kernel.key in missed):
                outcome = self._ready(kernel)
                if isinstance(outcome, Failure) and self._more():
                    proposal = Proposal(kernel=kernel, source="llm", idea=idea.id)
                    now_s = self._study.now_s()
                    self._study.append(KernelFailed(proposal=proposal, failure=outcome, at_s=now_s))

    def _await_kernels(self, ideas: Collection[Idea], missed: Collection[str]) -> None:
        """What the next question waits for, beside this round's suggestions. After an answer without ideas:
        that something is measured, so that it is not the same question again."""
        self._has_ideas = bool(ideas)
        self._not_awaited = set(self._in_flight) if ideas else set()
        suggested = {s.kernel.key for idea in ideas for s in idea.suggestions} - set(missed)
        searched = any(idea.searches for idea in ideas)
        self._awaited = max(ROUND, round(FOLLOW_UPS * len(suggested))) if searched or not ideas else 0

    def _end(self, why: str) -> None:
        self._note(why)
        self.close()


def said(event: Answered) -> str:
    """A line on what came of a round, with nothing in it that a terminal would act on."""
    answer = event.answer
    if answer.failure is not None:
        parts = [f"no ideas from the language model: {line(answer.failure.reason, REASON_CHARACTERS)}"]
    else:
        kernels = sum(len(idea.suggestions) for idea in event.ideas)
        parts = [f"{counted(len(event.ideas), 'idea')} with {counted(kernels, 'kernel')}"]
    if event.rejected:
        first = line(event.rejected[0].reason, REASON_CHARACTERS)
        parts.append(f"{len(event.rejected)} rejected ({first})")
    text = f"round {event.round}: {', '.join(parts)}"
    if answer.usage is not None:
        text += f"; {answer.usage.input_tokens:,} tokens read, {answer.usage.output_tokens:,} written"
        if answer.usage.cost_usd is not None:
            text += f", {answer.usage.cost_usd:.2f} USD"
    return text
