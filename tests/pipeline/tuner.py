"""`cutlass-tuner` with no GPU and no compiler: the real command line over a scripted child and builder.

Run as `python tests/pipeline/tuner.py tune ...`: a process of its own, which tests may kill.

Environment. ANSWER_S is the time limit of a contest, BUILD_S the seconds a batch takes, STALLS_AFTER the
number of batches after which every compile is a process that sleeps; BUILD_FAILS_ON a part of the keys of
kernels that do not build; BUILT a file of kernels as they are built, PIDS one of process ids. The rest is the
child's (child.py).
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from pathlib import Path
from threading import Event

from cutlass_tuner import cli, settings
from cutlass_tuner.build.process import run_together
from cutlass_tuner.pipeline import bench, setup
from cutlass_tuner.records import Build, Failure, KernelConfig

HERE = Path(__file__).parent
CHILD = [sys.executable, "-S", "-E", str(HERE / "child.py")]
SLEEPER = ["sh", "-c", 'echo $$ >> "${PIDS:-/dev/null}"; exec sleep 600']


class Builder:
    """Answers as the real one does, with artefacts that are empty files."""

    compiler_version = "scripted 1.0"
    flags = ("-O3",)

    def __init__(self) -> None:
        self._batches = itertools.count()
        self._folder = settings.settings().cache_dir / "kernels"
        self._folder.mkdir(parents=True, exist_ok=True)

    def build(self, kernels: list[KernelConfig], cancelled: Event | None = None) -> list[Build | Failure]:
        cancelled = cancelled or Event()
        cancelled.wait(float(os.environ.get("BUILD_S", "0.02")))
        if next(self._batches) >= int(os.environ.get("STALLS_AFTER", "1000000")):
            with tempfile.TemporaryDirectory() as folder:
                run_together([SLEEPER], Path(folder), 600.0, cancelled)
        if cancelled.is_set():
            return [Failure(stage="build", reason="cancelled", lasting=False) for _ in kernels]
        return [self._one(kernel, index, len(kernels)) for index, kernel in enumerate(kernels)]

    def _one(self, kernel: KernelConfig, index: int, size: int) -> Build | Failure:
        artefact = self._folder / kernel.digest
        cached = artefact.exists()
        if "BUILT" in os.environ and not cached:
            with Path(os.environ["BUILT"]).open("a") as log:
                log.write(f"{kernel.key}\n")
        if os.environ.get("BUILD_FAILS_ON", "no such kernel") in kernel.key:
            return Failure(stage="build", reason="scripted to fail")
        artefact.touch()
        return Build(
            kernel=kernel,
            symbol=f"cutlass_tuner_{kernel.digest}",
            cubin=str(artefact),
            host_library=str(artefact),
            index=index,
            registers=168,
            spill_bytes=0,
            smem_bytes=100_000,
            threads=384,
            stages=int(kernel.knobs["stages"]),
            params_bytes=1792,
            cubin_bytes=30_000,
            compile_s=1.0,
            batch_size=size,
            cached=cached,
        )


class Tools:
    """Stands where the compilers would: versions only."""

    cuda = "13.0.88"
    cutlass = "4.2.0"


def main(arguments: list[str] | None = None) -> int:
    bench.CHILD = CHILD
    bench.ANSWER_S = float(os.environ.get("ANSWER_S", "30"))
    setup.builder = lambda *_: Builder()  # type: ignore[assignment,return-value]
    setup.toolchain = lambda _: Tools()  # type: ignore[assignment,return-value]
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
