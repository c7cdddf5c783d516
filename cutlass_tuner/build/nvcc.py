"""nvcc as the device compiler: what users ship with, hence the default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.build.toolchain import Toolchain


@dataclass(frozen=True)
class Nvcc:
    toolchain: Toolchain

    @property
    def version(self) -> str:
        return f"nvcc {self.toolchain.nvcc.version}"

    def flags(self, arch: str) -> tuple[str, ...]:
        return self.toolchain.flags(arch)

    def command(self, source: Path, cubin: Path, arch: str) -> list[str]:
        return self.toolchain.device_command(source, cubin, arch)
