"""What makes two builds of a kernel the same: the one place that knows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

FORMAT = 1
"""Of a cache entry's files; raise it when an older entry must no longer be read."""


@dataclass(frozen=True)
class Ingredients:
    """Everything a kernel's cubin, host library and report depend on. Paths are none of it.

    The sources are the kernel's alone: a kernel is the same whichever batch it was compiled in.
    `headers` maps the names of the tuner's own C++ headers, the ABI among them, to their text;
    `cutlass` is CUTLASS's version and the digest of its headers.
    """

    device_source: str
    host_source: str
    headers: dict[str, str]
    device_flags: tuple[str, ...]
    host_flags: tuple[str, ...]
    arch: str
    compiler: str
    cutlass: str
    format: int = FORMAT

    @property
    def key(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]
