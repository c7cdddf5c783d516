"""Commands side by side: how each ended, and that nothing outlives the reason to run it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from threading import Event

import pytest

from cutlass_tuner.build.process import module_command, run_together


def sh(text: str) -> list[str]:
    return ["sh", "-c", text]


def test_all_is_told_of_commands_that_end_well(tmp_path: Path) -> None:
    spin = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; pwd; echo $TMPDIR >&2"
    first, second = run_together([sh(spin), sh("echo two")], tmp_path, 60, Event())
    assert first.ok
    assert second.ok
    assert first.log.split() == [str(tmp_path)] * 2  # both streams, and temporary files stay in the folder
    assert second.log == "two\n"
    assert 0 < first.cpu_s < 60


def test_one_failure_ends_the_other_command(tmp_path: Path) -> None:
    started = time.monotonic()
    slow, bad = run_together([sh("sleep 600"), sh("echo no; exit 3")], tmp_path, 60, Event())
    assert time.monotonic() - started < 5
    assert (bad.status, bad.ending, bad.log) == (3, "exited", "no\n")
    assert (slow.ok, slow.ending) == (False, "superseded")


@pytest.mark.parametrize("why", ["timed out", "cancelled"])
def test_a_limit_ends_the_whole_process_group(tmp_path: Path, why: str) -> None:
    cancelled = Event()
    if why == "cancelled":
        cancelled.set()
    script = f"sleep 600 & echo $! > {tmp_path}/child; wait"
    [ended] = run_together([sh(script)], tmp_path, 0.3, cancelled)
    assert (ended.ok, ended.ending) == (False, why)
    if why == "timed out":
        status = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
        time.sleep(0.1)
        assert not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_a_command_that_cannot_be_started_ends_the_other(tmp_path: Path) -> None:
    running = f"{tmp_path}/running"
    with pytest.raises(FileNotFoundError):
        run_together([sh(f"sleep 600; : {running}"), [str(tmp_path / "none")]], tmp_path, 60, Event())
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(running.encode() in command for command in commands)


def test_a_signal_is_a_negative_status(tmp_path: Path) -> None:
    [ended] = run_together([sh("kill -9 $$")], tmp_path, 60, Event())
    assert (ended.status, ended.ending, ended.ok) == (-9, "exited", False)


def test_a_module_of_ours_runs_from_any_folder(tmp_path: Path) -> None:
    command = module_command("cutlass_tuner.build.probe", str(tmp_path / "no.so"))
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert "no.so: cannot open shared object file" in done.stderr
