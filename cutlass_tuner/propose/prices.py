"""What Anthropic's models cost, in USD per million tokens.

As of 2026-11, from platform.claude.com/docs/en/about-claude/pricing. Tokens written to the prompt cache cost
1.25 times a token of input; tokens read from it are counted at a tenth, more than some models charge.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

CACHE_WRITE = 1.25
CACHE_READ = 0.1


@dataclass(frozen=True)
class Price:
    """USD per million tokens of input and of output, for prompts of at most `up_to` tokens."""

    input: float
    output: float
    up_to: float = math.inf


_PRICES: dict[str, tuple[Price, ...]] = {
    "claude-opus-5-5": (Price(4, 20),),
    "claude-sonnet-5-5": (Price(2, 10),),
    "claude-haiku-5-5": (Price(0.10, 0.50, up_to=100_000), Price(0.50, 2.50)),
    "claude-fable-5-1": (Price(10, 50),),
    "claude-fable-5-2": (Price(10, 50),),
    "claude-opus-5": (Price(5, 25),),
    "claude-opus-4-5": (Price(5, 25),),
    "claude-opus-4-6": (Price(5, 25),),
    "claude-opus-4-7": (Price(5, 25),),
    "claude-sonnet-5": (Price(2, 10),),
}
_DATED = re.compile(r"([-@]\d{8})?(-v\d+)?(:\d+)?")
"""What may follow a model's name in an id: a date, and a cloud provider's version."""

DEAREST = max((price for tiers in _PRICES.values() for price in tiers), key=lambda price: price.output)


@dataclass(frozen=True)
class Tokens:
    """Tokens of one answer. `fresh` is input that was neither written to the cache nor read from it."""

    fresh: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0

    @property
    def input(self) -> int:
        return self.fresh + self.cache_write + self.cache_read


def price(model: str, prompt_tokens: int) -> Price | None:
    """The price of a prompt of that many tokens; None where the model's price is not known.

    The id may have a provider's prefix ("us.anthropic.", "anthropic/") and a date or version at its end. A
    name that goes on otherwise (claude-opus-5-9) is another model, whose price nobody here knows.
    """
    named = model[max(model.rfind("claude-"), 0) :].lower()
    for known in sorted(_PRICES, key=len, reverse=True):
        if named.startswith(known) and _DATED.fullmatch(named, len(known)):
            return next(tier for tier in _PRICES[known] if prompt_tokens <= tier.up_to)
    return None


def cost_usd(tokens: Tokens, at: Price) -> float:
    """USD for one answer."""
    weighed = tokens.fresh + tokens.cache_write * CACHE_WRITE + tokens.cache_read * CACHE_READ
    return (weighed * at.input + tokens.output * at.output) / 1e6
