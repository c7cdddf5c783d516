"""Final samples -> one row a problem: ours beside every baseline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cutlass_tuner.events import BaselineResult, FinalRow
from cutlass_tuner.records import DeviceFacts, Problem
from cutlass_tuner.results import CONTROL, NO_KERNEL, TORCH, Outcome, Row, in_layout
from cutlass_tuner.roofline import floor_us, roofline_us
from cutlass_tuner.statistics import Paired, across, below_floor, median_us, verdict

NO_FINALS = "no finals were run"


def rows(
    finals: Iterable[FinalRow],
    baselines: Iterable[BaselineResult],
    problems: Sequence[Problem],
    *,
    names: Sequence[str],
    device: DeviceFacts,
    flops: Callable[[Problem], int],
    bytes_: Callable[[Problem], int],
) -> list[Row]:
    """One row a problem, in the order of `problems`; a problem without finals gets a row saying so.

    `finals` and `baselines` in the order they happened: the last of a problem counts. Baselines are
    the entrants called `names`, in the tables' order, and `results.in_layout` names for other layouts;
    `baselines` only tells why one is missing. `names`, `flops` and `bytes_` are the op's.
    Raises ValueError for a winner that is not among its contest's entrants.
    """
    final = {row.problem: row for row in finals}
    failures = {(b.problem, b.name): b.failure.reason for b in baselines if b.failure}
    return [
        _row(
            problem,
            final.get(problem.key),
            {name: reason for (key, name), reason in failures.items() if key == problem.key},
            names=names,
            device=device,
            flops=flops(problem),
            size=bytes_(problem),
        )
        for problem in problems
    ]


def _row(
    problem: Problem,
    final: FinalRow | None,
    failures: dict[str, str],
    *,
    names: Sequence[str],
    device: DeviceFacts,
    flops: int,
    size: int,
) -> Row:
    l2 = final.l2 if final else "cold"
    floor = floor_us(size, flops, device, l2)
    entrants = zip(final.entrants, final.samples_us, strict=True) if final else ()
    # A baseline that gave a wrong answer is no competitor; `missing` says why.
    samples = {name: times for name, times in entrants if name not in failures}
    ours, contests = _ours(problem, final, samples), final.contests if final else ()
    ratios = {name: pair for name in names if (pair := across(ours, samples.get(name, ()), contests))}
    impossible = [name for name in names if below_floor(samples.get(name, ()), floor)]
    wrong = below_floor(ours, floor)
    why = final.why if final else NO_FINALS
    absent = "" if ours else why or NO_KERNEL
    return Row(
        problem=problem,
        l2=l2,
        flops=flops,
        winner=final.winner if final else None,
        ours_us=median_us(ours) if ours else None,
        baseline_us={name: median_us(samples[name]) for name in names if samples.get(name)},
        ratios=ratios,
        outcomes={name: _outcome(ratios.get(name), wrong or name in impossible) for name in names},
        missing={
            name: failures.get(name) or absent or "not among the finals"
            for name in names
            if name not in ratios
        },
        best_layout=_best_layout(ours, samples, contests),
        control=across(samples.get(CONTROL, ()), samples.get(TORCH, ()), contests),
        roofline_us=roofline_us(size, flops, device, l2),
        floor_us=floor,
        why="; ".join(filter(None, (why, *_impossible(floor, wrong, impossible)))),
        throttle=final.card.throttle if final and final.card else (),
    )


def _ours(
    problem: Problem, final: FinalRow | None, samples: dict[str, tuple[float, ...]]
) -> tuple[float, ...]:
    if final is None or final.winner is None:
        return ()
    if final.winner.key not in samples:
        raise ValueError(f"finals of {problem.key}: the winner {final.winner.key} is not among the entrants")
    return samples[final.winner.key]


def _outcome(pair: Paired | None, impossible: bool) -> Outcome:
    if pair is None:
        return "missing"
    return "impossible" if impossible else verdict(pair)


def _best_layout(
    ours: tuple[float, ...], samples: dict[str, tuple[float, ...]], contests: tuple[int, ...]
) -> Paired | None:
    """Ours against the fastest of torch's layouts: the least of the ratios. None without another layout."""
    others = [name for name in samples if name.startswith(in_layout(TORCH, ""))]
    pairs = [pair for name in (TORCH, *others) if (pair := across(ours, samples.get(name, ()), contests))]
    return min(pairs, key=lambda pair: pair.ratio) if others and pairs else None


def _impossible(floor: float, ours: bool, baselines: list[str]) -> list[str]:
    names = ["ours"] * ours + baselines
    return [f"below the physical floor of {floor:.3g} us: {', '.join(names)}"] if names else []
