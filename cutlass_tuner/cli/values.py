"""Text on the command line to values; a mistake is one line that names the text and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cutlass_tuner.errors import UserError

MOST_DIGITS = 18
"""Of an extent: longer ones fit no 64-bit integer, and are slow to read."""
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def duration_s(text: str, option: str) -> float:
    """Seconds of "90s", "10m", "1h30m" or "30d". A bare number is refused: its unit would be a guess."""
    parts = _PART.findall(text)
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UserError(
            f"{option} {text!r} is no duration; write a number and s, m, h or d, like 90s, 10m or 1h30m"
        )
    if seconds <= 0:
        raise UserError(f"{option} is {text}; it must be above 0")
    return seconds


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """`knob=value` texts to a dict, in their order. A knob given twice is a mistake, not an override."""
    found: dict[str, str] = {}
    for text in texts:
        knob, equals, value = (part.strip() for part in text.partition("="))
        if not (knob and equals and value):
            raise UserError(f"{option} {text!r} is no pair; write knob=value, like swizzle=4")
        if knob in found:
            raise UserError(f"{option} gives {knob} twice, {found[knob]!r} and {value!r}; give it once")
        found[knob] = value
    return found


def extents(text: str) -> tuple[int, ...]:
    """The extents of "4096x4096x512", whole numbers; how many, and which, only the op knows."""
    parts = text.lower().split("x")
    if not all(part.isascii() and part.isdigit() and len(part) <= MOST_DIGITS for part in parts):
        raise UserError(
            f"--shape {text!r} is no problem; write the op's extents as whole numbers joined by x, "
            "like 4096x4096x512"
        )
    return tuple(int(part) for part in parts)
