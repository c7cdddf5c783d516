"""Ask a fresh host library what its kernels are, in a process of its own: it is code nobody ran before.

`python -m cutlass_tuner.build.probe LIBRARY` prints one JSON list, a `Described` an element.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from cutlass_tuner.abi import HostLibrary
from cutlass_tuner.build.process import module_command


@dataclass(frozen=True)
class Described:
    """ct_description of one kernel, with its symbol. Tile and cluster in the kernel's own M, N, K."""

    symbol: str
    params_bytes: int
    threads: int
    smem_bytes: int
    stages: int
    tile: tuple[int, ...]
    cluster: tuple[int, ...]


def command(library: Path) -> list[str]:
    return module_command("cutlass_tuner.build.probe", str(library))


def parse(text: str) -> list[Described]:
    """What `command` printed. Raises ValueError when it is not that."""
    from pydantic import TypeAdapter  # not needed where the library is loaded, which starts faster so

    return TypeAdapter(list[Described]).validate_json(text)


def describe(library: Path) -> list[Described]:
    """All kernels of a host library, loaded into this process."""
    host = HostLibrary(str(library))
    found = []
    for index in range(host.count):
        said = host.describe(index)
        found.append(
            Described(
                symbol=host.symbol(index),
                params_bytes=said.params_bytes,
                threads=said.threads,
                smem_bytes=said.smem_bytes,
                stages=said.stages,
                tile=tuple(said.tile),
                cluster=tuple(said.cluster),
            )
        )
    return found


if __name__ == "__main__":
    print(json.dumps([asdict(described) for described in describe(Path(sys.argv[1]))]))
