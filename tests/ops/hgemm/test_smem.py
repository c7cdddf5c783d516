"""The shared-memory formula against what CUTLASS's own types said."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, KernelConfig
from cutlass_tuner.space import Space

GOLDEN = Path(__file__).with_name("smem_golden.csv")
SAID = ("smem_bytes", "threads", "effective_stages")


def _golden() -> list[dict[str, str]]:
    lines = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def _kernel(row: dict[str, str], space: Space, device: DeviceFacts) -> KernelConfig:
    knobs = space.parse_all({name: value for name, value in row.items() if name not in SAID})
    return space.effective(space.kernel(**knobs), device)


def test_every_recorded_instantiation_is_met_to_the_byte(space: Space, device: DeviceFacts) -> None:
    rows = _golden()
    assert len(rows) >= 70
    for row in rows:
        ours = op("hgemm").smem(_kernel(row, space, device))
        assert ours is not None
        said = (int(row["smem_bytes"]), int(row["effective_stages"]))
        assert (ours.total_bytes, ours.stages) == said, row


def test_the_recorded_instantiations_cover_every_branch_of_the_formula() -> None:
    rows = _golden()
    for name, values in {
        "schedule": {"plain", "pingpong", "cooperative"},
        "epilogue": {"tma", "nosmem"},
        "swap_ab": {"true", "false"},
        "layout": {"tn", "tt"},
        "scheduler": {"persistent", "streamk"},
    }.items():
        assert {row[name] for row in rows} == values
    assert {"8", "16", "80", "128"} <= {row["tile_n"] for row in rows}  # the three swizzle atoms


@pytest.mark.parametrize("schedule", ["plain", "pingpong", "cooperative"])
# The last one would get a stage more if the 1 KiB that every block reserves were forgotten.
@pytest.mark.parametrize("tile", ["128x128x64", "128x8x128", "128x256x32", "64x64x32"])
def test_two_ctas_is_the_most_that_lets_two_share_an_sm(
    space: Space, device: DeviceFacts, schedule: str, tile: str
) -> None:
    texts = {"tile": tile, "schedule": schedule, "swap_ab": "true"}
    paired = space.effective(space.kernel(**space.parse_all({**texts, "stages": "two_ctas"})), device)
    ours = op("hgemm").smem(paired)
    assert ours is not None and ours.stages >= 2
    # 228 KiB an SM, of which every resident CTA costs its own bytes and 1 KiB (CUDA programming guide).
    assert 2 * (ours.total_bytes + 1024) <= 228 * 1024
    one_more = space.effective(
        space.kernel(**space.parse_all({**texts, "stages": str(ours.stages + 1)})), device
    )
    more = op("hgemm").smem(one_more)
    assert more is not None and 2 * (more.total_bytes + 1024) > 228 * 1024


def test_a_tile_too_large_for_one_stage_gets_none(space: Space, device: DeviceFacts) -> None:
    kernel = space.effective(
        space.kernel(**space.parse_all({"tile": "256x256x256", "stages": "two_ctas"})), device
    )
    assert kernel.knobs["stages"] == 0
    assert "two_stages" in {broken.rule for broken in space.check(kernel, None, None, device).illegal}
