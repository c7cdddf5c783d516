"""What an exporter ships of this package so that attention kernels compile without it, by template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.emit import flash
from cutlass_tuner.settings import PACKAGE


@dataclass(frozen=True)
class Shipped:
    """`includes` are the lines that bring a template's kernels and the way from a call to their Params;
    `files` are those of this package that these lines reach, by the path they are included by."""

    includes: tuple[str, ...]
    files: Mapping[str, Path]


def _shipped(included: Sequence[str], others: Sequence[str] = ()) -> Shipped:
    lines = tuple(f'#include "{name}"' for name in included)
    return Shipped(lines, {name: PACKAGE / name for name in (*included, *others)})


def _paths(files: Sequence[Path]) -> list[str]:
    return [str(path.relative_to(PACKAGE)) for path in files]


SHIPPED: Mapping[str, Shipped] = {
    "example88": _shipped(
        ("emit/example88_kernel.h", "emit/example88_host.h"),
        ("emit/example88_fusion.h",),
    ),
    "flash": _shipped(
        ("emit/flash/kernel.h", "emit/flash/host.h"),
        _paths((*flash.DEVICE_HEADERS, *flash.HOST_HEADERS)),
    ),
}
"""Those of example 88 go first, as in a source that is measured."""
