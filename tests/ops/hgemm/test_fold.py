"""Folding: what the scheduler ignores, clamps or decides by itself. See also test_against_cutlass.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutlass_tuner.abi import DECOMPOSITIONS, RASTERS, REDUCTIONS
from cutlass_tuner.ops.registry import op
from cutlass_tuner.records import DeviceFacts, KernelConfig, LaunchConfig, Scalar
from cutlass_tuner.space import Space

from .conftest import problem

LARGE = (4096, 4096, 4096)
Make = Callable[..., KernelConfig]


@pytest.fixture
def fold(space: Space, device: DeviceFacts) -> Callable[..., dict[str, Scalar]]:
    def folded(kernel: KernelConfig, of: tuple[int, int, int], **knobs: Scalar) -> dict[str, Scalar]:
        on = problem(*of, layout=str(kernel.knobs["layout"]))
        return space.effective_launch(kernel, space.launch(**knobs), on, device).knobs

    return folded


Fold = Callable[..., dict[str, Scalar]]


def test_stages_become_their_number_and_equal_kernels_are_equal(space: Space, device: DeviceFacts) -> None:
    automatic = space.effective(space.kernel(stages="auto"), device)
    assert automatic.knobs["stages"] == 6
    assert automatic == space.effective(space.kernel(stages=6), device)
    assert automatic.key == space.effective(space.kernel(stages=6), device).key
    assert automatic != space.effective(space.kernel(stages=5), device)
    assert space.effective(automatic, device) == automatic


def test_the_plain_schedule_has_no_launch_knobs(kernel: Make, fold: Fold) -> None:
    plain = kernel(schedule="plain", tile_m=64, stages="two_ctas")
    asked = {"swizzle": 8, "raster": "along_m", "splits": 4, "reduction": "nondeterministic"}
    constant = {
        "swizzle": 1,
        "raster": "heuristic",
        "splits": 1,
        "decomposition": "heuristic",
        "reduction": "deterministic",
    }
    assert fold(plain, LARGE, **asked) == constant


@pytest.mark.parametrize("schedule", ["pingpong", "cooperative"])
def test_schedulers_that_do_not_split_ignore_splitting(kernel: Make, fold: Fold, schedule: str) -> None:
    asked = {"splits": 8, "decomposition": "split_k", "reduction": "nondeterministic", "swizzle": 4}
    folded = fold(kernel(schedule=schedule), LARGE, **asked)
    assert folded == {**fold(kernel(schedule=schedule), LARGE), "swizzle": 4}
    assert (folded["splits"], folded["decomposition"], folded["reduction"]) == (
        1,
        "heuristic",
        "deterministic",
    )


@pytest.mark.parametrize(
    ("tiles", "asked", "effective"),
    [(1, 8, 1), (2, 1, 1), (2, 2, 2), (2, 8, 2), (3, 4, 4), (3, 2, 2), (5, 8, 4), (6, 8, 8), (6, 4, 4)],
)
def test_swizzle_needs_a_grid_to_work_on(
    kernel: Make, fold: Fold, tiles: int, asked: int, effective: int
) -> None:
    assert fold(kernel(), (128 * tiles, 4096, 512), swizzle=asked)["swizzle"] == effective
    assert fold(kernel(), (4096, 128 * tiles, 512), swizzle=asked)["swizzle"] == effective


def test_swizzle_counts_the_grid_in_whole_clusters(kernel: Make, fold: Fold) -> None:
    assert fold(kernel(cluster_m=4), (128, 4096, 512), swizzle=8)["swizzle"] == 4
    assert fold(kernel(cluster_m=8), (128, 4096, 512), swizzle=8)["swizzle"] == 8


def test_raster_heuristic_becomes_the_order_it_picks(kernel: Make, fold: Fold) -> None:
    assert fold(kernel(), (4096, 8192, 512))["raster"] == "along_m"
    assert fold(kernel(), (8192, 4096, 512))["raster"] == "along_n"
    assert fold(kernel(), LARGE)["raster"] == "along_n"
    assert fold(kernel(), LARGE, raster="along_m")["raster"] == "along_m"


def test_raster_is_in_the_kernels_own_m_and_n(kernel: Make, fold: Fold) -> None:
    assert fold(kernel(swap_ab=True), (4096, 8192, 512))["raster"] == "along_n"
    assert fold(kernel(swap_ab=True), (8192, 4096, 512))["raster"] == "along_m"


def test_a_line_of_clusters_is_walked_one_way(kernel: Make, fold: Fold) -> None:
    line = (128, 8192, 512)
    assert fold(kernel(), line, raster="along_n") == fold(kernel(), line, raster="along_m")
    assert fold(kernel(), (256, 8192, 512), raster="along_n")["raster"] == "along_n"
    assert fold(kernel(cluster_m=2), (256, 8192, 512), raster="along_n")["raster"] == "along_m"


def test_splits_are_clamped_to_k_tiles_and_sms(kernel: Make, fold: Fold, device: DeviceFacts) -> None:
    streamk = kernel(scheduler="streamk")
    assert fold(streamk, (128, 128, 64 * 5), splits=8)["splits"] == 5
    assert fold(streamk, (128, 128, 64 * 500), splits=24)["splits"] == 24
    one_tile = fold(streamk, (128, 128, 64), splits=8, reduction="nondeterministic")
    assert (one_tile["splits"], one_tile["decomposition"]) == (1, "data_parallel")
    assert one_tile["reduction"] == "deterministic"


def test_splits_are_clamped_to_the_device(space: Space, kernel: Make, device: DeviceFacts) -> None:
    few = device.model_copy(update={"sm_count": 10})
    launch = space.effective_launch(
        kernel(scheduler="streamk"), space.launch(splits=24), problem(128, 128, 64 * 500), few
    )
    assert launch.knobs["splits"] == 10


def test_heuristic_with_splits_is_split_k(kernel: Make, fold: Fold) -> None:
    streamk = kernel(scheduler="streamk", cluster_m=2)
    deep = (256, 256, 16384)
    assert fold(streamk, deep, splits=4) == fold(streamk, deep, splits=4, decomposition="split_k")
    assert fold(streamk, deep, splits=4)["decomposition"] == "split_k"
    assert fold(streamk, deep, splits=1, decomposition="split_k")["decomposition"] == "data_parallel"


def test_what_stream_k_will_do_is_known_for_single_ctas_only(kernel: Make, fold: Fold) -> None:
    deep = (128, 128, 64 * 16 * 8)
    assert fold(kernel(scheduler="streamk"), deep)["decomposition"] == "split_k"
    assert fold(kernel(scheduler="streamk"), deep)["splits"] == 16
    assert fold(kernel(scheduler="streamk", cluster_m=2), deep)["decomposition"] == "heuristic"
    # With no more than eight K tiles there is nothing to share out, whatever the cluster.
    shallow = fold(kernel(scheduler="streamk", cluster_m=2), (128, 128, 512), decomposition="stream_k")
    assert shallow["decomposition"] == "data_parallel"


def test_the_order_of_two_partial_sums_does_not_matter(kernel: Make, fold: Fold) -> None:
    streamk, deep = kernel(scheduler="streamk"), (128, 128, 16384)
    assert fold(streamk, deep, splits=2, reduction="nondeterministic")["reduction"] == "deterministic"
    assert fold(streamk, deep, splits=3, reduction="nondeterministic")["reduction"] == "nondeterministic"


def test_folding_twice_changes_nothing(space: Space, kernel: Make, device: DeviceFacts) -> None:
    for knobs in ({"scheduler": "streamk"}, {"cluster_m": 4}, {"schedule": "plain"}, {"swap_ab": True}):
        for of in ((512, 4096, 8192), (64, 64, 16384), (1000, 136, 2048)):
            for launch in space.launches(kernel(**knobs), problem(*of), device):
                again = space.effective_launch(kernel(**knobs), launch, problem(*of), device)
                assert again == launch


def test_launch_codes_are_the_abis() -> None:
    knobs: dict[str, Scalar] = {
        "swizzle": 8,
        "raster": "along_n",
        "splits": 4,
        "decomposition": "stream_k",
        "reduction": "nondeterministic",
    }
    codes = op("hgemm").launch_codes(LaunchConfig(knobs=knobs))
    assert codes == (8, 2, 4, 3, 1)
    assert (RASTERS[codes[1]], DECOMPOSITIONS[codes[3]], REDUCTIONS[codes[4]]) == (
        "along_n",
        "stream_k",
        "nondeterministic",
    )
    assert not op("hgemm").deterministic(LaunchConfig(knobs=knobs))
    assert op("hgemm").deterministic(LaunchConfig(knobs={**knobs, "reduction": "deterministic"}))
