"""Recorded replies instead of a model: a folder of files, or what a study's journal has kept."""

from __future__ import annotations

import gzip
import re
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cutlass_tuner.errors import UserError
from cutlass_tuner.events import Answered, Event
from cutlass_tuner.ideas import Answer
from cutlass_tuner.propose.request import MAX_REPLY_BYTES, Request
from cutlass_tuner.records import Failure

SUFFIXES = (".json", ".txt", ".md")
MODEL = "model.txt"
"""Its first line names the model that wrote a folder's replies."""

_NO_REPLIES = re.compile(r"model\.txt|readme\.\w+|.*-request\.md", re.IGNORECASE)
"""What else may lie beside replies: `--llm manual` puts its questions there."""

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class ReplayTransport:
    """The replies of `folder`, one a round, from the one after `done` on. UserError where there are none."""

    name = "replay"

    def __init__(self, folder: Path, done: int) -> None:
        if not folder.is_dir():
            raise UserError(f"--llm replay: {folder} is no folder; give a folder of replies, or a study's")
        self._folder = folder
        self._replies = _recorded(folder) if (folder / "study.json").is_file() else _written(folder)
        if not self._replies:
            raise UserError(
                f"--llm replay: {folder} holds no replies; they are files named *{', *'.join(SUFFIXES)}, one "
                "a round in order of their names, or stand in the journal of a study that asked for some"
            )
        self._next = done

    def introduce(self) -> str:
        count = len(self._replies)
        used = f", {min(self._next, count)} of them used already" if self._next else ""
        return f"language model: {count} recorded replies in {self._folder}{used}; no model is asked"

    def ask(self, request: Request, cancelled: threading.Event) -> Answer | None:
        if cancelled.is_set() or self._next >= len(self._replies):
            return None
        self._next += 1
        return self._replies[self._next - 1]()

    def close(self) -> None:
        pass


def read_reply(path: Path, model: str) -> Answer:
    """What a file says, as it is; a failure where it cannot be read, is no UTF-8 or is too long."""
    try:
        size = path.stat().st_size
        if size > MAX_REPLY_BYTES:
            return _unread(path, model, f"{size} bytes, more than the {MAX_REPLY_BYTES} a reply may have")
        return Answer(text=path.read_text(encoding="utf-8"), model=model)
    except OSError as error:
        return _unread(path, model, error.strerror or type(error).__name__)
    except UnicodeDecodeError:
        return _unread(path, model, "not UTF-8")


def model_of(folder: Path, otherwise: str) -> str:
    """The model that a folder's `model.txt` names."""
    try:
        lines = (folder / MODEL).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return otherwise
    return (lines[0].strip()[:100] if lines else "") or otherwise


def _unread(path: Path, model: str, why: str) -> Answer:
    reason = f"the reply {path.name} cannot be used: {why}"
    return Answer(model=model, failure=Failure(stage="propose", reason=reason, lasting=False))


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Sorts 2 before 10."""
    parts = re.findall(r"\d+|\D+", path.name)
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts]


def _written(folder: Path) -> list[Callable[[], Answer]]:
    """Each reply is read when its turn comes."""
    model = model_of(folder, "replay")
    files = [
        path
        for path in folder.iterdir()
        if path.suffix in SUFFIXES and path.is_file() and not _NO_REPLIES.fullmatch(path.name)
    ]
    return [lambda path=path: read_reply(path, model) for path in sorted(files, key=_natural)]  # type: ignore[misc]


def _recorded(folder: Path) -> list[Callable[[], Answer]]:
    """Answers that a study was given. Failures are left out, and nothing is paid a second time."""
    plain, packed = folder / "events.jsonl", folder / "events.jsonl.gz"
    path = plain if plain.is_file() else packed
    try:
        raw = path.read_bytes() if path is plain else gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"--llm replay: {path} cannot be read ({error}); restore it from a copy") from error
    answers = [_answer(path, number, line) for number, line in enumerate(raw.split(b"\n")[:-1], start=1)]
    return [lambda answer=answer: answer for answer in answers if answer is not None]  # type: ignore[misc]


def _answer(path: Path, number: int, line: bytes) -> Answer | None:
    if b'"answered"' not in line:  # parsing every measurement of a journal takes seconds
        return None
    try:
        event = _EVENT.validate_json(line)
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise UserError(f"--llm replay: {path}:{number} is no event of a study ({said})") from None
    if not isinstance(event, Answered) or event.answer.failure is not None:
        return None
    answer = event.answer
    return Answer(text=answer.text, model=answer.model or "replay", stop=answer.stop)
