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


def tolerance(contract: Contract) -> Tolerance:
    """The tolerance of a contract. UserError for an element type it has no figures for."""
    output, accumulator = contract.elements["d"], contract.accumulator
    if output not in OUTPUT_ROUNDOFF:
        raise UserError(f"no tolerance for output type {output!r}: known are {', '.join(OUTPUT_ROUNDOFF)}")
    if accumulator not in ACCUMULATOR_ROUNDOFF:
        known = ", ".join(ACCUMULATOR_ROUNDOFF)
        raise UserError(f"no tolerance for accumulator type {accumulator!r}: known are {known}")
    return Tolerance(
        output_roundoff=OUTPUT_ROUNDOFF[output],
        tiny=TINY[output],
        accumulator_roundoff=ACCUMULATOR_ROUNDOFF[accumulator],
        spread=SPREAD,
    )
