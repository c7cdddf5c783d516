"""Questions and answers as files, carried by a person: for machines without a network, and other models."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from cutlass_tuner.errors import UserError
from cutlass_tuner.ideas import Answer
from cutlass_tuner.propose.replay import SUFFIXES, model_of, read_reply
from cutlass_tuner.propose.request import Request, as_markdown
from cutlass_tuner.records import Failure

POLL_S = 0.5


class ManualTransport:
    """Writes `folder`/NN-request.md and waits for NN-reply.json (or .txt, .md), NN being the round.

    A reply that is there before its question is taken too. UserError where the folder cannot be written to.
    """

    name = "manual"

    def __init__(self, folder: Path, poll_s: float = POLL_S) -> None:
        self._folder = folder
        self._poll_s = poll_s
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise UserError(
                f"--replies {folder}: {error.strerror}; give a folder to write questions to"
            ) from error

    def introduce(self) -> str:
        return (
            f"language model: each round, answer {self._folder}/NN-request.md by writing NN-reply.json "
            "beside it; measuring goes on meanwhile"
        )

    def ask(self, request: Request, cancelled: threading.Event) -> Answer | None:
        named = f"{request.round:02d}"
        try:
            self._write(self._folder / f"{named}-request.md", as_markdown(request))
        except OSError as error:
            reason = f"{named}-request.md cannot be written: {error.strerror}"
            return Answer(failure=Failure(stage="propose", reason=reason, lasting=False))
        path = self._wait([self._folder / f"{named}-reply{suffix}" for suffix in SUFFIXES], cancelled)
        return read_reply(path, model_of(self._folder, "manual")) if path else None

    def close(self) -> None:
        pass

    def _write(self, path: Path, text: str) -> None:
        """Whole or not at all: whoever watches the folder may take it at once."""
        part = path.with_name(path.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)

    def _wait(self, paths: list[Path], cancelled: threading.Event) -> Path | None:
        """The first of the files that is there and has stopped growing."""
        before: dict[Path, tuple[int, int]] = {}
        while not cancelled.is_set():
            now = {path: state for path in paths if (state := _state(path))[0] > 0}
            for path, state in now.items():
                if before.get(path) == state:
                    return path
            before = now
            cancelled.wait(self._poll_s)
        return None


def _state(path: Path) -> tuple[int, int]:
    """Size in bytes and time of the last change in ns; (0, 0) for no file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
