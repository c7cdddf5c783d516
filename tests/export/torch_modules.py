"""Exported PyTorch modules with kernels computed on a CPU by cpu_kernels.c, all else as it is exported."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cutlass_tuner.export.unit import Exported

SOURCE = Path(__file__).with_name("cpu_kernels.c")


@dataclass(frozen=True)
class OnCpu:
    """A loaded module and the library behind it."""

    module: ModuleType
    stub: ctypes.CDLL

    def calls(self) -> int:
        """How often a kernel was launched since the library was loaded."""
        return int(self.stub.stub_calls())


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # torch.compile looks a function's module up by name
    spec.loader.exec_module(module)
    return module


def module_file(exported: Exported) -> Path:
    return next(path for path in exported.files if path.name.endswith("_torch.py"))


def on_cpu(exported: Exported) -> OnCpu:
    """The module with "cuda" said "cpu", no stream, and the capability that it wants."""
    path = module_file(exported)
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    library = path.with_name(f"lib{path.stem}.so")
    command = [gcc, "-O2", "-shared", "-fPIC", "-Wall", "-Werror", str(SOURCE), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if "_Float16" in done.stderr:
        pytest.skip("this gcc has no _Float16")
    assert done.returncode == 0, done.stderr
    text = path.read_text()
    assert text.count('"cuda"') == 2
    path.write_text(text.replace('"cuda"', '"cpu"'))
    module = load(path)
    module._stream = lambda device: nullcontext(0)
    return OnCpu(module, ctypes.CDLL(str(library)))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).half()
