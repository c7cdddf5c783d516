"""What is made ready before a command starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops import registry
from cutlass_tuner.options import SpaceOptions, TuneOptions
from cutlass_tuner.pipeline import setup, tune
from cutlass_tuner.pipeline.bench import Bench
from pipeline.harness import SPACE

OP = registry.op("hgemm")


@pytest.fixture
def narrow(tmp_path: Path) -> Path:
    path = tmp_path / "narrow.yaml"
    path.write_text(SPACE)
    return path


def test_a_space_is_of_one_architecture(narrow: Path) -> None:
    assert setup.space(OP, "sm_90a", SpaceOptions(narrow)).arch == "sm_90a"
    with pytest.raises(UserError, match=r"narrow\.yaml: its kernels are for sm_90a, not for sm_80"):
        setup.space(OP, "sm_80", SpaceOptions(narrow))


@pytest.mark.parametrize("own", [False, True])
def test_tune_refuses_a_gpu_that_the_space_is_not_for(
    own: bool, narrow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = OP.nominal_device("sm_90a").model_copy(update={"arch": "sm_80"})
    monkeypatch.setattr(Bench, "describe", lambda _: SimpleNamespace(device=device))
    monkeypatch.setattr(setup, "toolchain", lambda _: None)
    monkeypatch.setattr(setup, "child_log", lambda: tmp_path / "log")
    (tmp_path / "s.csv").write_text("m,n,k\n64,64,64\n")
    options = TuneOptions(
        op="hgemm",
        shapes=tmp_path / "s.csv",
        studies=tmp_path / "studies",
        space=SpaceOptions(narrow if own else None),
    )
    with pytest.raises(UserError, match="sm_80"):
        tune(options)
    assert not options.studies.exists()
