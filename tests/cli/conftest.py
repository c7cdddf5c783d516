"""A pipeline that only writes down what the CLI asked of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import cutlass_tuner
from cutlass_tuner.cli import main

COMMANDS = (
    "tune", "propose", "build", "compare", "run", "show", "export", "lab", "cache_show", "cache_prune",
)  # fmt: skip


class Asked:
    """What the CLI called last: `name`, `options` (its one positional argument) and `keywords`."""

    name = ""
    options: Any = None
    keywords: dict[str, object]

    def __init__(self) -> None:
        self.keywords = {}
        self.module = ModuleType("cutlass_tuner.pipeline")
        for name in COMMANDS:
            self.answer(name, lambda: "text")
        self.answer("run", lambda: SimpleNamespace(text="text", right=True))

    def answer(self, name: str, reply: Any) -> None:
        """Make the function `name` return what `reply()` returns, or raise what it raises."""

        def command(options: object = None, **keywords: object) -> Any:
            self.name, self.options, self.keywords = name, options, keywords
            return reply()

        setattr(self.module, name, command)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Runs a command line that is a mistake, and returns the one line on stderr that tells it."""

    def line(command: str) -> str:
        assert main(command.split()) == 2
        printed, errors = capsys.readouterr()
        assert printed == ""
        assert errors.startswith("cutlass-tuner: ")
        assert errors.count("\n") == 1
        return errors

    return line


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    planted = Asked()
    monkeypatch.setitem(sys.modules, "cutlass_tuner.pipeline", planted.module)
    monkeypatch.setattr(cutlass_tuner, "pipeline", planted.module, raising=False)
    for name in ("CUTLASS_PATH", "CUTLASS_TUNER_STUDIES"):
        monkeypatch.delenv(name, raising=False)
    return planted
