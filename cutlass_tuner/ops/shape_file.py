"""Reads a shapes file: CSV with a header, whatever the op's columns are.

Columns come in any order and case. `#` starts a comment at a line's start or after a space; blank
lines, a byte-order mark, CRLF and spaces are fine. Equal problems are merged: counts add up and the
first name stays. The first mistake found is reported in one line; nothing is half-read.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Problem

LARGEST = 2**31 - 1
WHOLE = f"a whole number from 1 to {LARGEST}"

_COMMENT = re.compile(r"(^|\s)#.*$")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Format:
    """The columns of an op's shapes files. `example` is a line of the required ones, for messages."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    example: str

    @property
    def header(self) -> str:
        return ",".join(self.required)

    @property
    def needed(self) -> str:
        return f"{', '.join(self.required[:-1])} and {self.required[-1]} are needed"


@dataclass(frozen=True)
class Row:
    """One line's text by column. Its UserErrors do not say where: `read` puts file and line in front."""

    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """ "" where the line says nothing."""
        return self.cells.get(column, "")

    def whole(self, column: str, default: int | None = None) -> int:
        """The column's whole number from 1. Raises UserError for anything else, and without a default for
        an empty one."""
        text = self.text(column)
        if not text:
            if default is None:
                raise UserError(f"{column} is empty; give {WHOLE}")
            return default
        if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
            raise UserError(f"{column} is {text!r}; give {WHOLE}")
        # Lengths first: int() of a very long text is slow, and refused by Python beyond 4300 digits.
        digits = text.lstrip("+-").lstrip("0")
        if text.startswith("-") or not digits or len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
            raise UserError(f"{column} is {text}; give {WHOLE}")
        return int(digits)


def read(path: Path | str, form: Format, problem: Callable[[Row], Problem]) -> list[Problem]:
    """The problems of a shapes file, in its order, each made by `problem`.

    Raises UserError, one line naming file and line, on the first mistake, `problem`'s own among them.
    """
    file = Path(path)
    lines = _numbered_lines(file, form)
    header = next(lines, None)
    if header is None:
        raise UserError(f"{file}: no shapes in it; the first line names the columns, e.g. {form.header}")
    columns = _columns(file, form, *header)
    merged: dict[str, Problem] = {}
    for number, cells in lines:
        made = _problem(f"{file}, line {number}", columns, cells, problem)
        earlier = merged.get(made.key)
        merged[made.key] = made if earlier is None else _added(earlier, made)
    if not merged:
        raise UserError(f"{file}: only a header, no shapes; add lines like {form.example}")
    return list(merged.values())


def _added(earlier: Problem, again: Problem) -> Problem:
    name = earlier.name or again.name
    return earlier.model_copy(update={"count": earlier.count + again.count, "name": name})


def _numbered_lines(file: Path, form: Format) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells without surrounding spaces) of every line that says something."""
    for number, line in enumerate(_LINE_END.split(_text(file, form)), start=1):
        said = _COMMENT.sub("", line)
        if said.strip():
            yield number, [cell.strip() for cell in next(csv.reader([said], skipinitialspace=True))]


def _text(file: Path, form: Format) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; give a CSV with columns {form.header}") from None
    except IsADirectoryError:
        raise UserError(f"{file}: a folder; give a CSV file with columns {form.header}") from None
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(
            f"{file}, line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8; save it as UTF-8 text"
        ) from None


def _columns(file: Path, form: Format, number: int, cells: list[str]) -> list[str]:
    names = [cell.lower() for cell in cells]
    where = f"{file}, line {number}"
    for separator, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(cells) == 1 and separator in cells[0]:
            raise UserError(f"{where}: {called} between the columns; separate with commas")
    if all(cell.isdecimal() for cell in cells[:3]):
        raise UserError(f"{where}: no header: the first line must name the columns {form.header}")
    known = (*form.required, *form.optional)
    for position, name in enumerate(names):
        if name not in known:
            raise UserError(
                f"{where}: unknown column {cells[position]!r}; the columns are {', '.join(known)}"
            )
        if name in names[:position]:
            raise UserError(f"{where}: column {cells[position]!r} appears twice")
    for name in form.required:
        if name not in names:
            raise UserError(f"{where}: no column {name!r} among {', '.join(cells)}; {form.needed}")
    return names


def _problem(where: str, columns: list[str], cells: list[str], problem: Callable[[Row], Problem]) -> Problem:
    if len(cells) > len(columns):
        raise UserError(f"{where}: {len(cells)} values for {len(columns)} columns ({', '.join(columns)})")
    try:
        return problem(Row(dict(zip(columns, cells, strict=False))))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
