"""What a comparison says: made by `compare`, printed by `report`, exported by `export`."""

from __future__ import annotations

from typing import Literal

from cutlass_tuner.records import Config, L2Mode, Problem, Record
from cutlass_tuner.statistics import TIE, Paired

TORCH = "torch"
LT = "cublaslt"
LT_TUNED = "cublaslt-tuned"
CONTROL = "torch-again"
"""torch.matmul a second time in the same contest: what the measurement says of two equal sides."""

HEADLINE = TORCH
"""The baseline that verdicts and the first summary speak of."""

BASELINES = (TORCH, LT, LT_TUNED)
"""The baselines' names as entrants of a contest, in the tables' order."""

Outcome = Literal["faster", "tie", "slower", "missing", "impossible"]
"""Ours against a baseline. "missing": no pair to compare. "impossible": below the physical floor."""


def in_layout(baseline: str, layout: str) -> str:
    """The entrant's name of a baseline whose operands are stored in another layout than the problem's."""
    return f"{baseline}@{layout}"


class Row(Record):
    """One problem's final result.

    Times are medians in device microseconds and only for reading: every ratio is of paired samples
    of one contest, baseline/ours, above 1 = ours is faster. `missing` says, by baseline, why a ratio
    is not there. `best_layout` is ours in the problem's layout against torch in torch's best one;
    `control` is torch against itself.
    `roofline_us` is None on a device without a measured curve. `winner` None: `why` says so.
    """

    problem: Problem
    l2: L2Mode
    flops: int
    winner: Config | None
    ours_us: float | None
    baseline_us: dict[str, float]
    ratios: dict[str, Paired]
    outcomes: dict[str, Outcome]
    missing: dict[str, str]
    best_layout: Paired | None
    roofline_us: float | None
    floor_us: float
    why: str = ""
    throttle: tuple[str, ...] = ()
    control: Paired | None = None

    @property
    def beats_baselines(self) -> bool:
        """Whether ours is faster than, or level with, each baseline that was measured; torch must be.

        Level is a tie within `statistics.TIE`: where contests disagree much is unproven, and an unproven
        loss of some per cent is no licence to ship. An impossible time is no win either.
        """
        measured = [name for name in BASELINES if self.outcomes.get(name, "missing") != "missing"]
        return TORCH in measured and all(self._level(name) for name in measured)

    def _level(self, baseline: str) -> bool:
        tie = self.outcomes[baseline] == "tie" and self.ratios[baseline].ratio >= 1.0 / (1.0 + TIE)
        return tie or self.outcomes[baseline] == "faster"

    @property
    def roofline(self) -> float | None:
        """The part of the measured roofline that ours reaches, 1 = all of it."""
        return self.roofline_us / self.ours_us if self.roofline_us and self.ours_us else None

    @property
    def tflops(self) -> float | None:
        """Ours, 10^12 floating-point operations a second."""
        return self.flops / self.ours_us / 1e6 if self.ours_us else None


class Bucket(Record):
    """The compared problems of one size range."""

    label: str
    problems: int
    geomean: float
    wins: int


class Summary(Record):
    """All problems against one baseline ("best layout" counts as one).

    `compared` problems enter the figures; the rest are in `missing` and `impossible` by label, so
    that no failure quietly improves a mean. `mean` is the mean ratio (of TFLOP/s, equivalently),
    `flop_weighted` the mean ratio weighted by FLOPs x count, `time_weighted` what a model that makes
    these calls gains: total baseline time over total time of ours. Figures are None with nothing
    compared. `wins`, `ties`, `losses` are by proven difference; `win_rate` is wins / compared.
    """

    baseline: str
    problems: int
    compared: int
    wins: int
    ties: int
    losses: int
    missing: tuple[str, ...]
    impossible: tuple[str, ...]
    mean: float | None
    geomean: float | None
    flop_weighted: float | None
    time_weighted: float | None
    buckets: tuple[Bucket, ...]
    roofline: float | None

    @property
    def win_rate(self) -> float | None:
        return self.wins / self.compared if self.compared else None
