"""An append-only file of JSON lines that a kill at any instant, or a full disk, cannot spoil.

One event is one line and one `write(2)`. What `append` returned from is in the page cache, so it
survives `kill -9`; it is on the disk at the latest one `SYNC_S` after, provided appends go on, or at
`close`. The only thing a kill can leave behind is a last line without its newline, which nobody was told
was stored: it is dropped when the file is next opened.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Record

SYNC_S = 1.0
"""fsync guards against power loss, not against kills; once a second costs nothing that can be measured."""

GZIPPED = ".gz"
"""A finished study may be kept with its journal gzipped: it is read as it is, and expanded to go on."""

T = TypeVar("T")


def lines(path: Path, parse: Callable[[bytes], T]) -> tuple[list[T], int]:
    """The parsed lines of a journal, and how many bytes they take unpacked; what follows is torn.

    Raises UserError naming file and line number when any other line cannot be parsed, or the file when
    it cannot be unpacked. A tail of NUL bytes, which a power cut can leave in a grown file, counts as torn.
    """
    found: list[T] = []
    size = 0
    raw = _raw_lines(path)
    for number, line in enumerate(raw, start=1):
        torn = not line.endswith(b"\n") or b"\0" in line
        if torn:
            if line.endswith(b"\n") and next(raw, None) is not None:
                raise UserError(f"{path}:{number}: NUL bytes inside the file; restore it from a copy")
            break
        try:
            found.append(parse(line))
        except ValidationError as error:
            raise UserError(
                f"{path}:{number}: no event of a study ({_first(error)}); restore the file from a copy, or "
                f"delete that line to lose only it"
            ) from None
        size += len(line)
    return found, size


def _raw_lines(path: Path) -> Iterator[bytes]:
    with _unpacked(path) if path.suffix == GZIPPED else path.open("rb") as file:
        yield from file


@contextmanager
def _unpacked(path: Path) -> Iterator[gzip.GzipFile]:
    """What is in a gzipped file. Reading it raises UserError where it is cut short or damaged."""
    try:
        with gzip.open(path, "rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}: cannot be unpacked ({error}); restore the file from a copy") from error


def expand(path: Path) -> None:
    """Write the journal whose gzipped copy stands beside it, whole or not at all. UserError when that copy
    is damaged."""
    fresh = path.with_name(path.name + ".part")
    with _unpacked(path.with_name(path.name + GZIPPED)) as packed, fresh.open("wb") as file:
        shutil.copyfileobj(packed, file)
    fresh.replace(path)


def _first(error: ValidationError) -> str:
    one = error.errors()[0]
    return ": ".join([*(str(part) for part in one["loc"]), one["msg"]])


class Journal:
    """The writing end. `size` is where the last whole line ends: anything after it is cut off."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._size = size
        self._synced = time.monotonic()
        if os.fstat(self._fd).st_size != size:
            os.ftruncate(self._fd, size)
            self._sync()

    def append(self, event: Record) -> None:
        """Store one event. One thread at a time.

        Raises UserError when the disk is full or the file cannot be written; the file then ends as it
        did before the call. Also when what was appended does not reach the disk.
        """
        line = event.model_dump_json().encode() + b"\n"
        try:
            written = os.write(self._fd, line)
            if written != len(line):
                raise OSError(f"{written} of {len(line)} bytes written")
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            raise UserError(f"{self._path}: cannot append ({error}); free space and run again") from error
        self._size += len(line)
        if time.monotonic() - self._synced >= SYNC_S:
            self._sync()

    def _sync(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise UserError(
                f"{self._path}: what was appended may not be on the disk ({error}); look at the disk and "
                f"run again"
            ) from error
        self._synced = time.monotonic()

    def close(self) -> None:
        if self._fd >= 0:
            try:
                self._sync()
            finally:
                os.close(self._fd)
                self._fd = -1


class Lock:
    """Held by the one process that writes a study; the kernel releases it however that process ends."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError when another process holds it."""
        path = folder / "lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._fd, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise UserError(
                f"study {folder} is in use by process {holder}; wait for it, or start another with "
                "--study NAME"
            ) from None
        os.ftruncate(self._fd, 0)
        os.write(self._fd, str(os.getpid()).encode())

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def replace(path: Path, text: str) -> None:
    """Write a whole file so that readers, and a kill, see the old text or the new one, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
