"""What the GPU tests compile of CUTLASS: three batches of real kernels and an export of three of them.

Everything is started at once in the background, so that a run waits for the slowest compile only.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TypeVar

from cutlass_tuner.build.builder import Builder, Outcome
from cutlass_tuner.build.process import run_together
from cutlass_tuner.build.toolchain import Toolchain
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.emit.gemm3x import HOST_HEADER
from cutlass_tuner.export import commands, header
from cutlass_tuner.export.tuned import KernelText, Provenance, Tuned
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.options import ToolchainOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.records import (
    Build,
    Config,
    Environment,
    KernelConfig,
    Problem,
    Scalar,
)
from cutlass_tuner.space import Space
from cutlass_tuner.verify.tolerance import tolerance

ARCH = "sm_90a"
COMPILE_S = 280.0
"""The slowest, an export of three unlike kernels, takes about 90 s of one core."""

Knobs = Mapping[str, Scalar]
Result = TypeVar("Result")

COOPERATIVE: Knobs = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "schedule": "cooperative"}
PLAIN: Knobs = {"tile_m": 64, "tile_n": 64, "tile_k": 64, "schedule": "plain"}
PINGPONG: Knobs = {
    **{"tile_m": 128, "tile_n": 64, "tile_k": 64},
    **{"schedule": "pingpong", "swap_ab": True},
}
SINGLE: Knobs = {"cluster_m": 1, "cluster_n": 1}

STREAM_K: Knobs = {**COOPERATIVE, **SINGLE, "scheduler": "streamk", "stages": 4}
SMALL: Knobs = {**PLAIN, **SINGLE, "stages": "two_ctas"}
SWAPPED: Knobs = {**PINGPONG, "cluster_m": 2}

BATCHES: Mapping[str, tuple[Knobs, ...]] = {
    "cooperative": (
        {**COOPERATIVE, "cluster_m": 2},
        {**COOPERATIVE, **SINGLE, "cluster_n": 2, "epilogue": "nosmem"},
        STREAM_K,
        {**COOPERATIVE, "cluster_m": 2, "scheduler": "streamk"},
    ),
    "plain": (SMALL, {**PLAIN, "cluster_m": 2, "epilogue": "nosmem"}, {**PLAIN, **SINGLE, "layout": "tt"}),
    "pingpong": (SWAPPED, {**PINGPONG, **SINGLE, "stages": 4}, {**PINGPONG, **SINGLE, "epilogue": "nosmem"}),
}
KERNELS = tuple((batch, index) for batch, kernels in BATCHES.items() for index in range(len(kernels)))

EXPORTED: tuple[tuple[str, int, tuple[int, int, int], Knobs], ...] = (
    ("cooperative", 2, (256, 256, 8192), {"splits": 8, "decomposition": "split_k"}),
    ("plain", 0, (512, 512, 512), {}),
    ("pingpong", 0, (1024, 2048, 1024), {"swizzle": 2, "raster": "along_n"}),
)
"""Batch, index in it, extents, launch: what the export under test was "tuned" to."""
RECORDED_US = 10.0
"""Stands in the header where a study's time would: a figure that nothing but a printed ratio uses."""


@dataclass(frozen=True)
class Exported:
    """An export compiled three ways: for the tuner, by the lines it prints for people, into a program of
    two units that include its header twice each."""

    tuned: tuple[Tuned, ...]
    library: Path
    benchmark: Path
    twice: Path


