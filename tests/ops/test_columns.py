"""Knob values as integers and back."""

from __future__ import annotations

import numpy as np
import pytest

from cutlass_tuner.ops.columns import Alphabet, ceil_div, one_row, round_up


def test_a_mixture_of_words_and_numbers_survives() -> None:
    alphabet = Alphabet.of(("auto", 2, "two_ctas", 16))
    for value in ("auto", 2, "two_ctas", 16, 25):
        decoded = alphabet.decode(alphabet.encode(value))
        assert decoded == value and type(decoded) is type(value)


def test_booleans_stay_booleans_and_are_not_numbers() -> None:
    alphabet = Alphabet.of((False, True))
    assert alphabet.decode(alphabet.encode(True)) is True
    for wrong in (1, "true"):
        with pytest.raises(ValueError):
            alphabet.encode(wrong)
    with pytest.raises(ValueError):
        Alphabet.of((1, 2)).encode(True)
    with pytest.raises(ValueError):
        Alphabet.of((1, 2)).encode("auto")


def test_rows_are_taken_and_read_back() -> None:
    alphabets = {"tile": Alphabet(), "word": Alphabet(("a", "b"))}
    row = one_row({"tile": 64, "word": "b"}, alphabets)
    table = row.having(tile=np.array([8, 16, 32]))
    assert len(table) == 3
    assert table.knobs(1) == {"tile": 16, "word": "b"}
    assert table.take(np.array([2])).knobs(0) == {"tile": 32, "word": "b"}
    assert table.take(np.array([True, False, True]))["tile"].tolist() == [8, 32]
    assert table.is_("word", "b").tolist() == [True]


def test_rounding() -> None:
    assert ceil_div(np.array([0, 1, 8, 9]), 8).tolist() == [0, 1, 1, 2]
    assert round_up(np.array([0, 1, 128, 129]), 128).tolist() == [0, 128, 128, 256]
