"""The integer probe: inputs for which an honest kernel has exactly one right answer.

A and B hold integers in [-limit, limit], so every partial sum, in any order and any split of K, is
an integer that the contract's accumulator represents exactly. D = RN(alpha * sum), with alpha a
power of two, then has one right bit pattern: whatever the tile, split or reduction order, an honest
kernel matches it bit for bit. An accumulator with fewer bits rounds partial sums and does not.
"""

from __future__ import annotations

import math

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, Record

EXACT_INTEGERS = {"f16": 2**11, "bf16": 2**8, "tf32": 2**11, "f32": 2**24}
"""Every integer up to this magnitude is exact: 2 to the significand's bits, hidden one included."""

LARGEST = {"f16": 65504.0, "bf16": 2.0**127, "f32": 2.0**127}
"""No larger than the type's largest finite value."""

MOST = 64
"""Products up to 4,096 keep many bits of a sum busy; no larger, to leave room for a long K."""


class Probe(Record):
    """A and B hold integers in [-limit, limit]; alpha is an exact power of two, at most 1/2."""

    limit: int
    alpha: float


def probe(contract: Contract, k: int) -> Probe:
    """The probe for dot products of length `k`. UserError for an element type it doesn't know.

    limit is the largest with k * limit^2 <= the accumulator's exact integers, so exactness holds for
    the worst signs too, up to k = 2^24 for f32. Past that limit is 1 and exactness a matter of
    chance (a sum of k random signs would have to leave 2,000 standard deviations).
    alpha keeps k * limit^2 * alpha finite in D and D normal. It is never 1, so that a kernel that
    ignores alpha is caught.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    accumulator = _known(EXACT_INTEGERS, contract.accumulator, "accumulator")
    inputs = min(_known(EXACT_INTEGERS, contract.elements[name], f"operand {name}") for name in ("a", "b"))
    limit = max(1, min(MOST, inputs, math.isqrt(int(accumulator) // k)))
    worst = min(k * limit**2, int(accumulator))
    room = _known(LARGEST, contract.elements["d"], "operand d") / worst
    exponent = min(-1, math.floor(math.log2(room)))
    return Probe(limit=int(limit), alpha=2.0**exponent)


def _known(table: dict[str, int] | dict[str, float], element: str, role: str) -> float:
    if element not in table:
        raise UserError(
            f"{role} has type {element!r}, which the integer probe doesn't know: {', '.join(table)}"
        )
    return table[element]
