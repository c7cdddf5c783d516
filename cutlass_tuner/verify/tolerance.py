"""The error an honest kernel may have, derived from the op's contract.

    |D - ref| <= output_roundoff * |ref| + tiny + spread * sqrt(K) * accumulator_roundoff * sum|a||b|

Last term: the probabilistic bound on a dot product of N. J. Higham and T. Mary, "A New Approach to
Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41(5), 2019: lambda * sqrt(K) * u *
sum|a||b| to first order, for independent roundings of mean zero. The worst-case factor K would let
through at K = 4096 a kernel that accumulates in fp16. First two terms: rounding to D's type.

u: Hopper's tensor cores add with truncation, not rounding to nearest (Fasi, Higham, Mikaitis,
Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Comput. Sci. 7, 2021, for earlier
cores): u is a whole unit in the last place, 2^-23 for f32. Truncation has no mean of zero, so the
theorem gives the form of the term only; its factor is taken from simulation.

lambda (`SPREAD`): the accumulator error alone of honest kernels on N(0, 1) inputs, as a multiple
of sqrt(K) * 2^-23 * sum|a||b|, the largest of 2*10^6 elements at K = 16, 6*10^4 at 1024 and
4*10^3 at 16384 (simulated, not measured on a GPU; tests/verify repeats it on fewer elements):
    round to nearest after each product (CUDA cores)   0.58 at K = 16, 0.06 at 1024, 0.01 at 16384
    truncation after each 8 or 16 products (tensor)    0.38 at K = 16, 0.18 at 1024, 0.15 at 16384
0.75 is above all of them. Accumulation in fp16 promoted to fp32 every 64 of K leaves the whole
bound by factors of 40 at K = 512, 4 at 4096, 1.2 at 16384; beyond, only the integer probe
(`cutlass_tuner.probe`) catches it, as it does at any K.

Attention, where p_j = exp(s_j - lse) of the scaled scores s_j = scale * q.k_j, n keys, d the head dim:

    |O - ref| <= output_roundoff * |ref| + tiny
               + probability_spread * probability_roundoff * sqrt(sum_j p_j^2 v_j^2)
               + probability_spread * probability_tiny / sum_j exp(s_j - max s) * sqrt(sum_j v_j^2)
               + sum_j p_j |v_j| * accumulator_roundoff * spread * (2 * S * sqrt(d) + sqrt(n))
    |LSE - ref| <= probability_roundoff / 2 + log_roundoff * |ref|
               + accumulator_roundoff * spread * (S * sqrt(d) + sqrt(n))
    S = max_j scale * sum_d |q| |k_j|

Second line: flash kernels round P to the element type before the second product (T. Dao et al.,
"FlashAttention", NeurIPS 2022; the tensor core takes nothing wider): n independent errors of at most
u p_j |v_j|. By Hoeffding's inequality their sum passes lambda * u * sqrt(sum p^2 v^2) with probability
2 exp(-lambda^2 / 2) at most, and in fact far less: the relative rounding error of numbers spread evenly
over a binade has a standard deviation of sqrt(3 / (24 ln 2)) = 0.42 u, so lambda = 5 is 12 standard
deviations. 6 would still not be passed by the largest of 10^8 elements, so half of it is room for an
exp2 by a polynomial (FlashAttention-4's of degree 3 errs by 2^-13.5). P in bf16 under an fp16 contract
has eight times the error: 3.4 u, of which the largest of some thousand elements is 11 u.
The maximum that P is relative to may be stale by 2^8 (FlashAttention-4 rescales O only when it grows by
more): relative errors do not change, and absolute ones of subnormal P (third line) shrink.
Fourth line: an error e of every score changes sum p v by 2 e sum p|v| at most, once in P and once in
its sum; e is a dot product's error as above with S for the sum of |a||b|, which also covers rounding
scale * log2(e) and the difference to the maximum. sqrt(n): the second product and the sum of P.
LSE: its sum is of unrounded P, whose exp2 may err by half of what P's rounding does afterwards; the
logarithm and its multiplication by ln 2 by a few units in the last place (`LOG_ROUNDOFF`).
"""

from __future__ import annotations

from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, Tolerance

OUTPUT_ROUNDOFF = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24}
"""Half a unit in the last place, relative: round to nearest. bf16 has 8 significant bits and
f16 11, the hidden one included: 2^-p."""

TINY = {"f16": 2.0**-25, "bf16": 2.0**-134, "f32": 2.0**-150}
"""Half the smallest subnormal: rounding to nearest below the normal range, absolute."""

ACCUMULATOR_ROUNDOFF = {"f16": 2.0**-10, "f32": 2.0**-23}
"""One unit in the last place, relative: truncation."""

SPREAD = 0.75

PROBABILITY_SPREAD = 5.0
"""lambda of P's rounding: twelve standard deviations."""

LOG_ROUNDOFF = 2.0**-22
"""Relative, of the log-sum-exp: lg2.approx (PTX ISA, relative outside (1/2, 2))."""


def tolerance(contract: Contract) -> Tolerance:
    """The tolerance of a contract. UserError for an element type it has no figures for.

    A contract with a "v" has a softmax, which is rounded to v's type; its output is "o" instead of "d".
    """
    elements, accumulator = contract.elements, contract.accumulator
    output = elements["o" if "v" in elements else "d"]
    if output not in OUTPUT_ROUNDOFF:
        raise UserError(f"no tolerance for output type {output!r}: known are {', '.join(OUTPUT_ROUNDOFF)}")
    if accumulator not in ACCUMULATOR_ROUNDOFF:
        known = ", ".join(ACCUMULATOR_ROUNDOFF)
        raise UserError(f"no tolerance for accumulator type {accumulator!r}: known are {known}")
    held = Tolerance(
        output_roundoff=OUTPUT_ROUNDOFF[output],
        tiny=TINY[output],
        accumulator_roundoff=ACCUMULATOR_ROUNDOFF[accumulator],
        spread=SPREAD,
    )
    return held.model_copy(update=_softmax(elements["v"])) if "v" in elements else held


def _softmax(element: str) -> dict[str, float]:
    """What a softmax held in this type between two products adds to a tolerance."""
    if element not in OUTPUT_ROUNDOFF:
        raise UserError(f"no tolerance for a softmax in {element!r}: known are {', '.join(OUTPUT_ROUNDOFF)}")
    return {
        "probability_roundoff": OUTPUT_ROUNDOFF[element],
        "probability_tiny": TINY[element],
        "probability_spread": PROBABILITY_SPREAD,
        "log_roundoff": LOG_ROUNDOFF,
    }
