"""The append-only file: torn tails, damaged lines, full disks."""

from __future__ import annotations

import gzip
import os
import threading
import time
from pathlib import Path

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.study import Study, journal
from study.events import P1, built, header, measured, told


@pytest.fixture
def events(tmp_path: Path) -> Path:
    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        for tile in (64, 128, 256):
            study.append(built(tile))
    return tmp_path / "s" / "events.jsonl"


def tiles(root: Path) -> list[object]:
    with Study.open_or_create(root, header(), [P1]) as study:
        return [event.proposal.kernel.knobs["tile_m"] for event in study.events()]  # type: ignore[union-attr]


def test_a_torn_last_line_is_dropped_at_every_length(tmp_path: Path, events: Path) -> None:
    whole = events.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in [last + 1, (last + len(whole)) // 2, len(whole) - 2, len(whole) - 1]:
        events.write_bytes(whole[:end])
        assert tiles(tmp_path) == [64, 128]
        assert events.read_bytes() == whole[:last]  # what is appended next begins a line
    events.write_bytes(whole)
    assert tiles(tmp_path) == [64, 128, 256]


def test_a_reader_leaves_a_torn_line_to_its_writer(tmp_path: Path, events: Path) -> None:
    torn = events.read_bytes()[:-5]
    events.write_bytes(torn)
    assert len(Study.load(tmp_path, "s").events()) == 2
    assert events.read_bytes() == torn


def test_nul_bytes_after_a_power_cut_count_as_torn(tmp_path: Path, events: Path) -> None:
    whole = events.read_bytes()
    events.write_bytes(whole + b"\0" * 4096)
    assert tiles(tmp_path) == [64, 128, 256]
    assert events.read_bytes() == whole


@pytest.mark.parametrize(
    "damage",
    [b"not json\n", b"{}\n", b'{"event": "unheard of"}\n', b'{"event": "told", "at_s": "x"}\n', b"\n"],
)
def test_a_damaged_line_names_file_and_line(tmp_path: Path, events: Path, damage: bytes) -> None:
    first, second, third = events.read_bytes().splitlines(keepends=True)
    damaged = first + damage + third
    events.write_bytes(damaged)
    with pytest.raises(UserError, match=rf"{events}:2: no event of a study") as error:
        Study.open_or_create(tmp_path, header(), [P1])
    assert "\n" not in str(error.value)
    assert events.read_bytes() == damaged  # nothing is repaired by guessing
    events.write_bytes(first + second + damage)  # also as the last line, which ends with its newline
    with pytest.raises(UserError, match=rf"{events}:3: no event"):
        Study.load(tmp_path, "s")


def test_nul_bytes_in_the_middle_are_damage(tmp_path: Path, events: Path) -> None:
    first, second, third = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(first + b"\0" * 16 + second + third)
    with pytest.raises(UserError, match=rf"{events}:2: NUL bytes"):
        Study.load(tmp_path, "s")


def test_a_full_disk_is_one_line_and_spoils_nothing(
    tmp_path: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def short(fd: int, data: bytes) -> int:
        return real(fd, data[:100])

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        study.append(built(512))
        before = events.read_bytes()
        for failing in (short, full):
            with monkeypatch.context() as patch:
                patch.setattr(journal.os, "write", failing)
                with pytest.raises(UserError, match=r"cannot append .*free space"):
                    study.append(measured())
            assert events.read_bytes() == before
        assert len(study.events()) == 4
        study.append(told())
    assert len(Study.load(tmp_path, "s").events()) == 5


def test_many_threads_append_whole_lines_in_the_order_they_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        real = os.write

        def slow(fd: int, data: bytes) -> int:
            """Others get to run between the write and what follows it."""
            written = real(fd, data)
            time.sleep(1e-4)
            return written

        monkeypatch.setattr(journal.os, "write", slow)

        def work(first: int) -> None:
            for tile in range(first, first + 25):
                study.append(built(tile))

        threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen = study.events()
    assert Study.load(tmp_path, "s").events() == seen
    assert sorted(tiles(tmp_path)) == sorted(100 * i + j for i in range(8) for j in range(25))  # type: ignore[type-var]


def test_an_append_is_one_write_of_a_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a kill harmless: nothing is buffered in the process."""
    writes: list[bytes] = []
    real = os.write

    def noting(fd: int, data: bytes) -> int:
        writes.append(bytes(data))
        return real(fd, data)

    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        monkeypatch.setattr(journal.os, "write", noting)
        study.append(built())
        monkeypatch.undo()
        assert (tmp_path / "s" / "events.jsonl").read_bytes() == b"".join(writes)
    assert len(writes) == 1
    assert writes[0].endswith(b"\n")


def test_appends_reach_the_disk_at_most_a_second_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[float] = []
    clock = [0.0]
    monkeypatch.setattr(journal.time, "monotonic", lambda: clock[0])
    with Study.open_or_create(tmp_path, header(), [P1]) as study:
        monkeypatch.setattr(journal.os, "fsync", lambda fd: synced.append(clock[0]))
        for now in (0.1, 0.9, 1.1, 1.2, 2.2):
            clock[0] = now
            study.append(built())
        assert synced == [1.1, 2.2]
        study.append(built())
    assert synced == [1.1, 2.2, 2.2]  # close


def packed(events: Path, content: bytes) -> Path:
    """The journal `content` gzipped in place of the plain one."""
    events.unlink(missing_ok=True)
    path = events.with_name(events.name + ".gz")
    path.write_bytes(gzip.compress(content))
    return path


def test_a_gzipped_journal_is_torn_and_damaged_like_a_plain_one(tmp_path: Path, events: Path) -> None:
    whole = events.read_bytes()
    first, second, third = whole.splitlines(keepends=True)
    packed(events, first + second + third[:-1])
    assert len(Study.load(tmp_path, "s").events()) == 2
    packed(events, b'{"ev\0\n')  # larger packed than not
    assert Study.load(tmp_path, "s").events() == ()
    packed(events, first * 1000 + b"\0\n" + second)  # and much smaller
    with pytest.raises(UserError, match=r"events.jsonl.gz:1001: NUL bytes"):
        Study.load(tmp_path, "s")


@pytest.mark.parametrize("damage", ["cut", "no gzip", "changed"])
def test_a_gzipped_journal_that_cannot_be_unpacked_is_named(
    tmp_path: Path, events: Path, damage: str
) -> None:
    path = packed(events, events.read_bytes())
    content = path.read_bytes()
    middle = len(content) // 2
    damaged = {
        "cut": content[:-20],
        "no gzip": b"events",
        "changed": content[:middle] + b"\xff" * 32 + content[middle + 32 :],
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(UserError, match=rf"{path}: cannot be unpacked .*; restore"):
        Study.load(tmp_path, "s")
    with pytest.raises(UserError, match=rf"{path}: cannot be unpacked .*; restore"):
        Study.open_or_create(tmp_path, header(), [P1])
    assert not events.exists()


def test_a_disk_that_does_not_take_an_append_is_one_line(
    tmp_path: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    study = Study.open_or_create(tmp_path, header(), [P1])
    with monkeypatch.context() as patch:
        patch.setattr(journal.os, "fsync", broken)
        patch.setattr(journal, "SYNC_S", 0.0)
        with pytest.raises(UserError, match=rf"{events}: .*Input/output error"):
            study.append(built(512))
        with pytest.raises(UserError, match="Input/output error"):
            study.close()
    assert tiles(tmp_path) == [64, 128, 256, 512]  # and it is not locked any more
