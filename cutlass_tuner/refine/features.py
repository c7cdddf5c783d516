"""Knobs as coordinates: how far apart two kernels are, knob by knob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutlass_tuner.records import Scalar

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """`values` is rows x columns; `group[c]` numbers the knob that column c belongs to.

    Within a knob two kernels are at most 1 apart (squared Euclidean): a number that has only
    positive values lies on a log2 scale between its least and its greatest, anything else is
    one-hot, so that every two different values are 1 apart.
    """

    values: Matrix
    group: NDArray[np.int64]

    @property
    def groups(self) -> int:
        return int(self.group[-1]) + 1 if len(self.group) else 0


def encode(effective: Mapping[str, Sequence[Scalar]], unwise: NDArray[np.bool_]) -> Features:
    """Features of rows given as columns of effective knob values.

    Knobs that never differ are left out; `unwise` is a group of its own.
    """
    blocks = [block for column in effective.values() if (block := _block(column)) is not None]
    if unwise.any() and not unwise.all():
        blocks.append(unwise[:, None].astype(np.float64))
    if not blocks:
        return Features(np.zeros((len(unwise), 0)), np.zeros(0, dtype=np.int64))
    group = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
    return Features(np.hstack(blocks), group)


def _block(column: Sequence[Scalar]) -> Matrix | None:
    """Coordinates of one knob, rows x (1 or number of values); None when it never differs."""
    values = sorted(set(column), key=lambda value: (str(type(value)), value))
    if len(values) < 2:
        return None
    code = {value: number for number, value in enumerate(values)}
    codes = np.fromiter((code[value] for value in column), dtype=np.int64, count=len(column))
    table = _table(values)
    block: Matrix = table[codes]
    return block


def _table(values: Sequence[Scalar]) -> Matrix:
    """Coordinates of each of several values, one row a value."""
    numbers = [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0]
    if len(numbers) < len(values):
        one_hot: Matrix = np.eye(len(values)) / np.sqrt(2.0)
        return one_hot
    log = np.log2(np.array(numbers, dtype=np.float64))
    scaled: Matrix = (log - log.min()) / (log.max() - log.min())
    return scaled[:, None]
