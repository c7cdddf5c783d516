"""A model behind Anthropic's Messages API: what is asked, what it may cost, and what of it may be told."""

from __future__ import annotations

import threading

from cutlass_tuner.ideas import Answer, Usage
from cutlass_tuner.options import LlmOptions
from cutlass_tuner.propose.prices import DEAREST, Price, Tokens, cost_usd, price
from cutlass_tuner.propose.request import Request
from cutlass_tuner.propose.streamed import Streamed, failed
from cutlass_tuner.records import Failure

SILENCE_S = 60.0
"""The API sends a ping every few seconds while a model thinks."""
TOTAL_S = 600.0
RETRIES = 2

LEAST_TOKENS = 4000
"""With fewer tokens than this, no answer would be whole."""

BYTES_PER_TOKEN = 2
"""Fewer than any prompt has: JSON takes 2.5 to 3, text more."""

_SHORTEST_SECRET = 8
"""A gateway's dummy key ("none", "EMPTY") must not be cut out of every answer."""


def why_no_credential() -> str:
    """Why the SDK could not ask; "" where it finds a credential, in the environment or in a profile."""
    import anthropic

    from cutlass_tuner.propose.exchange import has_credential

    try:
        return "" if has_credential() else "no credential is set"
    except anthropic.AnthropicError as error:
        return f"the credential cannot be used ({' '.join(str(error).split())})"


class MessagesTransport:
    """Asks `options.model`, and spends at most `options.max_usd`.

    The other arguments are for tests, and for whom the defaults do not suit: the longest silence and the
    longest whole answer in seconds, the SDK's retries, the API's address (None: as the SDK finds it).
    """

    name = "anthropic"

    def __init__(
        self,
        options: LlmOptions,
        *,
        base_url: str | None = None,
        silence_s: float = SILENCE_S,
        total_s: float = TOTAL_S,
        retries: int = RETRIES,
    ) -> None:
        # Here and not in `ask`: importing the SDK takes over a second and cannot be cancelled.
        from cutlass_tuner.propose.exchange import Limits

        self._options = options
        self._limits = Limits(silence_s, total_s, retries, base_url)
        self._spent_usd = 0.0
        self._used_up = False

    @property
    def spent_usd(self) -> float:
        """Spent so far. Where the API did not say what an answer cost, the most that it may is counted."""
        return self._spent_usd

    def introduce(self) -> str:
        options = self._options
        known = price(options.model, 0)
        counted = (
            "" if known else f", counted at the dearest price known, {_shown(DEAREST)}, as its own is not"
        )
        return (
            f"language model: {options.model} (effort {options.effort}), at most {options.max_usd:.2f} USD "
            f"and {options.rounds} rounds{counted}; --llm none does without"
        )

    def ask(self, request: Request, cancelled: threading.Event) -> Answer | None:
        if cancelled.is_set() or self._used_up:
            return None
        max_tokens = self._affordable(request)
        if max_tokens is None:
            self._used_up = True
            return Answer(model=self._options.model, failure=self._no_money(request))
        return self._ask(request, max_tokens, cancelled)

    def close(self) -> None:
        pass

    def _ask(self, request: Request, max_tokens: int, cancelled: threading.Event) -> Answer | None:
        from cutlass_tuner.propose.exchange import exchange

        streamed, secrets = Streamed(), set[str]()
        failure = exchange(self._question(request, max_tokens), self._limits, cancelled, streamed, secrets)
        failure = failure or streamed.fault(max_tokens, self._options.max_tokens)
        usage = self._charge(request, max_tokens, streamed)
        if failure is not None and cancelled.is_set():
            return None
        return Answer(
            text="" if streamed.too_long else _clean(streamed.text, secrets),
            model=_clean(streamed.model, secrets)[:100] or self._options.model,
            stop=_clean(streamed.stop, secrets)[:100],
            usage=usage,
            failure=failure and _told(failure, secrets),
        )

    def _question(self, request: Request, max_tokens: int) -> dict[str, object]:
        """Arguments of `messages.create`. Thinking is left to the model, whose effort is set; the system
        prompt is the part that repeats from round to round, so it is cached."""
        cached = {"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}
        return {
            "model": self._options.model,
            "max_tokens": max_tokens,
            "system": [cached],
            "messages": [{"role": "user", "content": request.user}],
            "output_config": {
                "format": {"type": "json_schema", "schema": request.schema},
                "effort": self._options.effort,
            },
        }

    def _price(self, prompt_tokens: int) -> Price:
        return price(self._options.model, prompt_tokens) or DEAREST

    def _input_at_most(self, request: Request) -> tuple[Tokens, Price]:
        """The most tokens that the prompt may be, all of them written to the cache, and their price."""
        text = request.prompt + request.schema_text
        tokens = -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)
        return Tokens(cache_write=tokens), self._price(tokens)

    def _affordable(self, request: Request) -> int | None:
        """How long the answer may be so that it cannot cost more than is left; None: too short to help."""
        tokens, at = self._input_at_most(request)
        left_usd = self._options.max_usd - self._spent_usd - cost_usd(tokens, at)
        fits = int(left_usd / at.output * 1e6)
        wanted = self._options.max_tokens
        return min(wanted, fits) if fits >= min(wanted, LEAST_TOKENS) else None

    def _no_money(self, request: Request) -> Failure:
        tokens, at = self._input_at_most(request)
        least = min(self._options.max_tokens, LEAST_TOKENS)
        needed = cost_usd(Tokens(cache_write=tokens.cache_write, output=least), at)
        return failed(
            f"--llm-max-usd {self._options.max_usd:.2f} is used up: {self._spent_usd:.2f} USD spent, and one "
            f"more answer may cost {needed:.2f} USD",
            lasting=True,
        )

    def _charge(self, request: Request, max_tokens: int, streamed: Streamed) -> Usage | None:
        """What the answer cost, counted against the cap; None where nothing was asked that has to be paid."""
        if not streamed.pending:
            return None
        most, at = self._input_at_most(request)
        tokens = streamed.tokens or most
        at = self._price(tokens.input) if streamed.tokens else at
        if not streamed.counted:  # broken off: what the model had written by then is not known
            tokens = Tokens(tokens.fresh, tokens.cache_write, tokens.cache_read, max_tokens)
        spent = cost_usd(tokens, at)
        self._spent_usd += spent
        told = streamed.tokens or Tokens()
        known = price(self._options.model, tokens.input) is not None
        return Usage(input_tokens=told.input, output_tokens=told.output, cost_usd=spent if known else None)


def _shown(at: Price) -> str:
    return f"{at.input:g} and {at.output:g} USD per million tokens"


def _clean(text: str, secrets: set[str]) -> str:
    """Without credentials, and without halves of surrogate pairs, which no file can hold."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[credential]")
    return text.encode(errors="replace").decode()


def _told(failure: Failure, secrets: set[str]) -> Failure:
    """Cleaned first and cut then: half a credential would not be found."""
    reason, detail = _clean(failure.reason, secrets)[:400], _clean(failure.detail, secrets)[:2000]
    return failure.model_copy(update={"reason": reason, "detail": detail})
