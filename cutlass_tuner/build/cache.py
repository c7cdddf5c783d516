"""Built kernels on disk: one folder a key, whole or not there, safe for many processes.

    <root>/<first two digits>/<key>/manifest.json   digests of the other files, and what they are of
                                    ...             the files that were published
    <root>/tmp/        folders being written; renamed into place when complete
    <root>/locks/      one file a key: who holds it may build that key

An entry is never changed, only replaced or removed. The kernels of one batch share their cubin and
host library through hard links, so each entry stands alone and costs little.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from cutlass_tuner.errors import UserError

_MANIFEST = "manifest.json"
_LOCK_POLL_S = 0.05


class Cancelled(Exception):
    """Waiting for another process's build was given up because the caller was cancelled."""


@dataclass(frozen=True)
class Entry:
    """A valid entry. `about` is what its publisher said of it."""

    key: str
    folder: Path
    about: dict[str, Any]

    def path(self, name: str) -> Path:
        return self.folder / name


@dataclass(frozen=True)
class Listed:
    """One line of `cache show`. `bytes` counts a file shared with other entries in full."""

    key: str
    about: dict[str, Any]
    bytes: int
    used: float


@dataclass(frozen=True)
class Pruned:
    entries: int
    bytes: int


class Cache:
    """A folder of entries. It is made on first use; UserError when it cannot be written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, key: str) -> Entry | None:
        """The entry of `key`, or None when there is none or any of its files is not as published."""
        folder = self._folder(key)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text())
            digests: dict[str, str] = manifest["files"]
            if any(_digest(folder / name) != digest for name, digest in digests.items()):
                return None
            with suppress(OSError):  # a shared cache may be read-only
                os.utime(folder / _MANIFEST)  # "used": what pruning by age goes by
            return Entry(key, folder, manifest["about"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def publish(self, key: str, files: Mapping[str, Path], about: Mapping[str, Any]) -> Entry:
        """Make `files` (name in the entry -> file, linked or copied: not to be changed any more) the
        entry of `key`. Whole or not at all; what stood there before is replaced.
        """
        folder, fresh = self._folder(key), self.scratch()
        try:
            for name, source in files.items():
                _link(source, fresh / name)
            digests = {name: _digest(fresh / name) for name in files}
            with self._writing():
                (fresh / _MANIFEST).write_text(json.dumps({"files": digests, "about": dict(about)}, indent=1))
                folder.parent.mkdir(parents=True, exist_ok=True)
                self._discard(folder)
                fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return Entry(key, folder, dict(about))

    def scratch(self) -> Path:
        """A new folder on the cache's own disk, for whoever called to remove."""
        folder = self.root / "tmp" / uuid.uuid4().hex
        with self._writing():
            folder.mkdir(parents=True)
        return folder

    @contextmanager
    def locked(self, keys: Sequence[str], cancelled: Event) -> Iterator[None]:
        """Hold `keys` against other threads and processes. Raises Cancelled when told to while waiting.

        Taken in one global order, so that two overlapping batches cannot wait for each other.
        """
        with ExitStack() as held:
            for key in sorted(set(keys)):
                held.callback(os.close, self._lock(key, cancelled))
            yield

    def entries(self) -> list[Listed]:
        """All entries, the longest unused first. Files are not read: corruption shows on `get`."""
        found = []
        for manifest in self.root.glob(f"[0-9a-f][0-9a-f]/*/{_MANIFEST}"):
            try:
                about = json.loads(manifest.read_text())["about"]
                size = sum(path.stat().st_size for path in manifest.parent.iterdir())
                found.append(Listed(manifest.parent.name, about, size, manifest.stat().st_mtime))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return sorted(found, key=lambda listed: listed.used)

    def bytes(self) -> int:
        """Disk space that files take; a file that several entries share counts once."""
        sizes = {}
        for path in self.root.rglob("*"):
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
        return sum(sizes.values())

    def prune(self, *, older_than_s: float | None = None, everything: bool = False) -> Pruned:
        """Remove entries: those unused for `older_than_s`, or all of them. Also what killed processes left
        in tmp/ over a day ago, and the lock files of what is not there."""
        before, now, removed = self.bytes(), time.time(), 0
        for listed in self.entries():
            old = older_than_s is not None and now - listed.used > older_than_s
            if everything or old:
                self._discard(self._folder(listed.key))
                removed += 1
        for leftover in (self.root / "tmp").glob("*"):
            if now - leftover.stat().st_mtime > 86400:  # younger ones may belong to a running build
                shutil.rmtree(leftover, ignore_errors=True)
        self._prune_locks()
        return Pruned(removed, max(0, before - self.bytes()))

    def _folder(self, key: str) -> Path:
        return self.root / key[:2] / key

    def _discard(self, folder: Path) -> None:
        """Out of sight in one step, then away: no reader sees half an entry."""
        doomed = self.root / "tmp" / uuid.uuid4().hex
        with self._writing():
            doomed.parent.mkdir(parents=True, exist_ok=True)
            try:
                folder.rename(doomed)
            except FileNotFoundError:
                return
        shutil.rmtree(doomed, ignore_errors=True)

    def _lock(self, key: str, cancelled: Event) -> int:
        path = self.root / "locks" / key
        with self._writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            while (handle := _try_lock(path)) is None:
                if cancelled.wait(_LOCK_POLL_S):
                    raise Cancelled(key)
        return handle

    def _prune_locks(self) -> None:
        """Remove lock files that are nobody's: no entry, and no process building one."""
        for path in (self.root / "locks").glob("*"):
            with self._writing():
                if (handle := _try_lock(path)) is None:
                    continue
                try:
                    # Looked at only now that it is locked: no builder publishes it meanwhile.
                    if not self._folder(path.name).exists():
                        path.unlink()
                finally:
                    os.close(handle)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """An OSError within is the user's to mend."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write the kernel cache {self.root}: {error.strerror}; set CUTLASS_TUNER_CACHE"
            ) from error


def _try_lock(path: Path) -> int | None:
    """The file at `path`, made if need be, open and locked; None while somebody else has the lock.

    Pruning unlinks a file while it holds its lock, so a file locked here may be another than the one
    at `path` by now, and would keep nobody out; the one at `path` stays there while it is locked.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    held = False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.path.samestat(os.fstat(handle), path.stat())
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        if not held:
            os.close(handle)
    return handle if held else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk, or a file system without hard links
        shutil.copy2(source, target)
