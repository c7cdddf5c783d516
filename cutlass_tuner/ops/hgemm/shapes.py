"""Reads a shapes file: CSV with columns m, n, k and optionally batch, layout, count, name.

Columns come in any order and case. `#` starts a comment at a line's start or after a space; blank
lines, a byte-order mark, CRLF and spaces are fine. Equal problems are merged: counts add up and the
first name stays. The first mistake found is reported in one line; nothing is half-read.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.hgemm.problem import (
    CONTRACT,
    DIMS,
    LARGEST,
    LAYOUTS,
    OP,
    WHOLE,
    known_layout,
    misalignment,
)
from cutlass_tuner.records import Problem

REQUIRED = ("m", "n", "k")
OPTIONAL = ("batch", "layout", "count", "name")

_COMMENT = re.compile(r"(^|\s)#.*$")
_LINE_END = re.compile(r"\r\n|\r|\n")


def read_shapes(path: Path | str) -> list[Problem]:
    """The problems of a shapes file, in its order. Raises UserError, one line, on the first mistake."""
    file = Path(path)
    lines = _numbered_lines(file)
    header = next(lines, None)
    if header is None:
        raise UserError(f"{file}: no shapes in it; the first line names the columns, e.g. m,n,k")
    columns = _columns(file, *header)
    merged: dict[str, Problem] = {}
    for number, cells in lines:
        problem = _problem(f"{file}, line {number}", columns, cells)
        earlier = merged.get(problem.key)
        merged[problem.key] = problem if earlier is None else _added(earlier, problem)
    if not merged:
        raise UserError(f"{file}: only a header, no shapes; add lines like 4096,4096,4096")
    return list(merged.values())


def _added(earlier: Problem, again: Problem) -> Problem:
    name = earlier.name or again.name
    return earlier.model_copy(update={"count": earlier.count + again.count, "name": name})


def _numbered_lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells without surrounding spaces) of every line that says something."""
    for number, line in enumerate(_LINE_END.split(_text(file)), start=1):
        said = _COMMENT.sub("", line)
        if said.strip():
            yield number, [cell.strip() for cell in next(csv.reader([said], skipinitialspace=True))]


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; give a CSV with columns m,n,k") from None
    except IsADirectoryError:
        raise UserError(f"{file}: a folder; give a CSV file with columns m,n,k") from None
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(
            f"{file}, line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8; save it as UTF-8 text"
        ) from None


def _columns(file: Path, number: int, cells: list[str]) -> list[str]:
    names = [cell.lower() for cell in cells]
    where = f"{file}, line {number}"
    for separator, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(cells) == 1 and separator in cells[0]:
            raise UserError(f"{where}: {called} between the columns; separate with commas")
    if all(cell.isdecimal() for cell in cells[:3]):
        raise UserError(f"{where}: no header: the first line must name the columns m,n,k")
    allowed = ", ".join((*REQUIRED, *OPTIONAL))
    for position, name in enumerate(names):
        if name not in REQUIRED + OPTIONAL:
            raise UserError(f"{where}: unknown column {cells[position]!r}; the columns are {allowed}")
        if name in names[:position]:
            raise UserError(f"{where}: column {cells[position]!r} appears twice")
    for name in REQUIRED:
        if name not in names:
            raise UserError(f"{where}: no column {name!r} among {', '.join(cells)}; m, n and k are needed")
    return names


def _problem(where: str, columns: list[str], cells: list[str]) -> Problem:
    if len(cells) > len(columns):
        raise UserError(f"{where}: {len(cells)} values for {len(columns)} columns ({', '.join(columns)})")
    row = dict(zip(columns, cells, strict=False))
    dims = {dim: _whole(where, dim, row.get(dim, ""), default=1 if dim == "batch" else None) for dim in DIMS}
    problem = Problem(
        op=OP,
        dims=dims,
        layout=_layout(where, row.get("layout", "")),
        contract=CONTRACT,
        count=_whole(where, "count", row.get("count", ""), default=1),
        name=row.get("name", ""),
    )
    wrong = misalignment(problem)
    if wrong is not None:
        raise UserError(f"{where}: {wrong}")
    return problem


def _layout(where: str, text: str) -> str:
    try:
        return known_layout(text or LAYOUTS[0])
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _whole(where: str, column: str, text: str, default: int | None) -> int:
    if not text:
        if default is None:
            raise UserError(f"{where}: {column} is empty; give {WHOLE}")
        return default
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise UserError(f"{where}: {column} is {text!r}; give {WHOLE}")
    # Lengths first: int() of a very long text is slow, and refused by Python beyond 4300 digits.
    digits = text.lstrip("+-").lstrip("0")
    if text.startswith("-") or not digits or len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise UserError(f"{where}: {column} is {text}; give {WHOLE}")
    return int(digits)
