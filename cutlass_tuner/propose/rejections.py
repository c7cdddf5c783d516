"""What of a reply is not taken over, collected in the order it is met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from cutlass_tuner.ideas import Rejection

Item = TypeVar("Item")

LIMITS = {
    "ideas": (40, "a reply"),
    "configs": (160, "a reply"),
    "launches": (8, "a config"),
    "couplings": (24, "an idea"),
    "drop": (400, "a reply"),
}
"""How many of a kind are read. A reply is foreign text: nothing in it may cost without bound."""


class Rejections:
    """Grows as a reply is read."""

    def __init__(self) -> None:
        self._found: list[Rejection] = []
        self._beyond: Counter[str] = Counter()

    def add(self, idea: str, what: str, reason: object) -> None:
        self._found.append(Rejection(idea=idea, what=what, reason=str(reason)))

    def within(self, kind: str, items: Sequence[Item], used: int = 0) -> Sequence[Item]:
        """The items within the limit, `used` of which are used up; those beyond are counted, not read."""
        left = max(0, LIMITS[kind][0] - used)
        self._beyond[kind] += len(items[left:])
        return items[:left]

    def all(self) -> tuple[Rejection, ...]:
        """Every rejection, then one for each kind of which there were too many."""
        beyond = [
            Rejection(idea="", what=kind, reason=f"{count} too many, not read: {most} {per} at most")
            for kind, (most, per) in LIMITS.items()
            if (count := self._beyond[kind])
        ]
        return (*self._found, *beyond)
