"""What is recorded of a device, by problem and entrant: the table that a recorded device answers from.

What is recorded of a kernel is its samples beside torch's of the same rounds, so that what can be replayed
is their ratio. A search and finals are kept apart: the card is warmer in finals, which moves some kernels'
ratio to torch by a tenth, and only the search's best are measured there.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cutlass_tuner.events import BaselineResult, FinalRow, RunFailed
from cutlass_tuner.records import Config, Failure, Measurement
from cutlass_tuner.results import TORCH

Key = tuple[str, str]
"""A problem's key, and the name of an entrant of its contests: a config's key or a baseline's name."""

Ratios = tuple[float, ...]
"""An entrant's time / torch's, round by round."""


@dataclass(frozen=True)
class Played:
    """What stands for a config on a problem: its ratios, and the measurement that has the rest."""

    measurement: Measurement
    ratios: Ratios

    @property
    def weight(self) -> tuple[bool, int]:
        """A wrong answer outweighs any right one, then the longest counts."""
        return not self.measurement.verdict.passed, len(self.ratios)


@dataclass(frozen=True)
class Figures:
    """Made by `of`; never changes, so that many replays may share it.

    `reference_us` is the median of all that is recorded of torch, by problem key; `longest` a measurement
    with the most rounds there, for what torch shares with it. `searched` and `finals`
    hold what stands for a config in contests of either kind; `theirs` the ratios of the baselines in the
    last final. `failures` says why a config (or, under the kernel's key alone, any of its configs) has none.
    """

    reference_us: Mapping[str, float]
    longest: Mapping[str, Measurement]
    searched: Mapping[Key, Played]
    finals: Mapping[Key, Played]
    theirs: Mapping[Key, Ratios]
    failures: Mapping[Key, Failure]
    baselines: Mapping[Key, BaselineResult]

    @classmethod
    def of(
        cls,
        measurements: Iterable[Measurement],
        *,
        failures: Iterable[RunFailed] = (),
        finals: Iterable[FinalRow] = (),
        baselines: Iterable[BaselineResult] = (),
    ) -> Figures:
        """From a study's records, in the order they happened; measurements beside anything but torch are
        left out. Of several measurements of one kind of a config on a problem, a wrong one stands for it
        where there is one, then the longest, then the latest. A final's row, which may span several
        contests, stands for its winner."""
        searched: dict[Key, Played] = {}
        played: dict[Key, Played] = {}
        torch_us: dict[str, list[float]] = {}
        longest: dict[str, Measurement] = {}
        for one in measurements:
            if one.reference == TORCH and one.samples_us:
                torch_us.setdefault(one.problem, []).extend(one.reference_us)
                most = longest.setdefault(one.problem, one)
                longest[one.problem] = max(most, one, key=lambda m: len(m.samples_us))
                key = one.problem, Config(kernel=one.kernel, launch=one.launch).key
                chosen = played if _of_a_final(one) else searched
                _offer(chosen, key, Played(one, _ratios(one.samples_us, one.reference_us)))
        theirs = _final_ratios(finals)
        for key in played.keys() & theirs.keys():
            _offer(played, key, Played(played[key].measurement, theirs[key]))
        return cls(
            reference_us={problem: statistics.median(us) for problem, us in torch_us.items()},
            longest=longest,
            searched=searched,
            finals=played,
            theirs=theirs,
            failures={(one.problem, _failed(one)): one.failure for one in failures},
            baselines={(one.problem, one.name): one for one in baselines},
        )

    def failure(self, problem: str, config: str) -> Failure | None:
        """Why this config, or its kernel whatever the launch, gave no time; None where nothing says so.
        What failed once is not run again, whatever else is recorded of it."""
        kernel = config.partition("|")[0]
        return self.failures.get((problem, config)) or self.failures.get((problem, kernel))

    def played(self, problem: str, config: str, *, final: bool = False) -> Played | None:
        """What stands for this config in a contest of a final or of a search, or else in one of the other
        kind; None where it was never measured."""
        first, second = (self.finals, self.searched) if final else (self.searched, self.finals)
        return first.get((problem, config)) or second.get((problem, config))

    def knows(self, problem: str, config: str) -> bool:
        """Is anything recorded of this config: times, or why there are none?"""
        return self.played(problem, config) is not None or self.failure(problem, config) is not None


def _of_a_final(measurement: Measurement) -> bool:
    """Only semifinals and finals look at the output once more after timing."""
    return measurement.evidence.after_timing_mismatches is not None


def _offer(chosen: dict[Key, Played], key: Key, one: Played) -> None:
    if key not in chosen or one.weight >= chosen[key].weight:
        chosen[key] = one


def _failed(event: RunFailed) -> str:
    """What failed: a config's key, or its kernel's alone where that failed whatever the launch."""
    if event.launch is None:
        return event.kernel.key
    return Config(kernel=event.kernel, launch=event.launch).key


def _ratios(samples_us: Iterable[float], reference_us: Iterable[float]) -> Ratios:
    return tuple(ours / theirs for ours, theirs in zip(samples_us, reference_us, strict=True))


def _final_ratios(finals: Iterable[FinalRow]) -> dict[Key, Ratios]:
    """Of every entrant of a final but torch, to torch in the same rounds."""
    found: dict[Key, Ratios] = {}
    for row in finals:
        samples = dict(zip(row.entrants, row.samples_us, strict=True))
        torch = samples.pop(TORCH, None)
        if torch is not None:
            found |= {(row.problem, name): _ratios(us, torch) for name, us in samples.items()}
    return found
