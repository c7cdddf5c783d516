"""What is known of a kernel's shared memory before it is compiled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Smem:
    """One kernel's shared memory. Bytes; `stages` is the effective count."""

    stage_bytes: int
    stages: int
    total_bytes: int
