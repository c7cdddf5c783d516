"""A model's answer as the Messages API streams it: text, token counts, and why the model stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cutlass_tuner.propose.prices import Tokens
from cutlass_tuner.propose.request import MAX_REPLY_BYTES
from cutlass_tuner.records import Failure

if TYPE_CHECKING:
    from anthropic.types import MessageDeltaUsage, RawMessageDeltaEvent, RawMessageStreamEvent, Usage


MAX_STREAM_CHARACTERS = 8 * 2**20
"""Of all that a model writes, its thinking included: 128 thousand tokens are a tenth of it."""

MOST_TOKENS = 10**9
"""More than any answer takes: a server that tells more does not know."""


def failed(reason: str, detail: str = "", lasting: bool = False) -> Failure:
    """A failure to propose, its reason on one line. Neither cut nor cleaned of credentials yet."""
    return Failure(stage="propose", reason=" ".join(reason.split()), detail=detail, lasting=lasting)


@dataclass
class Streamed:
    """What has come so far.

    `pending`: a request is out that may have to be paid; `answered`: the API has taken it. `tokens` are None
    until the first event, and final once `counted`. `ended`: the last event is here. `stop_detail` is what a
    refusal says for itself. `size` is bytes of text, `received` characters of whatever the model wrote.
    """

    pending: bool = False
    answered: bool = False
    parts: list[str] = field(default_factory=list)
    size: int = 0
    received: int = 0
    model: str = ""
    stop: str = ""
    stop_detail: str = ""
    tokens: Tokens | None = None
    counted: bool = False
    ended: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def too_long(self) -> bool:
        return self.size > MAX_REPLY_BYTES or self.received > MAX_STREAM_CHARACTERS

    def take(self, event: RawMessageStreamEvent) -> None:
        """Add one event. The SDK does not check what it parses: a malformed one raises AttributeError,
        TypeError or ValueError. Of deltas that are no text (thinking and others) only the size counts."""
        if event.type == "message_start":
            self.model = str(event.message.model)
            self._count(event.message.usage)
        elif event.type == "content_block_delta":
            self.received += sum(len(said) for _, said in event.delta if isinstance(said, str))
            if event.delta.type == "text_delta":
                self.size += len(event.delta.text.encode(errors="replace"))
                self.parts.append(event.delta.text)
        elif event.type == "message_delta":
            self._stop(event)
            self._count(event.usage)
            self.counted = True
        elif event.type == "message_stop":
            self.ended = True

    def _stop(self, event: RawMessageDeltaEvent) -> None:
        self.stop = str(event.delta.stop_reason or "")
        if event.delta.stop_details is not None:
            said = (event.delta.stop_details.category, event.delta.stop_details.explanation)
            self.stop_detail = ": ".join(str(one) for one in said if one)

    def _count(self, usage: Usage | MessageDeltaUsage) -> None:
        """Counts are totals so far; one that an event leaves out has not changed."""
        known = self.tokens or Tokens()

        def latest(told: int | None, before: int) -> int:
            return before if told is None else int(min(max(told, 0), MOST_TOKENS))

        self.tokens = Tokens(
            fresh=latest(usage.input_tokens, known.fresh),
            cache_write=latest(usage.cache_creation_input_tokens, known.cache_write),
            cache_read=latest(usage.cache_read_input_tokens, known.cache_read),
            output=latest(usage.output_tokens, known.output),
        )

    def fault(self, max_tokens: int, wanted: int) -> Failure | None:
        """What is wrong with the answer now that no more of it comes; None where it is whole.

        It was allowed `max_tokens` of the `wanted` ones: less where less money was left.
        """
        if self.received > MAX_STREAM_CHARACTERS:
            return failed(
                f"the model wrote more than {MAX_STREAM_CHARACTERS} characters, its thinking included"
            )
        if self.too_long:
            return failed(f"the answer is longer than {MAX_REPLY_BYTES} bytes")
        if not self.ended:
            some = "ended before the answer did" if self.tokens else "carried no answer of the Messages API"
            return failed(f"the connection {some}")
        if self.stop == "end_turn" and self.text.strip():
            return None
        why = {
            "end_turn": "the model answered without any text",
            "refusal": "the model refused to answer",
            "max_tokens": f"the answer was cut off at --llm-max-tokens {max_tokens}; raise it"
            if max_tokens == wanted
            else f"the answer was cut off at {max_tokens} tokens, all that --llm-max-usd had money left for",
        }
        otherwise = f"the model stopped for another reason than being done: {self.stop or 'none given'}"
        return failed(why.get(self.stop, otherwise), self.stop_detail)