class Workshop:
    """Compiles in the background from the moment it is made. A context manager: leaving it stops all."""

    def __init__(self, op: Op, folder: Path) -> None:
        self.op, self.folder = op, folder
        self.space = Space.of(op.name, ARCH)
        self.device = op.nominal_device(ARCH)
        self.tools: Toolchain = setup.toolchain(ToolchainOptions())
        self.builder: Builder = setup.builder(self.tools, ARCH, op, ToolchainOptions())
        self._cancelled = Event()
        self._threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="workshop")
        self._began = time.monotonic()
        self._export = self._threads.submit(self._exported)
        self._batches = {name: self._threads.submit(self._built, name) for name in BATCHES}

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self._cancelled.set()
        self._threads.shutdown(wait=True, cancel_futures=True)

    # --- what tests ask for

    def kernel(self, knobs: Knobs) -> KernelConfig:
        """The effective kernel with these knobs."""
        return self.space.effective(self.space.kernel(**knobs), self.device)

    def problem(self, m: int, n: int, k: int, *, batch: int = 1, layout: str = "tn") -> Problem:
        return self.op.problem((m, n, k, batch), layout)

    def build(self, batch: str, index: int) -> Build:
        """One kernel of a batch; waits for its compiler. Fails where it did not compile."""
        outcome = _waited(self._batches[batch])[index]
        assert isinstance(outcome, Build), outcome
        return outcome

    def export(self) -> Exported:
        """Waits for the export's compilers."""
        return _waited(self._export)

    # --- background

    def _built(self, name: str) -> list[Outcome]:
        outcomes = self.builder.build([self.kernel(knobs) for knobs in BATCHES[name]], self._cancelled)
        self._say(f"batch {name} compiled")
        return outcomes

    def _exported(self) -> Exported:
        tuned = tuple(self._tuned(*entry) for entry in EXPORTED)
        folder = self.folder / "export"
        written = header.write(
            tuned,
            {entry.kernel_key: self._text(entry.config.kernel) for entry in tuned},
            includes=EMITTERS[self.op.emitter].includes(),
            host_header=HOST_HEADER.read_text(encoding="utf-8"),
            provenance=Provenance(
                environment=self._environment(), l2="cold", study="tests", date="2025-11-30"
            ),
            tolerance=tolerance(self.op.contract),
            out_dir=folder,
        )
        library = folder / "tuned.so"
        shared = commands.shared_library(
            self.tools.nvcc.path, self.tools.headers.include, written.flags, written.source, library
        )
        self._compile(folder, shared, self._shell(written.nvcc_line))
        self._say("export compiled")
        self._write_twice(folder)
        link = "nvcc first.cpp second.cpp tuned.o -o twice"
        bench_line = commands.bench_line(written.flags, "tuned", cublas=False)
        self._compile(folder, self._shell(bench_line), self._shell(link))
        self._say("export's benchmark compiled")
        return Exported(tuned, library, folder / "tuned_bench", folder / "twice")

    def _shell(self, line: str) -> list[str]:
        """A line as a person would type it, with their CUTLASS and this toolchain's nvcc."""
        root, nvcc = shlex.quote(str(self.tools.headers.root)), shlex.quote(str(self.tools.nvcc.path.parent))
        return ["sh", "-c", f"CUTLASS={root}; PATH={nvcc}:$PATH; {line}"]

    def _compile(self, folder: Path, *together: list[str]) -> None:
        for ended in run_together(together, folder, COMPILE_S, self._cancelled):
            assert ended.ok, f"{ended.ending}, status {ended.status}\n{ended.log[-4000:]}"

    def _write_twice(self, folder: Path) -> None:
        first = EXPORTED[0][2]
        include = '#include "tuned.h"\n#include "tuned.h"\n'
        (folder / "second.cpp").write_text(
            f"{include}int other(int m, int n, int k) {{ return tuned::dispatch(m, n, k); }}\n"
        )
        (folder / "first.cpp").write_text(
            f"{include}#include <cstdio>\n"
            "int other(int m, int n, int k);\n"
            "int main() {\n"
            f"  int const here = tuned::dispatch({first[0]}, {first[1]}, {first[2]});\n"
            f"  int const there = other({first[0]}, {first[1]}, {first[2]});\n"
            "  auto const status = tuned::run(8, 8, 8, nullptr, nullptr, nullptr, 1.0f, nullptr, nullptr);\n"
            '  std::printf("%d %d %d %s\\n", tuned::entry_count(), here == there, here != tuned::kNotTuned,\n'
            "              tuned::to_string(status));\n"
            "}\n"
        )

    def _tuned(self, batch: str, index: int, extents: tuple[int, int, int], launch: Knobs) -> Tuned:
        kernel, problem = self.kernel(BATCHES[batch][index]), self.problem(*extents)
        effective = self.space.effective_launch(kernel, self.space.launch(**launch), problem, self.device)
        codes = self.op.launch_codes(effective)
        return Tuned(problem, Config(kernel=kernel, launch=effective), codes, RECORDED_US)

    def _text(self, kernel: KernelConfig) -> KernelText:
        emitter = EMITTERS[self.op.emitter]
        return KernelText(
            config=kernel,
            symbol=emitter.symbol(kernel),
            type_definitions=emitter.type_definitions(kernel, self.op.contract),
            wrapper=emitter.kernel_wrapper(kernel),
            template_arguments=emitter.template_arguments(kernel),
        )

    def _environment(self) -> Environment:
        """The flags are what counts here; nobody reads where the figures of a test come from."""
        return Environment(
            gpu=self.device.name,
            arch=ARCH,
            sm_count=self.device.sm_count,
            driver="",
            cuda=self.tools.cuda,
            compiler=self.builder.compiler_version,
            cublas="",
            torch="",
            cutlass=self.tools.cutlass,
            flags=self.builder.flags,
            tuner="tests",
        )

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", flush=True)


def _waited(future: Future[Result]) -> Result:
    return future.result(timeout=2 * COMPILE_S)
