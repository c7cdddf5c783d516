"""Configs side by side, as numpy columns: what rules, folding and estimates compute on.

One config is a table of one row and the whole grid is a table of a million, so a rule is written
once. Integers stand for themselves and booleans for 0 and 1; a word is held as a negative number
(-1 - its index), which lets a knob mix both ("auto" among stage counts).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cutlass_tuner.records import Scalar

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Alphabet:
    """How one knob's values are held as integers."""

    words: tuple[str, ...] = ()
    boolean: bool = False

    @classmethod
    def of(cls, values: tuple[Scalar, ...]) -> Alphabet:
        words = tuple(value for value in values if isinstance(value, str))
        return cls(words, boolean=bool(values) and all(isinstance(value, bool) for value in values))

    def encode(self, value: Scalar) -> int:
        """Raises ValueError for a word that is not in the alphabet or a value of another type."""
        if isinstance(value, bool) != self.boolean:
            raise ValueError(f"{value!r} is not of this knob's type")
        if isinstance(value, str):
            return -1 - self.words.index(value)
        return int(value)

    def decode(self, code: int) -> Scalar:
        if code < 0:
            return self.words[-1 - code]
        return bool(code) if self.boolean else code


@dataclass(frozen=True)
class Columns:
    """A table of configs: `arrays[knob]` are equally long int64 columns, or of length one (all rows)."""

    arrays: Mapping[str, IntArray]
    alphabets: Mapping[str, Alphabet]

    def __len__(self) -> int:
        return max((len(array) for array in self.arrays.values()), default=0)

    def __getitem__(self, knob: str) -> IntArray:
        return self.arrays[knob]

    def __contains__(self, knob: str) -> bool:
        return knob in self.arrays

    def word(self, knob: str, word: str) -> int:
        """The code of `word`. Raises ValueError where the knob has no such word."""
        return self.alphabets[knob].encode(word)

    def is_(self, knob: str, word: str) -> BoolArray:
        """Rows whose `knob` is `word`."""
        rows: BoolArray = self.arrays[knob] == self.word(knob, word)
        return rows

    def having(self, **arrays: IntArray) -> Columns:
        """The same table with some columns replaced or added."""
        return Columns({**self.arrays, **arrays}, self.alphabets)

    def take(self, rows: IntArray | BoolArray) -> Columns:
        """The rows selected by index or mask. Columns of length one stay as they are."""
        full = len(self)
        return Columns(
            {k: (a[rows] if len(a) == full else a) for k, a in self.arrays.items()}, self.alphabets
        )

    def joined(self, other: Columns) -> Columns:
        """Both tables' knobs side by side; one of them has a single row, or both are equally long."""
        return Columns({**self.arrays, **other.arrays}, {**self.alphabets, **other.alphabets})

    def knobs(self, row: int, names: tuple[str, ...] | None = None) -> dict[str, Scalar]:
        """One row as knob values, of all knobs or of `names`."""
        return {
            name: self.alphabets[name].decode(int(array[row] if len(array) > 1 else array[0]))
            for name, array in ((n, self.arrays[n]) for n in (names or tuple(self.arrays)))
        }


def one_row(knobs: Mapping[str, Scalar], alphabets: Mapping[str, Alphabet]) -> Columns:
    """A table of a single config. Raises ValueError for a value its knob cannot hold."""
    arrays = {
        name: np.array([alphabets[name].encode(value)], dtype=np.int64) for name, value in knobs.items()
    }
    return Columns(arrays, {name: alphabets[name] for name in knobs})


def ceil_div(a: IntArray | int, b: IntArray | int) -> IntArray:
    """ceil(a / b) of whole numbers, at least one of them a column."""
    result: IntArray = -(-np.asarray(a, dtype=np.int64) // b)
    return result


def round_up(a: IntArray | int, b: IntArray | int) -> IntArray:
    """The least multiple of b that is at least a."""
    return ceil_div(a, b) * b
