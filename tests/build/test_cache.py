"""The cache on disk: whole entries or none, many processes, sizes and pruning."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from threading import Event

import pytest

from build.fakes import builder, calls, kernel
from cutlass_tuner.build.cache import Cache, Cancelled
from cutlass_tuner.errors import UserError

KEY, OTHER = "ab" + "0" * 30, "cd" + "0" * 30


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def files(folder: Path, **texts: str) -> dict[str, Path]:
    made = {}
    folder = Path(mkdtemp(dir=folder))
    for name, text in texts.items():
        made[name] = folder / name
        made[name].write_text(text)
    return made


def test_what_was_published_is_found(cache: Cache, tmp_path: Path) -> None:
    assert cache.get(KEY) is None
    cache.publish(KEY, files(tmp_path, cubin="x" * 1000, log="fine"), {"kernel": "k"})
    entry = cache.get(KEY)
    assert entry is not None
    assert entry.about == {"kernel": "k"}
    assert entry.path("cubin").read_text() == "x" * 1000
    assert cache.get(OTHER) is None


@pytest.mark.parametrize("name", ["cubin", "log", "manifest.json"])
@pytest.mark.parametrize("damage", ["changed", "cut", "removed"])
def test_a_damaged_entry_is_a_miss(cache: Cache, tmp_path: Path, name: str, damage: str) -> None:
    entry = cache.publish(KEY, files(tmp_path, cubin="x" * 1000, log="fine"), {})
    path = entry.path(name)
    text = path.read_text()
    path.unlink()
    if damage == "changed":
        path.write_text(text[:-1] + "?")
    elif damage == "cut":
        path.write_text(text[: len(text) // 2])
    assert cache.get(KEY) is None
    cache.publish(KEY, files(tmp_path, cubin="new", log="fine"), {})
    again = cache.get(KEY)
    assert again is not None
    assert again.path("cubin").read_text() == "new"


def test_an_unfinished_publish_leaves_nothing(cache: Cache, tmp_path: Path) -> None:
    missing = files(tmp_path, cubin="x") | {"log": tmp_path / "not there"}
    with pytest.raises(OSError, match="not there"):
        cache.publish(KEY, missing, {})
    assert cache.get(KEY) is None
    assert list((cache.root / "tmp").iterdir()) == []


def test_a_file_shared_by_entries_takes_its_space_once(cache: Cache, tmp_path: Path) -> None:
    shared = files(tmp_path, cubin="x" * 1_000_000)
    cache.publish(KEY, shared, {})
    one = cache.bytes()
    cache.publish(OTHER, shared, {})
    assert cache.bytes() - one < 100_000
    assert [listed.bytes > 1_000_000 for listed in cache.entries()] == [True, True]


def test_pruning_by_age_keeps_what_was_used(cache: Cache, tmp_path: Path) -> None:
    for key in (KEY, OTHER):
        cache.publish(key, files(tmp_path, cubin="x" * 9000), {})
        os.utime(cache.root / key[:2] / key / "manifest.json", (time.time() - 1000,) * 2)
    assert cache.get(OTHER) is not None
    pruned = cache.prune(older_than_s=500)
    assert pruned.entries == 1
    assert pruned.bytes > 0
    assert [listed.key for listed in cache.entries()] == [OTHER]


def test_pruning_everything_spares_a_running_build(cache: Cache, tmp_path: Path) -> None:
    cache.publish(KEY, files(tmp_path, cubin="x"), {})
    running, left = cache.scratch(), cache.scratch()
    os.utime(left, (0, 0))
    assert cache.prune(everything=True).entries == 1
    assert cache.entries() == []
    assert running.is_dir()
    assert not left.exists()


def test_a_cache_that_cannot_be_written_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.raises(UserError, match="CUTLASS_TUNER_CACHE"):
        cache.scratch()
    with pytest.raises(UserError, match="CUTLASS_TUNER_CACHE"), cache.locked([KEY], Event()):
        pass


def test_a_cache_that_is_full_is_the_users_to_mend(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(UserError, match=r"No space left on device; set CUTLASS_TUNER_CACHE"):
        cache.publish(KEY, files(tmp_path, cubin="x"), {})


def test_a_read_only_cache_still_serves_hits(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.publish(KEY, files(tmp_path, cubin="x"), {})

    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(os, "utime", refuse)
    assert cache.get(KEY) is not None


def locks(cache: Cache) -> list[str]:
    return sorted(path.name for path in (cache.root / "locks").iterdir())


def test_pruning_removes_locks_that_nobody_needs(cache: Cache, tmp_path: Path) -> None:
    gone, held = "ef" + "0" * 30, "00" * 16
    for key in (KEY, OTHER, gone):
        with cache.locked([key], Event()):
            pass
    cache.publish(KEY, files(tmp_path, cubin="x"), {})
    cache.publish(OTHER, files(tmp_path, cubin="x"), {})
    os.utime(cache.root / OTHER[:2] / OTHER / "manifest.json", (0, 0))
    with cache.locked([held], Event()):
        cache.prune(older_than_s=500)
        assert locks(cache) == sorted([KEY, held])
        cancelled = Event()
        cancelled.set()
        with pytest.raises(Cancelled), cache.locked([held], cancelled):
            pass


def test_a_lock_file_that_was_pruned_under_a_locker_keeps_others_out(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is opened, then pruned, then locked: that lock would be on a file nobody else sees."""
    real, pruned = os.open, []

    def slow(path: Path, flags: int, mode: int = 0o777) -> int:
        handle = real(path, flags, mode)
        if not pruned:
            pruned.append(path)
            cache.prune(everything=True)
        return handle

    monkeypatch.setattr(os, "open", slow)
    cancelled = Event()
    with cache.locked([KEY], cancelled):
        assert locks(cache) == [KEY]
        cancelled.set()
        with pytest.raises(Cancelled), cache.locked([KEY], cancelled):
            pass


