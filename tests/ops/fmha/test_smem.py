"""The shared-memory formulas against what the kernels' own types say."""

from __future__ import annotations

import csv
import ctypes
import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cutlass_tuner.build import toolchain
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import Failure, KernelConfig
from cutlass_tuner.space import Space

GOLDEN = Path(__file__).with_name("smem_golden.csv")
Make = Callable[..., KernelConfig]


def total(kernel: KernelConfig) -> int:
    found = op("fmha").smem(kernel)
    assert found is not None
    return found.total_bytes


def test_flash_is_operands_and_barriers(kernel: Make) -> None:
    one = kernel(head_dim=256, tile_kv=80)
    assert total(one) == 2 * 256 * (128 + 2 * 2 * 80) + 8 * 10
    found = op("fmha").smem(one)
    assert found is not None and (found.stages, found.stage_bytes) == (2, 2 * 256 * 80)


def test_example88_is_met_to_the_byte(space: Space, kernel: Make) -> None:
    lines = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    assert len(rows) >= 20
    assert {(row["schedule"], row["persistent"]) for row in rows} >= {("cooperative", "1"), ("tma", "0")}
    for row in rows:
        said = int(row.pop("smem_bytes"))
        del row["threads"]
        for flag in ("separate_q", "persistent"):
            row[flag] = "true" if row[flag] == "1" else "false"
        assert total(kernel(template="example88", **space.parse_all(row))) == said, row


@pytest.mark.compile
def test_flash_is_what_its_traits_say(kernel: Make, tmp_path: Path) -> None:
    found = toolchain.find()
    assert not isinstance(found, Failure)
    grid = list(itertools.product((32, 64, 128, 256), (1, 2, 3), (32, 80, 176), (1, 2, 5), (1, 2)))
    sizes = (
        f"Knobs<Element::kF16, {dim}, false, {groups}, {tile_kv}, {stages}, {q_stages}, "
        "1, true, true, true, 0>::kSmemBytes"
        for dim, groups, tile_kv, stages, q_stages in grid
    )
    source, library = tmp_path / "smem.cpp", tmp_path / "smem.so"
    source.write_text(
        '#include "emit/flash/traits.h"\nusing namespace cutlass_tuner::flash;\n'
        'extern "C" __attribute__((visibility("default"))) int const sizes[] = {\n'
        f"{', '.join(sizes)}\n}};\n"
    )
    done = subprocess.run(found.host_command(source, library), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    said = (ctypes.c_int * len(grid)).in_dll(ctypes.CDLL(str(library)), "sizes")
    ours = [
        total(
            kernel(
                head_dim=dim,
                groups=groups,
                tile_q=64 * groups,
                tile_kv=tile_kv,
                stages=stages,
                q_stages=q_stages,
            )
        )
        for dim, groups, tile_kv, stages, q_stages in grid
    ]
    assert ours == list(said)
