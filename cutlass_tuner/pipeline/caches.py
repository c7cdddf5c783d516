"""`cache show` and `cache prune`."""

from __future__ import annotations

import time

from cutlass_tuner.pipeline import setup
from cutlass_tuner.report.tables import counted

MEBIBYTE = 1 << 20
DAY_S = 86400.0


def cache_show() -> str:
    """Where the cache is, and what it holds."""
    cache = setup.cache()
    entries = cache.entries()
    if not entries:
        return f"{cache.root}: empty"
    failed = sum("failure" in entry.about for entry in entries)
    oldest = (time.time() - entries[0].used) / DAY_S
    return (
        f"{cache.root}\n"
        f"{counted(len(entries) - failed, 'kernel')}, {counted(failed, 'recorded failure')}, "
        f"{cache.bytes() / MEBIBYTE:.1f} MiB\n"
        f"longest unused: {oldest:.1f} days"
    )


def cache_prune(older_than_days: float | None, everything: bool) -> str:
    """Remove what was not used for `older_than_days` days, or everything."""
    cache = setup.cache()
    age_s = None if everything or older_than_days is None else older_than_days * DAY_S
    pruned = cache.prune(older_than_s=age_s, everything=everything)
    return f"removed {counted(pruned.entries, 'build')}, {pruned.bytes / MEBIBYTE:.1f} MiB, from {cache.root}"
