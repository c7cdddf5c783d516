"""Device time by graph replay: launches captured back to back, replayed between two events."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import cache

import torch

FLUSH_FACTOR = 2
LONG_US = 3000.0
"""A replay this long does not notice the few microseconds a graph takes to start on an idle GPU."""


class Replay:
    """A CUDA graph of several launches, and how long one launch of it takes."""

    def __init__(self, enqueues: Sequence[Callable[[], object]], launches: int, guess_us: float) -> None:
        self.launches = launches
        self.short = launches * guess_us < LONG_US
        self._enqueues = list(enqueues)  # keeps Params and tensors alive as long as the graph
        self._graph = torch.cuda.CUDAGraph()
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        # A collection inside a capture may free CUDA memory, which ends the capture.
        gc.disable()
        try:
            self._graph.capture_begin(capture_error_mode="thread_local")
            try:
                for i in range(launches):
                    self._enqueues[i % len(self._enqueues)]()
            finally:
                self._graph.capture_end()
        finally:
            gc.enable()

    def replay(self) -> None:
        self._graph.replay()

    def record(self) -> None:
        """Enqueue one timed replay; `elapsed_us` reads it after a synchronisation."""
        self._begin.record()
        self._graph.replay()
        self._end.record()

    def elapsed_us(self) -> float:
        """Microseconds per launch of the last recorded replay."""
        return float(self._begin.elapsed_time(self._end)) * 1000 / self.launches


@cache
def _flush_buffer() -> torch.Tensor:
    size = FLUSH_FACTOR * torch.cuda.get_device_properties(0).L2_cache_size
    return torch.ones(size // 4, dtype=torch.float32, device="cuda")


def flush() -> None:
    """Evict the L2 by reading a buffer of twice its size. Reading, so that no dirty lines remain
    whose write-back the timed launches would pay."""
    _flush_buffer().sum()


def order(count: int, number: int) -> list[int]:
    """Who is timed when in round `number`: everybody comes first equally often, and the direction
    alternates, so that no position's advantage falls to one entrant."""
    turned = [(number // 2 + i) % count for i in range(count)]
    return turned if number % 2 == 0 else turned[::-1]


def one_round(replays: Sequence[Replay], cold_flush: bool, number: int = 0) -> list[float]:
    """Time every replay once, in the order of round `number`; microseconds per launch, in given order.

    The first one is replayed untimed beforehand: after a synchronisation the GPU idles, and the time
    from the event to the graph's first node would be the host's, not the kernel's.
    """
    turns = order(len(replays), number)
    if replays[turns[0]].short:
        replays[turns[0]].replay()
    for turn in turns:
        if cold_flush:
            flush()
        replays[turn].record()
    torch.cuda.synchronize()
    return [replay.elapsed_us() for replay in replays]


def warm_up(replay: Replay, seconds: float) -> None:
    """Keep the card busy, so that what follows is measured in its steady power state."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(4):
            replay.replay()
        torch.cuda.synchronize()
