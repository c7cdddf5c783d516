"""The C face of exported libraries, with one whose kernels compute on the CPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from cutlass_tuner.device import entrants
from cutlass_tuner.device.attention import Attention
from cutlass_tuner.device.entrants import LibraryEntrant
from cutlass_tuner.device.library import LibraryError, calls
from cutlass_tuner.ops import registry
from cutlass_tuner.records import Problem
from cutlass_tuner.verify.tolerance import tolerance
from cutlass_tuner.wire import LibraryEntry

KERNELS = Path(__file__).parents[1] / "export" / "cpu_kernels.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    path = tmp_path_factory.mktemp("library") / "kernels.so"
    command = [gcc, "-O1", "-shared", "-fPIC", str(KERNELS), "-o", str(path), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return str(path)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize(
    "extents", [(2, 4, 2, 33, 65, 32, 1), (1, 2, 1, 40, 20, 32, 2), (1, 2, 2, 17, 9, 32, 0)]
)
def test_an_exported_attention_is_a_contestant_like_any_other(
    library: str, layout: str, extents: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Workspace(entrants.Workspace):
        def __init__(self, size: int) -> None:
            self._size = size
            self._bytes = torch.full((size + 256,), entrants.GUARD, dtype=torch.uint8)
            self.address = self._bytes.data_ptr()

    monkeypatch.setattr(entrants, "Workspace", Workspace)
    op = registry.op("fmha")
    workload = Attention(
        op.problem(extents, layout), tolerance(op.contract), "warm", 1 << 20, 0, device="cpu"
    )
    entrant = LibraryEntrant(LibraryEntry(name="library", path=library), workload, 0)
    (one,) = entrant.bind(workload.sets[:1], workload.scalar)
    probing = [entrant.bind([probe.operands], probe.scalar)[0].run for probe in workload.probes]
    evidence = workload.evidence(one.run, probing, repeat=True, every_output=True)
    assert evidence.exact_mismatches == 0 and 0 < evidence.error_over_bound <= 1
    assert (evidence.unwritten, evidence.repeat_mismatches, entrant.guard_touched()) == (0, 0, 0)


def product(extents: tuple[int, ...] = (8, 8, 16)) -> Problem:
    return registry.op("hgemm").problem(extents, "tn")


def test_a_product_of_matrices(library: str) -> None:
    run, size = calls(library, product(), (8, 8, 16, 1))
    a, b, d = torch.randn(8, 16).half(), torch.randn(8, 16).half(), torch.zeros(8, 8).half()
    space = torch.empty(size, dtype=torch.uint8)
    assert run([a.data_ptr(), b.data_ptr(), d.data_ptr()], 0.5, space.data_ptr(), 0) == 0
    assert torch.allclose(d.float(), 0.5 * (a.float() @ b.float().T), atol=2e-3)


def test_what_a_library_refuses_is_said(library: str, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="workspace_size answers -1 for hgemm"):
        calls(library, product(), (0, 8, 16, 1))
    empty = tmp_path / "empty.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", str(empty)], check=True, capture_output=True
    )
    with pytest.raises(LibraryError, match="a library without ct_export_run"):
        calls(str(empty), product(), (8, 8, 16, 1))
