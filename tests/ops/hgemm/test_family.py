"""What ran is what was asked: on every launch of a recorded search, and not where something is changed."""

from __future__ import annotations

import pytest

from cutlass_tuner import settings
from cutlass_tuner.ops.hgemm.family import ran_otherwise
from cutlass_tuner.records import KernelConfig, LaunchConfig, Measurement, Readback
from cutlass_tuner.study import Study

KERNEL = KernelConfig(family="tma_ws", knobs={"stages": 4, "cluster_m": 2, "cluster_n": 1})
LAUNCH = LaunchConfig(
    knobs={
        "swizzle": 2,
        "raster": "along_m",
        "splits": 3,
        "decomposition": "split_k",
        "reduction": "deterministic",
    }
)
BACK = Readback(
    grid=(2, 66, 1),
    cluster=(2, 1, 1),
    threads=384,
    smem_bytes=1,
    stages=4,
    workspace_bytes=0,
    zeroed_bytes=0,
    swizzle=2,
    raster="along_m",
    splits=3,
)


def measured() -> list[Measurement]:
    study = Study.load(settings.data_dir("studies"), "hgemm-24-h200")
    return [m for problem in study.problems for m in study.measurements(problem.key)]


def test_every_recorded_launch_ran_as_asked() -> None:
    found = measured()
    assert len(found) > 10_000
    assert not [wrong for m in found if (wrong := ran_otherwise(m.kernel, m.launch, m.readback))]


@pytest.mark.parametrize(
    ("field", "value"),
    [("stages", 3), ("cluster", (1, 2, 1)), ("swizzle", 1), ("raster", "along_n"), ("splits", 1)],
)
def test_a_difference_is_named(field: str, value: object) -> None:
    assert ran_otherwise(KERNEL, LAUNCH, BACK) == ""
    wrong = ran_otherwise(KERNEL, LAUNCH, BACK.model_copy(update={field: value}))
    assert wrong.startswith(f"{field} {value} ran where")


def test_a_field_the_scheduler_lacks_says_nothing() -> None:
    none = {"swizzle": None, "raster": None, "splits": None}
    assert ran_otherwise(KERNEL, LAUNCH, BACK.model_copy(update=none)) == ""


def test_the_heuristic_decomposition_may_split() -> None:
    free = LaunchConfig(knobs={**LAUNCH.knobs, "decomposition": "heuristic", "splits": 1})
    assert ran_otherwise(KERNEL, free, BACK) == ""
