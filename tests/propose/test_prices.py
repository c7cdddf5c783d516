"""Prices: which model an id names, and what its tokens cost."""

from __future__ import annotations

import pytest

from cutlass_tuner.propose.prices import DEAREST, Price, Tokens, cost_usd, price

OPUS, OPUS_4 = Price(4, 20), Price(5, 25)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-5-5", OPUS),
        ("claude-opus-5-5-20261001", OPUS),
        ("claude-opus-5", OPUS_4),
        ("claude-opus-5-20260701", OPUS_4),
        ("claude-opus-4-6", OPUS_4),
        ("us.anthropic.claude-opus-4-6-v1", OPUS_4),
        ("anthropic.claude-opus-4-5-20251101-v1:0", OPUS_4),
        ("claude-opus-4-5@20251101", OPUS_4),
        ("anthropic/claude-sonnet-5-5", Price(2, 10)),
        ("claude-sonnet-5", Price(2, 10)),
        ("claude-fable-5-1", Price(10, 50)),
        ("claude-fable-5-2", Price(10, 50)),
    ],
)
def test_a_models_price(model: str, expected: Price) -> None:
    assert price(model, 10**6) == expected


@pytest.mark.parametrize(
    "model", ["", "gpt-7", "claude-opus-5-9", "claude-opus-5-55", "claude-opus", "opus-5-5"]
)
def test_no_price_is_guessed(model: str) -> None:
    assert price(model, 1000) is None


def test_a_long_prompt_costs_more() -> None:
    short, long = price("claude-haiku-5-5", 100_000), price("claude-haiku-5-5-20261001", 100_001)
    assert short is not None and (short.input, short.output) == (0.10, 0.50)
    assert long is not None and (long.input, long.output) == (0.50, 2.50)


def test_cost() -> None:
    tokens = Tokens(fresh=1_000_000, cache_write=200_000, cache_read=500_000, output=100_000)
    assert tokens.input == 1_700_000
    assert cost_usd(tokens, OPUS) == pytest.approx(4 + 0.25 * 4 + 0.05 * 4 + 0.1 * 20)


def test_nothing_known_is_dearer_than_the_dearest() -> None:
    assert (DEAREST.input, DEAREST.output) == (10, 50)
