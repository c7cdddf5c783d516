"""When a search ends, and what it says about it."""

from __future__ import annotations

from dataclasses import dataclass

RESERVE_SHARE = 0.25
"""The finals never take more of a time budget than this."""


@dataclass(frozen=True)
class Budget:
    """Limits of one search; None is no limit, and the first one reached ends it.

    `seconds` of wall clock, finals included; `builds` kernels built or failed to build; `target`:
    the speed-up over the reference (1.05 = five per cent faster) at which more is not wanted.
    `finals_s` seconds are kept free for the finals, at most a quarter of `seconds`.
    """

    seconds: float | None = None
    builds: int | None = None
    target: float | None = None
    finals_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("seconds", "builds", "target"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be greater than 0, not {value}")

    @property
    def reserve_s(self) -> float:
        """Seconds kept for the finals."""
        return 0.0 if self.seconds is None else min(self.finals_s, RESERVE_SHARE * self.seconds)

    def search_s(self, elapsed_s: float) -> float | None:
        """Seconds the search may still go on, never negative; None without a time limit."""
        return None if self.seconds is None else max(0.0, self.seconds - self.reserve_s - elapsed_s)

    def builds_left(self, builds: int) -> int | None:
        """Kernels that may still be asked for; None without a limit. Count those in flight as built."""
        return None if self.builds is None else max(0, self.builds - builds)

    def stop(self, elapsed_s: float, builds: int, speedup: float | None) -> str | None:
        """Why the search ends now, in words, or None to go on.

        `speedup` is reference time / best time by whatever measure `target` is meant (the caller's:
        the least of all problems, or their geometric mean); None while a problem has no time.
        """
        if self.target is not None and speedup is not None and speedup >= self.target:
            return f"target reached: {speedup:.3f} times the reference, {self.target:g} asked for"
        if self.builds is not None and builds >= self.builds:
            return f"builds used up: {builds} of {self.builds}"
        if self.seconds is not None and self.search_s(elapsed_s) == 0.0:
            kept = f", {duration(self.reserve_s)} kept for the finals" if self.reserve_s >= 1 else ""
            return f"time used up: {duration(elapsed_s)} of {duration(self.seconds)}{kept}"
        return None


def duration(seconds: float) -> str:
    """Seconds as people say them: "45s", "10m", "1h30m", "2m05s"."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"
    if minutes:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    return f"{rest}s"
