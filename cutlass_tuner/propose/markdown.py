"""Tables for a reader who pays by the token."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table without padding."""
    return "\n".join(_row(cells) for cells in (head, ["-"] * len(head), *rows))


def line(text: str, characters: int) -> str:
    """Text of any kind as a part of one line: no break, nothing unprintable, cut after a word to `characters`
    at most."""
    flat = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    if len(flat) <= characters:
        return flat
    cut = flat[: characters - 3]
    return f"{cut.rpartition(' ')[0] or cut}..."


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