def test_pruning_spares_a_file_locked_since_it_looked(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two prunes: one opens the file that the other removes, and a builder locks a new one meanwhile."""
    with cache.locked([KEY], Event()):
        pass
    path = cache.root / "locks" / KEY
    real, holder = os.open, Event()

    def slow(opened: Path, flags: int, mode: int = 0o777) -> int:
        handle = real(opened, flags, mode)
        if not holder.is_set():
            holder.set()
            path.unlink()
            path.write_text("")  # the builder's
        return handle

    monkeypatch.setattr(os, "open", slow)
    cache.prune(everything=True)
    assert holder.is_set()
    assert locks(cache) == [KEY]


def test_waiting_for_another_builder_can_be_cancelled(cache: Cache) -> None:
    cancelled = Event()
    cancelled.set()
    with cache.locked([KEY], Event()):
        with pytest.raises(Cancelled), cache.locked([KEY], cancelled):
            pass
        with cache.locked([OTHER], cancelled):
            pass
    with cache.locked([KEY], cancelled):
        pass


def test_eight_processes_on_an_empty_cache_compile_each_kernel_once(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from build.fakes import builder, kernel\n"
        "kernels = [kernel(n, 'brief') for n in range(3)] + [kernel(9, 'bad')]\n"
        "outcomes = builder(Path(sys.argv[1])).build(kernels[::int(sys.argv[3])])\n"
        "print(*sorted(type(outcome).__name__ for outcome in outcomes))\n"
    )
    builder(tmp_path)  # the fake toolchain must stand before the race
    tests = str(Path(__file__).parent.parent)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), tests, order],
            stdout=subprocess.PIPE,
            text=True,
        )
        for order in ("1", "-1") * 4
    ]
    said = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert said == {"Build Build Build Failure"}
    compiled = [symbol for batch in calls(tmp_path) for symbol in batch]
    symbol = builder(tmp_path).emitter.symbol
    # One process compiles all; the bad kernel is in that first unit and then alone.
    assert sorted(compiled) == sorted(
        [symbol(kernel(n, "brief")) for n in range(3)] * 2 + [symbol(kernel(9, "bad"))] * 2
    )
