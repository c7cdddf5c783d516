"""The server of tuners, one a test session, and a fresh workplace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.harness import Server, Workplace


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Workplace:
    return Workplace(server, tmp_path / "work")
