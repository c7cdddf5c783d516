"""`--help` answers at once, on any machine: nothing heavy is imported for it."""

from __future__ import annotations

import re
import resource
import subprocess
import sys

import pytest

HEAVY = {"torch", "optuna", "cutlass_library", "cuda", "numpy", "scipy", "nvmath", "anthropic", "pynvml"}
COMMANDS = ["", "tune", "build", "compare", "run", "show", "export", "doctor", "cache"]


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


def test_a_reader_that_leaves_is_no_error() -> None:
    program = f"{sys.executable} -m cutlass_tuner tune --help | head -1"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("Usage: cutlass-tuner tune [OPTIONS]\n", "")
