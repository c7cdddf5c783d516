"""`--help` answers at once, on any machine: nothing heavy is imported for it."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "torch", "optuna", "cutlass_library", "cuda", "numpy", "scipy", "nvmath", "anthropic", "pynvml",
    "matplotlib",
}  # fmt: skip
COMMANDS = ["", "tune", "propose", "build", "compare", "run", "show", "export", "lab", "doctor", "cache"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_nothing_heavy(command: str) -> None:
    asked = [sys.executable, "-X", "importtime", "-m", "cutlass_tuner", *command.split(), "--help"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    imported = {name.split(".")[0] for name in re.findall(r"\|\s+(\S+)$", done.stderr, re.MULTILINE)}
    assert "typer" in imported
    assert not imported & HEAVY


def test_help_takes_under_half_a_second() -> None:
    """CPU time, the best of three: the wall clock of a busy machine says nothing about this program."""

    def cpu_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "cutlass_tuner", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_s() for _ in range(3)) < 0.5


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["tune --help", "--version", "cache show", "show hgemm-24-h200"])
def test_a_full_disk_is_one_line(command: str, unbuffered: str, tmp_path: Path) -> None:
    """Both where printing fails, and where the text first stands in a buffer."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cutlass_tuner", *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "CUTLASS_TUNER_CACHE": str(tmp_path)},
        )
    told = "cutlass-tuner: cannot write to stdout or the cache: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_a_reader_that_left_before_the_end_is_not_told(tmp_path: Path) -> None:
    """A short text fails only as the buffer is flushed."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "cutlass_tuner", "cache", "show"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "", "CUTLASS_TUNER_CACHE": str(tmp_path)},
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_reader_that_leaves_is_no_error() -> None:
    program = f"{sys.executable} -m cutlass_tuner tune --help | head -1"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("Usage: cutlass-tuner tune [OPTIONS]\n", "")
