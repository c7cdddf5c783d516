"""Strict access to parsed JSON: an object's fields, a knob's values, and how to quote what was found.

A mistake is raised here as text, and becomes a `Rejection` where the item it spoils is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from cutlass_tuner.records import Scalar
from cutlass_tuner.space import Knob
from cutlass_tuner.space.knobs import spelled

QUOTED_CHARACTERS = 80


class Mistake(ValueError):
    """Why something in a reply is not taken over, in words its author can act on."""


def shown(value: object) -> str:
    """A value out of a reply, safe to print and to prompt with: short, on one line, nothing invisible."""
    if isinstance(value, bool):
        return spelled(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return repr(value[:QUOTED_CHARACTERS]) + ("..." if len(value) > QUOTED_CHARACTERS else "")
    # Containers are named, not quoted: they may be nested more deeply than repr can follow.
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else "null"


def mapping(value: object, names: Collection[str]) -> dict[str, object]:
    """An object, whatever fields it has. Raises Mistake naming those it should have."""
    if not isinstance(value, dict):
        raise Mistake(f"{shown(value)} where an object with {', '.join(names)} belongs")
    return value


def fields(value: object, names: Collection[str], what: str = "field") -> dict[str, object]:
    """An object that has exactly these fields. Raises Mistake."""
    value = mapping(value, names)
    missing = [f"no {what} {name}" for name in names if name not in value]
    unknown = [f"unknown {what} {shown(name)}" for name in value if name not in names]
    if missing or unknown:
        more = [f"{len(unknown) - 3} more"] if len(unknown) > 3 else []
        raise Mistake(f"{', '.join(missing + unknown[:3] + more)}; there are {', '.join(names)}")
    return value


def array(value: object, name: str) -> list[object]:
    """Raises Mistake where a field is no array."""
    if not isinstance(value, list):
        raise Mistake(f"{name} is {shown(value)}; give an array")
    return value


def string(value: object, name: str) -> str:
    """Raises Mistake where a field is no string."""
    if not isinstance(value, str):
        raise Mistake(f"{name} is {shown(value)}; give a string")
    return value


def known(value: object, name: str, allowed: Collection[str]) -> str:
    """A string that is one of those `allowed`. Raises Mistake naming them."""
    if not isinstance(value, str) or value not in allowed:
        raise Mistake(f"{name} is {shown(value)}; use one of {', '.join(allowed)}")
    return value


def same(value: object, other: Scalar) -> bool:
    """Equal and of one type: true is not 1, and 64.0 is not 64."""
    return type(value) is type(other) and value == other


def scalar(value: object, knob: Knob) -> Scalar:
    """One of the values that are searched, in its own type. Raises Mistake naming them."""
    for one in knob.values:
        if same(value, one):
            return one
    searched = replace(knob, whole=None)
    raise Mistake(f"{knob.name} is {shown(value)}; use one of {searched.allowed}")


def scalars(value: object, knobs: Mapping[str, Knob]) -> dict[str, Scalar]:
    """A value for every knob, in the space's order. Raises Mistake naming all values that are wrong."""
    given = fields(value, knobs, what="knob")
    found, wrong = {}, []
    for name, knob in knobs.items():
        try:
            found[name] = scalar(given[name], knob)
        except Mistake as mistake:
            wrong.append(str(mistake))
    if wrong:
        raise Mistake("; ".join(wrong))
    return found


def differences(value: object, knobs: Mapping[str, Knob]) -> str:
    """What an object, right or wrong, sets otherwise than the defaults: "tile_n=256 stages=3"."""
    if not isinstance(value, dict):
        return shown(value)
    parts = []
    for name, knob in knobs.items():
        given = value.get(name, knob.default)
        if not same(given, knob.default):
            word = isinstance(given, str) and given in knob.values
            parts.append(f"{name}={given if word else shown(given)}")
    return " ".join(parts) or "default"
