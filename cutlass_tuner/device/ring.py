"""Rings of operand sets, so that a timed launch finds the L2 as cold as the mode asks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from cutlass_tuner.records import L2Mode

ALIGN_ELEMENTS = 128
GUARD_ELEMENTS = 512
"""Elements before and after every output; a multiple of the alignment, so outputs stay aligned."""

LONGEST_SAMPLE_US = 600.0
COLD_FACTOR = 2.2
"""A ring that exceeds the L2 this many times evicts a set before its turn comes again."""
MOST_LAUNCHES = 512


@dataclass(frozen=True)
class Rotation:
    """How many operand sets there are, and whether they must be flushed before each sample.

    With at least COLD_FACTOR times the L2 in the ring, a set has left the L2 when it is used again.
    A ring of tiny operands cannot be that long; there every launch of a sample has a set of its own
    and a read of a large buffer, outside the timed region, evicts them all beforehand.
    """

    sets: int
    flush: bool
    guess_us: float

    @classmethod
    def plan(cls, set_bytes: int, guess_us: float, l2: L2Mode, l2_bytes: int) -> Rotation:
        if l2 == "warm":
            return cls(1, False, guess_us)
        enough = math.ceil(COLD_FACTOR * l2_bytes / set_bytes)
        longest = min(MOST_LAUNCHES, math.ceil(LONGEST_SAMPLE_US / guess_us))
        if enough <= longest:
            return cls(max(1, enough), False, guess_us)
        return cls(longest, True, guess_us)

    def launches(self, sample_us: float) -> int:
        """Launches in one timed replay: long enough, and never a set twice where a flush is needed."""
        wanted = max(1, min(MOST_LAUNCHES, math.ceil(sample_us / self.guess_us)))
        # Without a flush all sets must have their turn, or the ring is shorter than planned.
        return min(wanted, self.sets) if self.flush else max(wanted, self.sets)


def allocate(
    sets: int, shape: tuple[int, ...], dtype: torch.dtype, guard: int = 0, device: str = "cuda"
) -> torch.Tensor:
    """An uninitialised flat ring, [sets, guard + elements + guard], each row 256-byte aligned."""
    elements = math.prod(shape) + 2 * guard
    padded = (elements + ALIGN_ELEMENTS - 1) // ALIGN_ELEMENTS * ALIGN_ELEMENTS
    return torch.empty((sets, padded), dtype=dtype, device=device)


def view(ring: torch.Tensor, index: int, shape: tuple[int, ...], guard: int = 0) -> torch.Tensor:
    """Set `index` of a ring in its shape, without its guards."""
    return ring[index, guard : guard + math.prod(shape)].view(shape)
