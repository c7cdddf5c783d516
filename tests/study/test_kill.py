"""`kill -9` of a real process that writes, at random instants: nothing it was told is stored is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from cutlass_tuner.events import KernelBuilt, Measured
from cutlass_tuner.study import Study
from study.events import P1, header

KILLS = 24
APPENDER = Path(__file__).with_name("appender.py")


def acknowledged(log: Path) -> list[int]:
    """Numbers in the child's own log. Its last line may be torn too: that one was not finished."""
    text = log.read_text() if log.exists() else ""
    return [int(line) for line in text[: text.rfind("\n") + 1].split() if line != "open"]


def opened(log: Path) -> int:
    return log.read_text().count("open\n") if log.exists() else 0


def stored(study: Study) -> list[int]:
    tiles = []
    for event in study.events():
        assert isinstance(event, KernelBuilt | Measured)
        kernel = event.build.kernel if isinstance(event, KernelBuilt) else event.measurement.kernel
        tiles.append(int(kernel.knobs["tile_m"]))
    return tiles


def test_every_acknowledged_event_survives_kills_at_random_instants(tmp_path: Path) -> None:
    """One study is killed, opened and gone on with, again and again."""
    rng = random.Random(0)
    log = tmp_path / "log"
    command = [sys.executable, str(APPENDER), str(tmp_path / "studies"), str(APPENDER.parents[1]), str(log)]
    grew, torn = 0, 0
    for kill in range(KILLS):
        before = len(acknowledged(log))
        child = subprocess.Popen(command, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while opened(log) <= kill and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.03))
        child.kill()
        _, errors = child.communicate()
        assert child.returncode == -9, errors.decode()

        events = tmp_path / "studies" / "s" / "events.jsonl"
        torn += bool(events.read_bytes()) and not events.read_bytes().endswith(b"\n")
        kept = stored(Study.load(tmp_path / "studies", "s"))
        said = acknowledged(log)
        assert kept == list(range(len(kept)))  # in order, none lost in the middle, none twice
        assert len(said) <= len(kept) <= len(said) + kill + 1  # each kill may hit between store and log
        assert set(said) <= set(kept)
        grew += len(said) > before
    assert grew >= KILLS * 3 // 4, "the child was killed before it wrote anything"

    with Study.open_or_create(tmp_path / "studies", header(), [P1]) as study:
        assert stored(study) == kept
    print(f"{len(kept)} events, {KILLS} kills, {torn} torn lines")
