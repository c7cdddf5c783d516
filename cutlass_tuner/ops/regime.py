"""A problem's regime: what limits it, and the figures that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Regime:
    """The group a problem belongs to, and its line in that group's table.

    `name` and `meaning` are the group's. `figures` are the problem's, text by column; an op gives all its
    problems the same columns on the same device. `legend` explains the columns that don't speak for
    themselves, and is the same for every problem, too.
    """

    name: str
    meaning: str
    figures: Mapping[str, str]
    legend: str
