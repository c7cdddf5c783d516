"""The inner search, on all combinations of five launch knobs."""

from __future__ import annotations

import itertools
import math

import pytest

from cutlass_tuner.records import LaunchConfig
from cutlass_tuner.refine.launches import expand, probe


def launch(
    swizzle: int = 1,
    raster: str = "heuristic",
    splits: int = 1,
    decomposition: str = "heuristic",
    reduction: str = "deterministic",
) -> LaunchConfig:
    knobs = {
        "swizzle": swizzle,
        "raster": raster,
        "splits": splits,
        "decomposition": decomposition,
        "reduction": reduction,
    }
    return LaunchConfig(knobs=dict(knobs))


def persistent() -> list[LaunchConfig]:
    swizzles, rasters = (1, 2, 4, 8), ("heuristic", "along_m", "along_n")
    return [launch(swizzle=s, raster=r) for s, r in itertools.product(swizzles, rasters)]


def stream_k(splits: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)) -> list[LaunchConfig]:
    found = []
    for count, way in itertools.product(splits, ("heuristic", "data_parallel", "split_k", "stream_k")):
        if (count > 1) != (way == "split_k"):
            continue
        for one in persistent():
            for reduction in ("deterministic", "nondeterministic"):
                knobs = {**one.knobs, "splits": count, "decomposition": way, "reduction": reduction}
                found.append(LaunchConfig(knobs=knobs))
    default = launch()
    return [default, *(one for one in found if one != default)]


def shown(launches: list[LaunchConfig]) -> list[tuple[object, object]]:
    return [(one.knobs["splits"], one.knobs["decomposition"]) for one in launches]


def test_a_kernel_without_splits_is_probed_by_its_default_alone() -> None:
    assert probe(persistent()) == [launch()]


def test_stream_k_is_probed_by_unlike_ways_to_divide_the_work() -> None:
    chosen = probe(stream_k())
    assert chosen[0] == launch()
    assert shown(chosen[1:]) == [(4, "split_k"), (16, "split_k"), (1, "data_parallel"), (1, "stream_k")]
    for one in chosen:  # nothing else changes
        assert (one.knobs["swizzle"], one.knobs["raster"]) == (1, "heuristic")
        assert one.knobs["reduction"] == "deterministic"


def test_split_counts_nearest_to_the_wanted_ones_stand_in() -> None:
    assert shown(probe(stream_k((1, 2, 6, 9))))[1:3] == [(6, "split_k"), (9, "split_k")]
    assert shown(probe(stream_k((1, 2))))[1] == (2, "split_k")


def test_probe_respects_the_limit_and_an_empty_list() -> None:
    assert len(probe(stream_k(), limit=2)) == 2
    assert probe([]) == []


@pytest.mark.parametrize(
    ("best", "incumbent", "near"),
    [
        (math.log(1.24), 0.0, True),
        (math.log(1.26), 0.0, False),
        (math.log(1.26), None, True),
        (-0.5, 0.0, True),
        (0.9, 0.8, True),
    ],
)
def test_only_kernels_within_a_quarter_of_the_incumbent_are_expanded(
    best: float, incumbent: float | None, near: bool
) -> None:
    measured = {launch().key: best, launch(swizzle=8).key: best + 1}
    assert bool(expand(persistent(), measured, incumbent)) == near


def test_a_split_winner_rescues_a_kernel_whose_default_is_slow() -> None:
    launches = stream_k()
    measured = {one.key: 2.0 for one in probe(launches)}
    measured[launch(splits=16, decomposition="split_k").key] = 0.1
    chosen = expand(launches, measured, incumbent=0.0)
    neighbours = [one for one in chosen if shown([one]) == [(16, "split_k")]]
    assert len(neighbours) >= 5
    assert shown(chosen[:1]) == [(12, "split_k")] or shown(chosen[:1]) == [(16, "split_k")]


def test_one_knob_changed_by_one_step_comes_first() -> None:
    launches = persistent()
    centre = launch(swizzle=8, raster="along_m")
    chosen = expand(launches, {centre.key: 0.0, launch().key: 0.5}, incumbent=0.0, limit=100)
    changed = [
        sum(a != b for a, b in zip(one.knobs.values(), centre.knobs.values(), strict=True)) for one in chosen
    ]
    assert changed == sorted(changed)
    assert {one.key for one in chosen[:3]} == {
        launch(swizzle=4, raster="along_m").key,
        launch(swizzle=8, raster="along_n").key,
        launch(swizzle=8).key,
    }
    assert chosen[3:5] == [launch(swizzle=2, raster="along_m"), launch(swizzle=1, raster="along_m")]
    assert len(chosen) == len(launches) - 2


def test_expansion_ends_is_bounded_and_never_repeats() -> None:
    launches = stream_k()
    measured = {launch().key: 0.0}
    seen = set(measured)
    while more := expand(launches, measured, incumbent=0.0, limit=7):
        assert len(more) <= 7
        assert not {one.key for one in more} & seen
        measured.update({one.key: 0.1 for one in more})
        seen |= {one.key for one in more}
    assert seen == {one.key for one in launches}


def test_without_a_time_there_is_nothing_to_expand() -> None:
    assert expand(persistent(), {}, incumbent=0.0) == []
    assert expand(persistent(), {}, incumbent=None) == []
