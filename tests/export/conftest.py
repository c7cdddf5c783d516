from __future__ import annotations

from pathlib import Path

import pytest

from export.samples import Writer


@pytest.fixture
def export(tmp_path: Path) -> Writer:
    """Writes an export below this test's folder."""
    return Writer(tmp_path / "out")
