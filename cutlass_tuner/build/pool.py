"""Several batches at once, built while others are measured."""

from __future__ import annotations

import os
import queue
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Protocol

from cutlass_tuner.build.builder import Outcome
from cutlass_tuner.records import KernelConfig

BYTES_PER_JOB = 3 << 30
"""Memory one job may take: nvcc's device front end, and g++ beside it (docs/building.md)."""

Finished = tuple[list[KernelConfig], list[Outcome]]


class Builds(Protocol):
    """What builds: a `Builder`, or a recording of one (`build.recorded`)."""

    def build(self, kernels: Sequence[KernelConfig], cancelled: Event | None = None) -> list[Outcome]: ...


class Pool:
    """Builds batches on `jobs` threads, each of which waits for one compiler.

    A context manager: leaving it closes it. `submit` and `completed` are for one thread's use. `inline` is
    for a builder that answers at once: there are no threads, `completed` builds the batch that waits
    longest, and two runs that ask the same are answered the same, in the same order.
    """

    def __init__(self, builder: Builds, jobs: int, *, inline: bool = False) -> None:
        self._builder = builder
        self._inline = inline
        self._waiting: deque[list[KernelConfig]] = deque()  # to be built inline
        self._cancelled = Event()
        self._done: queue.Queue[Finished | BaseException] = queue.Queue()
        self._executor = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="build")
        self.jobs = jobs
        self.pending = 0  # batches submitted and not handed out by `completed` yet

    def submit(self, kernels: Sequence[KernelConfig]) -> None:
        """Have `kernels` built as one batch; returns at once."""
        self.pending += 1
        if self._inline:
            self._waiting.append(list(kernels))
        else:
            self._executor.submit(self._work, list(kernels))

    def completed(self, timeout_s: float | None = None) -> list[Finished]:
        """Batches that are done, each with its outcomes in the order of its kernels.

        Waits up to `timeout_s` for the first (None: for ever, 0: not at all); empty when there is none
        or nothing is pending. An error that is no Failure (the cache cannot be written) is raised here.
        """
        if self._waiting:
            self._work(self._waiting.popleft())
        finished: list[Finished] = []
        wait: float | None = timeout_s
        while self.pending:
            try:
                done = self._done.get(block=wait is None or wait > 0, timeout=wait)
            except queue.Empty:
                break
            self.pending -= 1
            if isinstance(done, BaseException):
                raise done
            finished.append(done)
            wait = 0
        return finished

    def drain(self) -> Iterator[tuple[KernelConfig, Outcome]]:
        """Every kernel submitted and not handed out yet, with its outcome, as the batches complete."""
        while self.pending:
            for kernels, outcomes in self.completed():
                yield from zip(kernels, outcomes, strict=True)

    def close(self) -> None:
        """Kill the running compilers, drop what waits, and return when all is quiet."""
        self._cancelled.set()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _work(self, kernels: list[KernelConfig]) -> None:
        try:
            self._done.put((kernels, self._builder.build(kernels, self._cancelled)))
        except BaseException as error:  # handed to the thread that asks, see `completed`
            self._done.put(error)


def default_jobs() -> int:
    """How many compilers this machine takes: a core is left for measuring, and memory for each job."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores - 1, available_memory() // BYTES_PER_JOB))


def available_memory() -> int:
    """Bytes this process may still take: the machine's, or its control group's where that is less."""
    free = [_meminfo("MemAvailable")]
    try:
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            free.append(int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no control group with a limit here
    return max(0, min(free))


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/meminfo has no {name}")
