"""The finals of every study in a folder, without reading all that led to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.events import FinalRow, Finished, StudyHeader
from cutlass_tuner.records import Problem
from cutlass_tuner.study.journal import GZIPPED, lines
from cutlass_tuner.study.store import EVENTS, HEADER, read_inputs

_FINAL = b'{"event":"final"'
"""How a journal's line of finals begins. Parsing all the others, too, takes seconds."""


@dataclass(frozen=True)
class Outcome:
    """What came out of one study. `problems` are those of its last run, `finals` the last of each problem, of
    problems that were dropped, too."""

    header: StudyHeader
    problems: tuple[Problem, ...]
    finals: tuple[FinalRow, ...]


def outcomes(root: Path, wanted: Callable[[StudyHeader], bool]) -> Iterator[Outcome]:
    """The studies under `root` whose header is `wanted`, by name. One that cannot be read is passed over:
    whoever asks is not about to use it."""
    for path in sorted(root.glob(f"*/{HEADER}")):
        try:
            header, problems = read_inputs(path.parent)
            finals = _finals(path.parent) if wanted(header) else None
        except (UserError, OSError):
            continue
        if finals is not None:
            yield Outcome(header, problems, finals)


def _finals(folder: Path) -> tuple[FinalRow, ...]:
    """The plain journal hides a gzipped one, as for `Study`."""
    path = next((p for p in (folder / EVENTS, folder / (EVENTS + GZIPPED)) if p.exists()), None)
    if path is None:
        return ()
    parsed, _ = lines(path, lambda one: Finished.model_validate_json(one) if one.startswith(_FINAL) else None)
    rows = {final.row.problem: final.row for final in parsed if final is not None}
    return tuple(rows.values())
