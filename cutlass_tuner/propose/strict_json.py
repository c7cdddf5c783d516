"""A reply's text as JSON, taken strictly: what is wrong with it is said, never mended."""

from __future__ import annotations

import json
import re

from cutlass_tuner.propose.fields import Mistake, shown

LIMIT_BYTES = 1 << 20
LIMIT_DIGITS = 30
"""No knob and no ratio needs more; Python itself refuses whole numbers beyond some thousand digits."""

FENCE = "```"
OPENING = "```json"
_WHITESPACE = " \t\r\n"
_TOKEN_AT_THE_END = re.compile(r'[^\s,:{}\[\]"]*\s*')


def parse(text: str) -> object:
    """The JSON value that a reply is, or that stands in its one ```json fence with prose around it.

    Raises Mistake for anything else, for a key twice in one object, and for NaN and infinities.
    """
    # Encoding is only worth its while where characters alone do not exceed the limit already.
    if len(text) > LIMIT_BYTES or len(text.encode("utf-8", "surrogatepass")) > LIMIT_BYTES:
        raise Mistake("longer than 1 MiB; give fewer ideas and configs")
    body = text.strip(_WHITESPACE)
    if not body:
        raise Mistake("empty")
    if body[0] not in "{[":
        body = _out_of_fence(body)
    try:
        return json.loads(body, object_pairs_hook=_object, parse_constant=_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise Mistake(_why(body, error)) from None
    except RecursionError:
        raise Mistake("nested too deeply") from None


def _out_of_fence(text: str) -> str:
    """What one ```json fence holds; the text itself where there is none. Raises Mistake for other fences."""
    # Not splitlines: a JSON string may hold separators that only look like the end of a line.
    lines = text.split("\n")
    fences = [place for place, line in enumerate(lines) if line.strip(_WHITESPACE).startswith(FENCE)]
    if not fences:
        return text
    words = [lines[place].strip(_WHITESPACE) for place in fences]
    if words == [OPENING]:
        raise Mistake(f"ends early: the {OPENING} fence is not closed")
    if words != [OPENING, FENCE]:
        raise Mistake(f"not JSON, and its fences are not those of one {OPENING} block")
    return "\n".join(lines[fences[0] + 1 : fences[1]])


def _why(body: str, error: json.JSONDecodeError) -> str:
    where = f"{error.msg}, line {error.lineno} column {error.colno}"
    # Cut off within a string, or within or after the last token of an array or object.
    unfinished = error.msg.startswith("Unterminated string") or (
        error.msg != "Extra data" and _TOKEN_AT_THE_END.fullmatch(body, error.pos) is not None
    )
    if unfinished and body.lstrip(_WHITESPACE).startswith(("{", "[")):
        return f"ends early: is it cut off? ({where})"
    return f"not JSON ({where})"


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise Mistake(f"the key {shown(key)} stands twice in one object")
        found[key] = value
    return found


def _constant(name: str) -> object:
    raise Mistake(f"holds {name}, which is not JSON")


def _whole(digits: str) -> int:
    if len(digits) > LIMIT_DIGITS:
        raise Mistake(f"holds a whole number of {len(digits)} digits")
    return int(digits)
