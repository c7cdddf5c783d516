"""The raw grid of a family's kernel knobs, walked in blocks small enough for the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from cutlass_tuner.ops.columns import BoolArray, Columns, IntArray
from cutlass_tuner.ops.family import Family
from cutlass_tuner.ops.rule import Scope
from cutlass_tuner.records import DeviceFacts, Scalar
from cutlass_tuner.space.knobs import FamilySpace, Knob

Codes = npt.NDArray[np.int16]
"""rows x knobs: the index of each row's value among its knob's values."""

BLOCK_ROWS = 1 << 16


def blocks(
    knobs: Mapping[str, Knob], needs: Mapping[str, tuple[str, Scalar]] | None = None
) -> Iterator[tuple[Codes, Columns]]:
    """All raw configs, the last knob fastest, as codes and as columns.

    Where `needs` (`ops.family.Family`) says that a knob does nothing, it has its default alone: every kernel
    is among the configs still.
    """
    for part in _parts(knobs, needs or {}):
        shape = tuple(len(codes) for codes in part)
        total = prod(shape)
        for start in range(0, total, BLOCK_ROWS):
            places = np.unravel_index(np.arange(start, min(start + BLOCK_ROWS, total)), shape)
            rows = [codes[place] for codes, place in zip(part, places, strict=True)]
            codes = np.stack(rows, axis=1)
            yield codes, columns(knobs, codes)


def _parts(
    knobs: Mapping[str, Knob], needs: Mapping[str, tuple[str, Scalar]]
) -> Iterator[list[npt.NDArray[np.int16]]]:
    """The grid as products of codes, one for each choice of the knobs that others need."""
    switches = [name for name in knobs if name in {other for other, _ in needs.values()}]
    for values in product(*(knobs[name].values for name in switches)):
        chosen = dict(zip(switches, values, strict=True))
        inert = {name for name in knobs if not _acts(name, chosen, needs)}
        if any(chosen[name] != knobs[name].default for name in inert & chosen.keys()):
            continue
        held = chosen | {name: knobs[name].default for name in inert}
        yield [_codes(knob, held.get(name)) for name, knob in knobs.items()]


def _acts(name: str, chosen: Mapping[str, Scalar], needs: Mapping[str, tuple[str, Scalar]]) -> bool:
    if name not in needs:
        return True
    other, value = needs[name]
    return chosen[other] == value and _acts(other, chosen, needs)


def _codes(knob: Knob, held: Scalar | None) -> npt.NDArray[np.int16]:
    places = range(len(knob.values)) if held is None else [knob.values.index(held)]
    return np.array(places, dtype=np.int16)


def columns(knobs: Mapping[str, Knob], codes: Codes) -> Columns:
    """Codes as the values they stand for."""
    arrays: dict[str, IntArray] = {}
    for position, (name, knob) in enumerate(knobs.items()):
        encoded = np.array([knob.alphabet.encode(value) for value in knob.values], dtype=np.int64)
        arrays[name] = encoded[codes[:, position]]
    return Columns(arrays, {name: knob.alphabet for name, knob in knobs.items()})


def illegal(
    family: FamilySpace, model: Family, configs: Columns, device: DeviceFacts, scope: Scope = "kernel"
) -> BoolArray:
    """Configs that break an illegal rule of this scope ("kernel" or "launch"), whatever the problem."""
    broken = np.zeros(len(configs), dtype=np.bool_)
    for name, rule in model.rules.items():
        if rule.scope == scope and family.rules[name].kind == "illegal":
            broken |= rule.broken(configs, None, device)
    return broken


def first_of_each(table: Columns) -> IntArray:
    """Row numbers, ascending, of the first of each distinct row."""
    key = np.zeros(len(table), dtype=np.int64)
    span = 1
    for array in table.arrays.values():
        low, high = int(array.min(initial=0)), int(array.max(initial=0))
        span *= high - low + 1
        if span > 2**62:
            full = np.stack([np.broadcast_to(a, len(table)) for a in table.arrays.values()], axis=1)
            return np.sort(np.unique(full, axis=0, return_index=True)[1])
        key = key * (high - low + 1) + (array - low)
    return np.sort(np.unique(key, return_index=True)[1])
