"""What ran is what was asked: real kernels under many launches, read back from their filled Params."""

from __future__ import annotations

from math import prod

import pytest

from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Build, DeviceFacts, KernelConfig, LaunchConfig, Problem, Readback
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.wire import ContestResult, KernelEntry, Timed

from .conftest import SAMPLE_US
from .workshop import BATCHES, KERNELS, Knobs, Workshop

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

ROUNDS = 2
EXTENTS = ((512, 512, 1024, 1), (200, 328, 1000, 1), (136, 264, 520, 3), (256, 264, 4096, 1))
"""Whole tiles; none whole; none whole and batched; few tiles and a deep K."""
LAUNCHES: dict[str, tuple[Knobs, ...]] = {
    "plain": ({}, {"swizzle": 4, "raster": "along_n"}),
    "persistent": ({}, {"swizzle": 8, "raster": "along_m"}, {"swizzle": 2, "raster": "along_n"}),
    "streamk": (
        {},
        {"decomposition": "data_parallel", "raster": "along_n"},
        {"decomposition": "split_k", "splits": 4, "raster": "along_m"},
        {"decomposition": "split_k", "splits": 3, "reduction": "nondeterministic"},
        {"splits": 8, "swizzle": 2},
        {"decomposition": "stream_k", "raster": "along_n"},
        {"decomposition": "stream_k", "reduction": "nondeterministic"},
    ),
}
"""By scheduler; the plain schedule has none."""


@pytest.mark.parametrize("extents", EXTENTS, ids=lambda e: "x".join(map(str, e)))
@pytest.mark.parametrize(("batch", "index"), KERNELS, ids=str)
def test_what_ran_is_what_was_asked(
    *,
    bench: Bench,
    workshop: Workshop,
    device: DeviceFacts,
    batch: str,
    index: int,
    extents: tuple[int, int, int, int],
) -> None:
    """As asked and as folded: both launches run right, twice and after timing, and read back alike."""
    build = workshop.build(batch, index)
    kernel = build.kernel
    assert kernel == workshop.kernel(BATCHES[batch][index])
    m, n, k, count = extents
    problem = workshop.problem(m, n, k, batch=count, layout=str(kernel.knobs["layout"]))
    pairs = [
        (asked, workshop.space.effective_launch(kernel, asked, problem, device))
        for asked in (workshop.space.launch(**knobs) for knobs in LAUNCHES[scheduler(kernel)])
    ]
    launches = {launch.key: launch for pair in pairs for launch in pair}
    timed = run(bench, build, problem, launches)
    for asked, effective in pairs:
        raw, folded = timed[asked.key], timed[effective.key]
        assert folded.readback is not None and raw.readback is not None
        assert_as_asked(kernel, effective, problem, device, folded.readback)
        shared = workshop.op.smem(kernel)
        assert shared is not None and folded.readback.smem_bytes == shared.total_bytes
        assert alike(raw.readback, folded.readback), f"{asked.key} is not {effective.key}"


def scheduler(kernel: KernelConfig) -> str:
    return "plain" if kernel.knobs["schedule"] == "plain" else str(kernel.knobs["scheduler"])


def run(bench: Bench, build: Build, problem: Problem, launches: dict[str, LaunchConfig]) -> dict[str, Timed]:
    """All launches in one contest, each answer judged; by the launch's key."""
    entries: list[KernelEntry] = [bench.kernel_entry(build, launch) for launch in launches.values()]
    result = bench.contest(
        problem, [bench.reference(problem), *entries], ROUNDS, sample_us=SAMPLE_US, check_after=True
    )
    assert isinstance(result, ContestResult), result
    timed: dict[str, Timed] = {}
    for (key, launch), outcome in zip(launches.items(), result.entries[1:], strict=True):
        assert isinstance(outcome, Timed), f"{key}: {outcome}"
        deterministic = bench.op.deterministic(launch)
        verdict = judge(outcome.evidence, deterministic)
        assert verdict.passed, f"{key}: {verdict.reasons}"
        assert outcome.evidence.repeat_mismatches == (0 if deterministic else None)
        assert outcome.evidence.after_timing_mismatches == 0
        timed[key] = outcome
    return timed


def assert_as_asked(
    kernel: KernelConfig, launch: LaunchConfig, problem: Problem, device: DeviceFacts, read: Readback
) -> None:
    """The kernel's own facts, the grid, and the launch's effective knobs against what Params say."""
    knobs, asked = kernel.knobs, launch.knobs
    cluster = (int(knobs["cluster_m"]), int(knobs["cluster_n"]))
    assert read.cluster == (*cluster, 1)
    assert read.threads == (256 if knobs["schedule"] == "plain" else 384)
    assert read.stages == knobs["stages"]
    assert all(extent % along == 0 for extent, along in zip(read.grid, cluster, strict=False))
    if knobs["schedule"] == "plain":
        assert read.grid == (*whole_clusters(kernel, problem), problem.dims["batch"])
        assert (read.swizzle, read.raster, read.splits) == (None, None, None)
        assert (read.workspace_bytes, read.zeroed_bytes) == (0, 0)
        return
    assert 0 < prod(read.grid) <= device.sm_count
    assert (read.swizzle, read.raster) == (asked["swizzle"], asked["raster"])
    if knobs["scheduler"] == "persistent":
        assert (read.splits, read.workspace_bytes, read.zeroed_bytes) == (None, 0, 0)
    elif asked["decomposition"] in ("split_k", "data_parallel"):
        assert read.splits == asked["splits"]
        split = int(asked["splits"]) > 1
        assert (read.workspace_bytes > 0, read.zeroed_bytes > 0) == (split, split)


def whole_clusters(kernel: KernelConfig, problem: Problem) -> tuple[int, int]:
    """CTA tiles along the kernel's M and N, rounded up to whole clusters."""

    def tiles(extent: int, axis: str) -> int:
        tile, cluster = int(kernel.knobs[f"tile_{axis}"]), int(kernel.knobs[f"cluster_{axis}"])
        return -(-extent // (tile * cluster)) * cluster

    m, n = problem.dims["m"], problem.dims["n"]
    if kernel.knobs["swap_ab"]:
        m, n = n, m
    return tiles(m, "m"), tiles(n, "n")


def alike(asked: Readback, folded: Readback) -> bool:
    """Equal, but for the order in which a line of tiles is walked: both orders are one."""
    if asked.raster == folded.raster:
        return asked == folded
    same = {"raster": None, "grid": (prod(asked.grid), 1, 1)}
    return asked.model_copy(update=same) == folded.model_copy(
        update={"raster": None, "grid": (prod(folded.grid), 1, 1)}
    )
