"""Exported attention kernels of both templates on the GPU: the self-benchmark finds every answer right."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from . import exports
from .exports import Compiling, Entry, Knobs

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

TILES: Knobs = {"head_dim": 64, "tile_q": 128, "groups": 2}
CAUSAL: Knobs = {**TILES, "mask": "causal", "tile_kv": 64}
FULL: Knobs = {**TILES, "mask": "full", "tile_kv": 80}
EXAMPLE: Knobs = {
    **TILES,
    **{"template": "example88", "mask": "causal", "schedule": "cooperative", "persistent": True},
    **{"tile_kv": 64, "stages": 4, "q_stages": 2},
}
PERSISTENT: Knobs = {"grid": "sms", "order": "heavy", "section": 2}

FLASH = (
    Entry((2, 8, 2, 130, 1000, 64, 0), "bshd", FULL),
    Entry((2, 8, 2, 130, 1000, 64, 0), "bhsd", FULL, PERSISTENT),
    Entry((2, 4, 4, 257, 257, 64, 1), "bshd", CAUSAL),
    Entry((1, 8, 1, 100, 700, 64, 1), "bshd", CAUSAL, PERSISTENT),
    Entry((2, 2, 2, 300, 190, 64, 2), "bhsd", CAUSAL, PERSISTENT),
    Entry((1, 4, 2, 400, 170, 64, 1), "bhsd", CAUSAL),  # rows without keys
    Entry((2, 16, 4, 2048, 2048, 64, 1), "bshd", CAUSAL, PERSISTENT),
)
"""One of each mask, layout and launch, whole tiles and ragged ones."""
EXPORTS: Mapping[str, tuple[str, tuple[Entry, ...]]] = {
    "flash": ("fmha", FLASH),
    "bf16": ("fmha-bf16", (FLASH[2], FLASH[6])),
    "example88": (
        "fmha",
        tuple(Entry(FLASH[i].extents, FLASH[i].layout, EXAMPLE) for i in (2, 3, 4, 5, 6)),
    ),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Compiling]:
    made = {
        name: exports.benchmark(exports.write(op, entries, tmp_path_factory.mktemp(name), name))
        for name, (op, entries) in EXPORTS.items()
    }
    exports.compile_all(list(made.values()))
    return made


@pytest.mark.parametrize("name", EXPORTS)
def test_the_self_benchmark_finds_all_answers_right(compiled: Mapping[str, Compiling], name: str) -> None:
    program: Path = compiled[name].folder / f"{name}_bench"
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    print(done.stdout, flush=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all answers right" in done.stdout
    assert done.stdout.count(" yes ") == len(EXPORTS[name][1])
    times = [float(line.split()[10]) for line in done.stdout.splitlines()[1:-2]]
    assert len(times) == len(EXPORTS[name][1]) and all(0.5 < time < 1e4 for time in times)


def test_a_wrong_scale_is_found_wrong(compiled: Mapping[str, Compiling], tmp_path: Path) -> None:
    """The benchmark's own check: a reference of another scale does not match the kernels' answers."""
    folder = compiled["flash"].folder
    text = (folder / "flash_bench.cu").read_text()
    assert text.count("buffers.right(0, scale)") == 1
    (folder / "lying_bench.cu").write_text(
        text.replace("buffers.right(0, scale)", "buffers.right(0, 1.02f * scale)")
    )
    line = compiled["flash"].lines[1].replace("flash_bench", "lying_bench")
    exports.compile_all([Compiling(compiled["flash"].written, (line,))])
    done = subprocess.run([str(folder / "lying_bench")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "WRONG ANSWERS" in done.stdout and " yes " not in done.stdout
