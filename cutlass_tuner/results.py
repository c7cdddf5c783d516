"""What a comparison says: made by `compare`, printed by `report`, exported by `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cutlass_tuner.records import Config, L2Mode, Problem, Record
from cutlass_tuner.statistics import TIE, Paired, verdict

if TYPE_CHECKING:
    from cutlass_tuner.ops.registry import Op

TORCH = "torch"
"""The reference of every contest, and the first of every op's baselines (`Op.baselines`)."""
LT = "cublaslt"
LT_TUNED = "cublaslt-tuned"
"""cuBLASLt by its heuristic, and with the algorithm that was found: of an op that tunes a baseline."""
CONTROL = "torch-again"
"""torch a second time in the same contest: what the measurement says of two equal sides."""

BEST = "the best baseline"
"""The pseudo-baseline of whichever baseline is fastest on a problem, of those that were right there."""
BEST_LAYOUT = "torch's best layout"
"""The pseudo-baseline of `Row.best_layout`."""
BEST_CUBLASLT = "the better cuBLASLt"
"""The pseudo-baseline of cuBLASLt's heuristic or auto-tuned choice, whichever is faster on the problem."""

NO_KERNEL = "no kernel of ours"
"""Why a baseline that was measured has no ratio."""

Outcome = Literal["faster", "tie", "slower", "missing", "impossible"]
"""Ours against a baseline. "missing": no pair to compare. "impossible": below the physical floor."""


def in_layout(baseline: str, layout: str) -> str:
    """The entrant's name of a baseline whose operands are stored in another layout than the problem's."""
    return f"{baseline}@{layout}"


def headline(op: Op) -> str:
    """The baseline that an op's verdicts and first summary speak of.

    Where a baseline is tuned for the contest, it is torch: that is the call a user would otherwise make.
    Where each baseline is one call away, it is the best of them.
    """
    return TORCH if op.tunes_baseline else BEST


class Row(Record):
    """One problem's final result.

    Times are medians in device microseconds and only for reading: every ratio is of paired samples
    of one contest, baseline/ours, above 1 = ours is faster. `outcomes` has every baseline of the op, in
    the tables' order; `missing` says, by baseline, why a ratio is not there. `best_layout` is ours in the
    problem's layout against torch in torch's best one; `control` is torch against itself.
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
        measured = [name for name, outcome in self.outcomes.items() if outcome != "missing"]
        return TORCH in measured and all(self._level(name) for name in measured)

    def _level(self, baseline: str) -> bool:
        tie = self.outcomes[baseline] == "tie" and self.ratios[baseline].ratio >= 1.0 / (1.0 + TIE)
        return tie or self.outcomes[baseline] == "faster"

    @property
    def best_baseline(self) -> str | None:
        """The fastest baseline that was right: the least of the ratios. Of equally fast ones noise chooses,
        to our disadvantage. None where there is no ratio."""
        return min(self.ratios, key=lambda name: self.ratios[name].ratio, default=None)

    def against(self, baseline: str) -> tuple[Paired | None, Outcome]:
        """Ours against a baseline or a pseudo-baseline, and what that says."""
        if baseline == BEST_LAYOUT:
            return self._pseudo(self.best_layout)
        if baseline == BEST_CUBLASLT:
            pairs = [self.ratios[name] for name in (LT, LT_TUNED) if name in self.ratios]
            return self._pseudo(min(pairs, key=lambda pair: pair.ratio, default=None))
        name = self.best_baseline if baseline == BEST else baseline
        if name is None:
            return None, "missing"
        return self.ratios.get(name), self.outcomes.get(name, "missing")

    def _pseudo(self, pair: Paired | None) -> tuple[Paired | None, Outcome]:
        if pair is None:
            return None, "missing"
        return pair, "impossible" if self.outcomes.get(TORCH) == "impossible" else verdict(pair)

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
    """All problems against one baseline, or one of the pseudo-baselines.

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
