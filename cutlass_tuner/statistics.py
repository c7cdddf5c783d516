"""Which of two samples is faster: pure statistics of paired timings.

Round i times every entrant within milliseconds, so power state, clock and temperature are common
to a round and mostly cancel in the round's ratio. All inference is on the logarithms of those
ratios; means of microseconds from different rounds are never compared. Ratios of one contest
agree better than contests do (other operands, addresses and power states), so that what is
published spans several (`across`).

The effect is the median log ratio; its interval is the exact order-statistic (sign-test) interval
of a median (W. J. Conover, Practical Nonparametric Statistics). Chosen over a bootstrap
because it needs no random numbers, its coverage is exact at 6 rounds as at 60, where a percentile
bootstrap of 6 to 20 pairs is too narrow; over a t or a signed-rank interval because GPU noise is
skewed and has two modes at the power limit, and the sign test asks only for independent rounds.
Its price is about a third of the efficiency under Gaussian noise: a few more rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cutlass_tuner.records import Record

TIE = 0.005
"""Effects up to 0.5 % are a tie however certain: they don't survive the next driver or card."""

CONCESSION = 0.02
"""The most that a preferred entrant may seem slower by and still take a tie (`pick`)."""

CONFIDENCE = 0.95

MANY_ROUNDS = 6
"""The least that leave an interval for the median, and whose median bears with a round that was disturbed."""

STEADY = 1.2
"""Within one contest the reference's samples lie milliseconds apart: where the largest is a fifth above the
least, something stalled the machine, or the clock moved, while it was timed. One such contest in an otherwise
quiet data set made a kernel 2.3 times as fast as cuBLAS."""


class Paired(Record):
    """Ours against a reference over `n` paired rounds: `ratio` is reference/ours, above 1 = faster.

    `low` and `high` bound the ratio with at least 95 % confidence, in every contest it comes from; both
    are None where there are too few rounds (under 6) for any such interval, and then nothing is
    proven either way.
    """

    ratio: float
    low: float | None
    high: float | None
    n: int

    @property
    def proven(self) -> bool:
        """Does the interval exclude equality?"""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


@cache
def _rank(n: int) -> int:
    """The largest r with P(Binomial(n, 1/2) < r) <= 2.5 %: [x_(r), x_(n+1-r)] covers the median.

    0 for n < 6, where even the whole range of the sample covers it with less than 95 %.
    """
    tail = (1.0 - CONFIDENCE) / 2
    below, rank = 0.0, 0
    while (below := below + math.comb(n, rank) / 2.0**n) <= tail:
        rank += 1
    return rank


def _log(samples: Sequence[float]) -> NDArray[np.float64]:
    values = np.asarray(samples, dtype=np.float64)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"samples must be positive and finite, got {list(samples)}")
    return np.log(values)


def paired(samples: Sequence[float], reference: Sequence[float]) -> Paired | None:
    """Compare two samples of one contest, round by round; None when they share no round.

    The i-th samples belong to round i. An entrant that was dropped early is compared over the
    rounds it took part in. Raises ValueError on a sample that is not positive and finite.
    """
    n = min(len(samples), len(reference))
    if n == 0:
        return None
    ratios = np.exp(np.sort(_log(reference[:n]) - _log(samples[:n])))
    middle = math.sqrt(ratios[(n - 1) // 2] * ratios[n // 2])
    rank = _rank(n)
    if rank == 0:
        return Paired(ratio=middle, low=None, high=None, n=n)
    return Paired(ratio=middle, low=float(ratios[rank - 1]), high=float(ratios[n - rank]), n=n)


def across(
    samples: Sequence[float], reference: Sequence[float], contests: Sequence[int] = ()
) -> Paired | None:
    """Compare two samples of several contests in a row; `contests` counts the rounds of each, () = one.

    The ratio is the median of the contests' ratios. The interval reaches from the least to the greatest
    bound of theirs, so that nothing is proven where contests disagree. None where either has no samples.
    Raises ValueError where the rounds do not add up.
    """
    if len(contests) < 2 or not samples or not reference:
        return paired(samples, reference)
    if not len(samples) == len(reference) == sum(contests):
        raise ValueError(
            f"{len(samples)} and {len(reference)} samples in contests of {list(contests)} rounds"
        )
    ends = list(accumulate(contests))
    spans = [slice(end - rounds, end) for end, rounds in zip(ends, contests, strict=True)]
    pairs = [pair for span in spans if (pair := paired(samples[span], reference[span]))]
    lows, highs = [p.low for p in pairs if p.low], [p.high for p in pairs if p.high]
    bounded = len(lows) == len(highs) == len(contests)
    return Paired(
        ratio=math.exp(float(np.median([math.log(pair.ratio) for pair in pairs]))),
        low=min(lows) if bounded else None,
        high=max(highs) if bounded else None,
        n=len(samples),
    )


def verdict(pair: Paired | None, tie: float = TIE) -> Literal["faster", "slower", "tie"]:
    """A difference counts when the interval excludes 1 and the effect exceeds `tie` (a fraction)."""
    if pair is None or not pair.proven or abs(math.log(pair.ratio)) <= math.log1p(tie):
        return "tie"
    return "faster" if pair.ratio > 1.0 else "slower"


def faster(a: Sequence[float], b: Sequence[float], tie: float = TIE) -> Literal["a", "b", "tie"]:
    """Which of two samples of one contest is faster; "tie" when that is not proven."""
    outcome = verdict(paired(a, b), tie)
    return "tie" if outcome == "tie" else "a" if outcome == "faster" else "b"


def pick(
    entrants: Mapping[str, Sequence[float]], prefer: Sequence[str] = (), concession: float = CONCESSION
) -> str | None:
    """The winner of a contest; a tie with the leader goes to the first of `prefer`.

    `prefer` names, most wanted first, what costs nothing extra to ship: kernels other problems
    already use, then the default. Only entrants that finished every round compete: who was dropped
    early was dropped for being slow. The leader is the least in the median over rounds of log(time /
    that round's median), which drift common to a round cannot move. A preferred entrant takes its
    place if not proven slower and, in the median, at most `concession` slower: with few or noisy
    rounds much is unproven, and a likely 10 % must not be given away. None without any samples.
    """
    rounds = max((len(samples) for samples in entrants.values()), default=0)
    if rounds == 0:
        return None
    finishers = [name for name, samples in entrants.items() if len(samples) == rounds]
    table = np.stack([_log(entrants[name]) for name in finishers])
    standing = np.median(table - np.median(table, axis=0), axis=1)
    leader = finishers[int(np.argmin(standing))]
    for name in prefer:
        if name == leader:
            return leader
        if name not in finishers:
            continue
        pair = paired(entrants[name], entrants[leader])
        if pair is not None and verdict(pair) != "slower" and pair.ratio >= 1.0 / (1.0 + concession):
            return name
    return leader


def disturbed(reference_us: Sequence[float]) -> bool:
    """Do the reference's samples of one contest disagree so much that nothing in it may rank?"""
    return len(reference_us) > 0 and max(reference_us) > STEADY * min(reference_us)


def median_us(samples: Sequence[float]) -> float:
    """The time a table prints: the median in the samples' unit. Ratios are never taken of these."""
    return float(np.median(np.asarray(samples, dtype=np.float64)))


def below_floor(samples_us: Sequence[float], floor_us: float) -> bool:
    """Is any sample faster than physics allows? Then the measurement is wrong, not the kernel fast."""
    return any(sample < floor_us for sample in samples_us)
