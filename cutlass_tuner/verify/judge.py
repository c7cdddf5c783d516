"""Judges evidence of a kernel's answers. Pure: what was seen goes in, a verdict comes out."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cutlass_tuner.records import Evidence, Verdict


def judge(evidence: Evidence, deterministic: bool) -> Verdict:
    """May a measurement with this evidence rank? Every broken rule is one reason, with its figure.

    `deterministic`: the kernel claims equal bits on every launch, so a repeat must have been
    compared and must match. A check that was not made is never taken for one that passed, except
    the re-check after timing, which screening leaves out (None).
    """
    reasons = (*_answers(evidence), *_repeats(evidence, deterministic))
    return Verdict(passed=not reasons, reasons=reasons)


def _answers(evidence: Evidence) -> Iterator[str]:
    """What one launch got wrong."""
    if evidence.elements <= 0:
        yield f"nothing was checked: {evidence.elements} elements"
    if evidence.unwritten > 0:
        yield f"{_share(evidence.unwritten, evidence)} never written"
    if evidence.nonfinite > 0:
        yield f"{_share(evidence.nonfinite, evidence)} NaN or infinite"
    if evidence.guard_touched > 0:
        yield f"wrote outside D: {evidence.guard_touched:,} guard elements changed"
    # Written as "not <=" so that NaN, which compares false with everything, fails.
    if not 0.0 <= evidence.error_over_bound <= 1.0:
        yield _error(evidence)
    if evidence.exact_mismatches > 0:
        yield f"integer probe: {_share(evidence.exact_mismatches, evidence)} differ from the one exact answer"


def _repeats(evidence: Evidence, deterministic: bool) -> Iterator[str]:
    """What later launches got wrong."""
    if deterministic and evidence.repeat_mismatches is None:
        yield "claims to be deterministic, but no second launch was compared"
    if deterministic and (evidence.repeat_mismatches or 0) > 0:
        yield f"second launch: {_share(evidence.repeat_mismatches or 0, evidence)} differ from the first"
    if (evidence.after_timing_mismatches or 0) > 0:
        yield f"after timing: {_share(evidence.after_timing_mismatches or 0, evidence)} wrong"


def _share(count: int, evidence: Evidence) -> str:
    return f"{count:,} of {evidence.elements:,} elements"


def _error(evidence: Evidence) -> str:
    if math.isnan(evidence.error_over_bound):
        return "error is not a number"
    return (
        f"error is {evidence.error_over_bound:.3g} times the bound (at most 1),"
        f" largest |D - ref| {evidence.max_abs_error:.3g}"
    )
