"""Kernels that cheat are caught, each by the checks it was made to escape, and honest ones pass.

Real .cu files through the route of real kernels: cubin, host library, launch, graph replay, evidence.
"""

from __future__ import annotations

import pytest

from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Evidence, Problem
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.wire import ContestResult, Refused

from .conftest import ROUNDS, SAMPLE_US, Answers
from .handmade import Handmade

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

UNWRITTEN, OUTSIDE, ERROR = "never written", "wrote outside D", "error is"
PROBE, REPEAT, AFTER = "integer probe", "second launch", "after timing"

CHEATS = {
    "silent": {UNWRITTEN, ERROR, PROBE, AFTER},
    "first_tile": {UNWRITTEN, ERROR, PROBE, AFTER},
    "stale": {REPEAT, PROBE, AFTER},
    "tired": {AFTER},
    "memoised": {PROBE, AFTER},
    "unordered": {REPEAT},
    "half_throughout": {ERROR, PROBE, AFTER},
    "half_chunks": {ERROR, PROBE, AFTER},
    "out_of_bounds": {OUTSIDE},
    "ignores_alpha": {PROBE},
}
"""Each cheat and exactly the checks that catch it."""


def reasons(evidence: Evidence, *, deterministic: bool) -> list[str]:
    verdict = judge(evidence, deterministic)
    print(f"{verdict.reasons or 'right'}, error {evidence.error_over_bound:.3g} of the bound", flush=True)
    assert verdict.passed == (not verdict.reasons)
    return list(verdict.reasons)


def test_the_honest_twin_passes_every_check(answers: Answers, handmade: Handmade) -> None:
    evidence = answers(handmade.entry("honest"))
    assert reasons(evidence, deterministic=True) == []
    assert evidence.elements == 256 * 256
    assert evidence.repeat_mismatches == evidence.after_timing_mismatches == 0


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_caught_by_the_checks_meant_for_it(
    answers: Answers, handmade: Handmade, name: str
) -> None:
    found = reasons(answers(handmade.entry(name)), deterministic=True)
    for reason in found:
        assert sum(text in reason for text in CHEATS[name]) == 1, f"not expected of {name}: {reason}"
    missed = {text for text in CHEATS[name] if not any(text in reason for reason in found)}
    assert not missed, f"{name} escaped: {missed}"


def test_a_race_is_caught(answers: Answers, handmade: Handmade) -> None:
    """By whichever check: a race owes nobody the same damage twice."""
    found = reasons(answers(handmade.entry("racing")), deterministic=True)
    assert any(text in reason for text in (ERROR, PROBE, REPEAT, AFTER) for reason in found)


def test_nondeterminism_is_no_fault_in_a_kernel_that_admits_it(answers: Answers, handmade: Handmade) -> None:
    evidence = answers(handmade.entry("unordered", deterministic=False))
    assert evidence.repeat_mismatches is None
    assert reasons(evidence, deterministic=False) == []


def test_a_problem_that_the_kernel_refuses_is_refused(
    bench: Bench, handmade: Handmade, square: Problem
) -> None:
    odd = square.model_copy(update={"dims": {**square.dims, "m": 200}})
    result = bench.contest(odd, [bench.reference(odd), handmade.entry("honest")], ROUNDS, sample_us=SAMPLE_US)
    assert isinstance(result, ContestResult)
    refused = result.entries[1]
    assert isinstance(refused, Refused)
    assert refused.failure.stage == "plan"
