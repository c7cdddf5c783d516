"""Kernels in, builds out: the cache first, then one translation unit, split when it does not compile."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any

from cutlass_tuner.build import unit
from cutlass_tuner.build.cache import Cache, Cancelled, Entry
from cutlass_tuner.build.key import Ingredients
from cutlass_tuner.build.nvcc import Nvcc
from cutlass_tuner.build.probe import Described
from cutlass_tuner.build.sources import DeviceCompiler, Sources
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.build.unit import Compiled, Uncompiled, Unit, compile_unit
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Build, Contract, Failure, KernelConfig

SMEM_PER_BLOCK = {"sm_90a": 227 * 1024, "sm_100a": 227 * 1024}
"""Bytes of shared memory a block may opt in to (CUDA C++ Programming Guide, compute capabilities)."""

Outcome = Build | Failure


@dataclass(frozen=True)
class Builder:
    """Builds kernels of one op for one architecture. Safe to use from many threads at once.

    `timeout_s` limits one run of the compiler, wall clock. `compiler` makes the device part (nvcc
    unless given); the host part is g++'s in any case.
    """

    toolchain: Toolchain
    cache: Cache
    arch: str
    timeout_s: float
    emitter: Sources
    contract: Contract
    compiler: DeviceCompiler | None = None
    _unit: Unit = field(init=False)

    def __post_init__(self) -> None:
        compiler = self.compiler or Nvcc(self.toolchain)
        made = Unit(self.toolchain, compiler, self.arch, self.emitter, self.contract, self.timeout_s)
        object.__setattr__(self, "_unit", made)

    @property
    def compiler_version(self) -> str:
        """Both compilers in one line, for a study's environment."""
        return f"{self._unit.compiler.version}, g++ {self.toolchain.gxx.version}"

    @property
    def flags(self) -> tuple[str, ...]:
        """The device compiler's flags, for a study's environment and an export's compile line."""
        return self._unit.compiler.flags(self.arch)

    def key(self, kernel: KernelConfig) -> str:
        """The cache's key of one kernel. Raises UserError when it cannot be emitted."""
        return Ingredients(
            device_source=self.emitter.device_source([kernel], self.contract),
            host_source=self.emitter.host_source([kernel], self.contract),
            headers=self._headers,
            device_flags=self.flags,
            host_flags=self.toolchain.host_flags(),
            arch=self.arch,
            compiler=self.compiler_version,
            cutlass=f"{self.toolchain.headers.version} {self.toolchain.headers.digest}",
        ).key

    def build(self, kernels: Sequence[KernelConfig], cancelled: Event | None = None) -> list[Outcome]:
        """Build `kernels` as one batch; the answers are aligned with them.

        What the cache has is taken from there, builds and failures alike. Blocks until done; once
        `cancelled` is set the compilers are killed and what is not built yet is a Failure.
        """
        cancelled = cancelled or Event()
        outcomes: dict[str, Outcome] = {}
        wanted: dict[str, KernelConfig] = {}
        for kernel in kernels:
            try:
                key = self.key(kernel)
            except UserError as error:
                outcomes[kernel.key] = Failure(stage="emit", reason=str(error))
                continue
            if (cached := self._cached(key)) is not None:
                outcomes[kernel.key] = cached
            else:
                wanted[key] = kernel
        try:
            with self.cache.locked(list(wanted), cancelled):
                # Another process may have built some of them while this one waited.
                found = {key: self._cached(key) for key in wanted}
                missing = {key: kernel for key, kernel in wanted.items() if found[key] is None}
                outcomes |= {wanted[key].key: hit for key, hit in found.items() if hit is not None}
                outcomes |= self._compile(missing, cancelled)
        except Cancelled:
            gone = Failure(stage="build", reason="cancelled", lasting=False)
            outcomes |= {kernel.key: gone for kernel in wanted.values() if kernel.key not in outcomes}
        return [outcomes[kernel.key] for kernel in kernels]

    @cached_property
    def _headers(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.emitter.headers}

    def _compile(self, kernels: dict[str, KernelConfig], cancelled: Event) -> dict[str, Outcome]:
        """Compile (cache key -> kernel) as one unit; where that fails, as smaller ones. By kernel key."""
        if not kernels:
            return {}
        folder = self.cache.scratch()
        try:
            done = compile_unit(self._unit, list(kernels.values()), folder, cancelled)
            if isinstance(done, Compiled):
                return self._published(kernels, done, folder)
            if len(kernels) == 1 or done.cancelled or done.stuck:
                return self._failed(kernels, done, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        outcomes: dict[str, Outcome] = {}
        for part in self._parts(kernels, done):
            outcomes |= self._compile(part, cancelled)
        return outcomes

    def _parts(self, kernels: dict[str, KernelConfig], failed: Uncompiled) -> list[dict[str, KernelConfig]]:
        """How to split a unit that failed: those its errors name one by one and the others together,
        or in halves where they name none or all of many."""
        named = {k: kernel for k, kernel in kernels.items() if self.emitter.symbol(kernel) in failed.suspects}
        others = {k: kernel for k, kernel in kernels.items() if k not in named}
        if named and (others or len(named) == 2):
            return [*([others] if others else []), *({key: kernel} for key, kernel in named.items())]
        keys = list(kernels)
        half = len(keys) // 2
        return [{key: kernels[key] for key in part} for part in (keys[:half], keys[half:])]

    def _published(
        self, kernels: dict[str, KernelConfig], done: Compiled, folder: Path
    ) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for index, (key, kernel) in enumerate(kernels.items()):
            made = self._accept(kernel, index, done, len(kernels), folder)
            about: dict[str, Any] = {"kernel": kernel.key, "arch": self.arch}
            if isinstance(made, Failure):
                self.cache.publish(key, _evidence(folder), about | {"failure": made.model_dump()})
                outcomes[kernel.key] = made
            else:
                files = {name: folder / name for name in unit.FILES}
                entry = self.cache.publish(key, files, about | {"build": made.model_dump()})
                outcomes[kernel.key] = _placed(made, entry, cached=False)
        return outcomes

    def _failed(self, kernels: dict[str, KernelConfig], done: Uncompiled, folder: Path) -> dict[str, Outcome]:
        if done.failure.lasting:
            for key, kernel in kernels.items():
                about = {"kernel": kernel.key, "arch": self.arch, "failure": done.failure.model_dump()}
                self.cache.publish(key, _evidence(folder), about)
        return {kernel.key: done.failure for kernel in kernels.values()}

    def _accept(
        self, kernel: KernelConfig, index: int, done: Compiled, batch_size: int, folder: Path
    ) -> Outcome:
        """The build of kernel `index`, or why what was built is not what was asked or cannot run."""
        symbol = self.emitter.symbol(kernel)
        described, report = done.kernels[index], done.reports.get(symbol)
        wrong = self._wrong(kernel, symbol, described, done)
        if wrong or report is None:
            return Failure(stage="build", reason=wrong)
        return Build(
            kernel=kernel,
            symbol=symbol,
            cubin=unit.CUBIN,
            host_library=unit.HOST_LIBRARY,
            index=index,
            registers=report.registers,
            spill_bytes=report.spill_bytes,
            smem_bytes=described.smem_bytes,
            threads=described.threads,
            stages=described.stages,
            params_bytes=described.params_bytes,
            cubin_bytes=(folder / unit.CUBIN).stat().st_size,
            compile_s=done.cpu_s / batch_size,
            batch_size=batch_size,
            cached=False,
            warnings=report.warnings,
        )

    def _wrong(self, kernel: KernelConfig, symbol: str, described: Described, done: Compiled) -> str:
        if symbol not in done.reports or described.symbol != symbol:
            return f"the compilers built {described.symbol} where {symbol} was asked"
        if (device := done.params_bytes.get(symbol)) != described.params_bytes:
            return (
                f"Params are {device} bytes to {self._unit.compiler.version} "
                f"and {described.params_bytes} to g++: their headers do not agree"
            )
        for name, asked in self.emitter.asked(kernel).items():
            if (built := getattr(described, name)) != asked:
                return f"{name} {built} was built where {asked} was asked"
        limit = SMEM_PER_BLOCK.get(self.arch)
        if limit is not None and described.smem_bytes > limit:
            return f"needs {described.smem_bytes} bytes of shared memory, a block has at most {limit}"
        return ""

    def _cached(self, key: str) -> Outcome | None:
        entry = self.cache.get(key)
        if entry is None:
            return None
        if "failure" in entry.about:
            return Failure.model_validate(entry.about["failure"])
        return _placed(Build.model_validate(entry.about["build"]), entry, cached=True)


def _placed(build: Build, entry: Entry, *, cached: bool) -> Build:
    """A build whose file names are paths: an entry itself holds none, so a cache can be moved."""
    paths = {"cubin": entry.path(build.cubin), "host_library": entry.path(build.host_library)}
    return build.model_copy(update={"cached": cached} | {name: str(path) for name, path in paths.items()})


def _evidence(folder: Path) -> dict[str, Path]:
    """What to keep of a failure: sources and log, not what half-compiled."""
    return {name: folder / name for name in (unit.DEVICE_SOURCE, unit.HOST_SOURCE, unit.LOG)}
