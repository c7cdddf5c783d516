"""The hand-made kernels of `kernels/`: real .cu files, compiled and launched the way tuned kernels are."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.records import LaunchConfig
from cutlass_tuner.settings import PACKAGE
from cutlass_tuner.wire import KernelEntry

SOURCES = Path(__file__).with_name("kernels")
NAMES = tuple(sorted(path.stem for path in SOURCES.glob("*.cu")))
SPLITS = {"unordered": 32}
"""Kernels that deal K out to several CTAs."""
COMPILE_S = 120.0


@dataclass(frozen=True)
class Handmade:
    """Every kernel of `kernels/`, compiled into `folder`."""

    folder: Path

    def entry(self, name: str, *, deterministic: bool = True) -> KernelEntry:
        """A contest's entry. Kernels claim to be deterministic unless said: the cheats all do."""
        return KernelEntry(
            name=name,
            cubin=str(self.folder / f"{name}.cubin"),
            host_library=str(self.folder / f"{name}.so"),
            index=0,
            symbol=name,
            launch=LaunchConfig(knobs={}),
            launch_codes=(),
            deterministic=deterministic,
        )


def compile_all(tools: Toolchain, folder: Path, names: Sequence[str] = NAMES) -> Handmade:
    """A second or two a kernel, all at once. Raises AssertionError with the compiler's words."""

    def one(name: str) -> None:
        _run(tools.device_command(SOURCES / f"{name}.cu", folder / f"{name}.cubin", "sm_90a"))
        _run(_host_command(tools, name, folder / f"{name}.so"))

    with ThreadPoolExecutor() as threads:
        list(threads.map(one, names))
    return Handmade(folder)


def _host_command(tools: Toolchain, name: str, library: Path) -> list[str]:
    return [
        *(str(tools.gxx.path), "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{PACKAGE}"),
        *(f"-DKERNEL={name}", f"-DSPLITS={SPLITS.get(name, 1)}"),
        *(str(SOURCES / "host.cpp"), "-o", str(library)),
    ]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
