"""Importing the emitters leaves the command line to whoever was started."""

from __future__ import annotations

import subprocess
import sys


def test_help_is_not_answered_by_the_cutlass_package() -> None:
    script = "import sys, cutlass_tuner.emit; print(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['--help']\n"
