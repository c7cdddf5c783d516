"""The inner search: which launch arguments of a built kernel to time on one problem. No compile needed.

Gating on the default launch alone hides split-K winners, so a few unlike launches are probed
first; the rest is tried only where the kernel is near the problem's incumbent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cutlass_tuner.records import LaunchConfig, Scalar

SPLITS = "splits"
DIVIDING = ("decomposition", "grid")
"""Knobs whose every value divides the work among CTAs in a way of its own."""
PROBED_SPLITS = (4, 16)
"""Beside the default: how often K is split matters by factors, so it is probed a decade apart."""


def probe(launches: Sequence[LaunchConfig], limit: int = 6) -> list[LaunchConfig]:
    """The first launches to time, at most `limit`: the default, and unlike ways to divide the work.

    `launches` are all effective legal ones, the default first. Of each value of the `DIVIDING` knobs, and of
    each split count nearest (by ratio) to `PROBED_SPLITS`, the launch that differs least from the default.
    """
    if not launches:
        return []
    default = launches[0]
    chosen = [default]
    counts = sorted({count for launch in launches if (count := _splits(launch)) > 1})
    for wanted in PROBED_SPLITS:
        if counts:
            nearest = min(counts, key=lambda count: abs(math.log(count / wanted)))
            chosen.append(_least_changed(default, [v for v in launches if _splits(v) == nearest]))
    for knob in DIVIDING:
        for way in dict.fromkeys(launch.knobs.get(knob) for launch in launches):
            if way not in {launch.knobs.get(knob) for launch in chosen}:
                same = [launch for launch in launches if launch.knobs.get(knob) == way]
                chosen.append(_least_changed(default, same))
    return list({launch.key: launch for launch in chosen}.values())[:limit]


def expand(
    launches: Sequence[LaunchConfig],
    measured: Mapping[str, float],
    incumbent: float | None,
    within: float = 0.25,
    limit: int = 16,
) -> list[LaunchConfig]:
    """The launches to time next, at most `limit`; [] when the kernel is too slow or all are timed.

    `measured` maps a launch's key to its log(time / reference), failed launches being absent;
    `incumbent` is the least log ratio of any kernel on the problem, None when there is none.
    Launches come in order of distance from the best one measured: first those that differ in one
    knob, by one step of it. Call again with more measured: the centre moves with the best.
    """
    if not measured:
        return []
    best = min(measured.values())
    if incumbent is not None and best > incumbent + math.log1p(within):
        return []
    by_key = {launch.key: launch for launch in launches}
    ranked = sorted((value, key) for key, value in measured.items() if key in by_key)
    if not ranked:
        return []
    centre = by_key[ranked[0][1]]
    steps = _steps(launches)
    rest = [launch for launch in launches if launch.key not in measured]
    rest.sort(key=lambda launch: _distance(centre, launch, steps))
    return rest[:limit]


def _splits(launch: LaunchConfig) -> int:
    count = launch.knobs.get(SPLITS, 1)
    return count if isinstance(count, int) else 1


def _least_changed(default: LaunchConfig, launches: Sequence[LaunchConfig]) -> LaunchConfig:
    return min(launches, key=lambda launch: _changed(default, launch))


def _changed(a: LaunchConfig, b: LaunchConfig) -> int:
    return sum(a.knobs.get(name) != b.knobs.get(name) for name in a.knobs.keys() | b.knobs.keys())


def _steps(launches: Sequence[LaunchConfig]) -> dict[str, dict[Scalar, int]]:
    """Rank of each value of each numeric knob; a step between two words is always one."""
    names = dict.fromkeys(name for launch in launches for name in launch.knobs)
    ranks: dict[str, dict[Scalar, int]] = {}
    for name in names:
        values = {launch.knobs[name] for launch in launches if name in launch.knobs}
        numbers = sorted(v for v in values if isinstance(v, int) and not isinstance(v, bool))
        ranks[name] = {value: rank for rank, value in enumerate(numbers)}
    return ranks


def _distance(
    centre: LaunchConfig, launch: LaunchConfig, steps: Mapping[str, Mapping[Scalar, int]]
) -> tuple[int, int]:
    """Knobs that differ, then the sum of the steps in them."""
    walked = 0
    for name, rank in steps.items():
        a, b = centre.knobs.get(name), launch.knobs.get(name)
        if a != b:
            known = a in rank and b in rank
            walked += abs(rank[a] - rank[b]) if a is not None and b is not None and known else 1
    return _changed(centre, launch), walked
