"""Recorded evidence: each cheating kernel is caught for what it does, its honest twin passes.

The kernels are small numpy ones; `gather` sees their outputs as the measuring child sees real ones:
poisoned D with guard bands, N(0, 1) inputs and the integer probe, a second launch, a re-check.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from cutlass_tuner.probe import probe
from cutlass_tuner.records import Contract, Evidence
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.verify.tolerance import tolerance

HGEMM = Contract(elements={"a": "f16", "b": "f16", "d": "f16"}, accumulator="f32")
M, N, K, TILE, GUARD = 64, 48, 512, 16, 32

Half = NDArray[np.float16]
Kernel = Callable[[Half, Half, Half, float, int], None]
"""kernel(A, B, memory, alpha, launch): memory is D with GUARD elements before and after, flat."""

POISON = np.uint16(0x7E5A)
"""A NaN no arithmetic makes, as the child's."""


def write(memory: Half, values: NDArray[np.float64], rows: slice = slice(None)) -> None:
    with np.errstate(over="ignore"):
        memory[GUARD:-GUARD].reshape(M, N)[rows] = values[rows].astype(np.float16)


def product(a: Half, b: Half, alpha: float) -> NDArray[np.float64]:
    total = np.zeros((M, N), np.float32)
    for k in range(0, K, 16):
        total += a[:, k : k + 16].astype(np.float32) @ b[k : k + 16].astype(np.float32)
    return total.astype(np.float64) * alpha


def honest(a: Half, b: Half, memory: Half, alpha: float, _launch: int) -> None:
    write(memory, product(a, b, alpha))


def honest_other_order(a: Half, b: Half, memory: Half, alpha: float, launch: int) -> None:
    """Nondeterministic reduction: another order of K every launch."""
    order = np.random.default_rng(launch).permutation(K)
    write(memory, product(a[:, order], b[order], alpha))


def writes_nothing(_a: Half, _b: Half, _memory: Half, _alpha: float, _launch: int) -> None:
    pass


def writes_one_tile(a: Half, b: Half, memory: Half, alpha: float, _launch: int) -> None:
    write(memory, product(a, b, alpha), slice(0, TILE))


def stale() -> Kernel:
    """Computes once, and afterwards hands out that answer whatever it is asked."""
    kept: list[NDArray[np.float64]] = []

    def kernel(a: Half, b: Half, memory: Half, alpha: float, _launch: int) -> None:
        kept.append(product(a, b, alpha))
        write(memory, kept[0])

    return kernel


def racing(a: Half, b: Half, memory: Half, alpha: float, launch: int) -> None:
    """Now and then a tile reads its operands before the last K block arrived."""
    values = product(a, b, alpha)
    if launch > 0:
        values[:TILE, :TILE] -= a[:TILE, -16:].astype(np.float64) @ b[-16:, :TILE].astype(np.float64) * alpha
    write(memory, values)


def fp16_accumulator(a: Half, b: Half, memory: Half, alpha: float, _launch: int) -> None:
    total = np.zeros((M, N), np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, K, 16):
            total = (total + a[:, k : k + 16].astype(np.float64) @ b[k : k + 16].astype(np.float64)).astype(
                np.float16
            )
        write(memory, total.astype(np.float64) * alpha)


def overruns(a: Half, b: Half, memory: Half, alpha: float, _launch: int) -> None:
    """The last row is stored eight elements too wide."""
    write(memory, product(a, b, alpha))
    memory[-GUARD : -GUARD + 8] = 0


def infinite(a: Half, b: Half, memory: Half, alpha: float, _launch: int) -> None:
    values = product(a, b, alpha)
    values[3, 5] = math.inf
    write(memory, values)


def gather(kernel: Kernel, repeat: bool = True) -> Evidence:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    launches = iter(range(100))

    def launch(a: Half, b: Half, alpha: float) -> tuple[Half, Half]:
        memory = np.full(2 * GUARD + M * N, POISON, np.uint16).view(np.float16)
        kernel(a, b, memory, alpha, next(launches))
        return memory[GUARD:-GUARD].reshape(M, N), np.concatenate([memory[:GUARD], memory[-GUARD:]])

    d, guard = launch(a, b, 1.0)
    errors, over = error_over_bound(d, a, b)
    again, _ = launch(a, b, 1.0)
    chosen = probe(HGEMM, K)
    pa = rng.integers(-chosen.limit, chosen.limit + 1, (M, K)).astype(np.float16)
    pb = rng.integers(-chosen.limit, chosen.limit + 1, (K, N)).astype(np.float16)
    exact = (pa.astype(np.float64) @ pb.astype(np.float64) * chosen.alpha).astype(np.float16)
    answer, _ = launch(pa, pb, chosen.alpha)
    after, _ = launch(a, b, 1.0)
    unwritten = d.view(np.uint16) == POISON
    return Evidence(
        elements=d.size,
        unwritten=int(unwritten.sum()),
        nonfinite=int((~np.isfinite(d) & ~unwritten).sum()),
        guard_touched=int((guard.view(np.uint16) != POISON).sum()),
        error_over_bound=float(over.max()),
        max_abs_error=float(errors.max()),
        exact_mismatches=int((answer.view(np.uint16) != exact.view(np.uint16)).sum()),
        repeat_mismatches=int((again.view(np.uint16) != d.view(np.uint16)).sum()) if repeat else None,
        after_timing_mismatches=int((~(error_over_bound(after, a, b)[1] <= 1)).sum()),
    )


def error_over_bound(d: Half, a: Half, b: Half) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    t = tolerance(HGEMM)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    reference = wide_a @ wide_b
    magnitude = np.abs(wide_a) @ np.abs(wide_b)
    bound = t.output_roundoff * np.abs(reference) + t.tiny
    bound += t.spread * math.sqrt(K) * t.accumulator_roundoff * magnitude
    with np.errstate(invalid="ignore"):
        errors = np.abs(d.astype(np.float64) - reference)
    return errors, errors / bound


CHEATS: list[tuple[str, Callable[[], Kernel], str]] = [
    ("writes nothing", lambda: writes_nothing, "3,072 of 3,072 elements never written"),
    ("one tile", lambda: writes_one_tile, "2,304 of 3,072 elements never written"),
    ("stale", stale, "integer probe: "),
    ("racing", lambda: racing, "second launch: 2"),
    ("fp16 accumulator", lambda: fp16_accumulator, "times the bound (at most 1)"),
    ("overruns", lambda: overruns, "wrote outside D: 8 guard elements changed"),
    ("infinite", lambda: infinite, "1 of 3,072 elements NaN or infinite"),
]


@pytest.mark.parametrize(("make", "reason"), [c[1:] for c in CHEATS], ids=[c[0] for c in CHEATS])
def test_a_cheat_is_caught_for_what_it_does(make: Callable[[], Kernel], reason: str) -> None:
    verdict = judge(gather(make()), deterministic=True)
    assert not verdict.passed
    assert any(reason in given for given in verdict.reasons), verdict.reasons


def test_the_honest_twin_passes() -> None:
    verdict = judge(gather(honest), deterministic=True)
    assert verdict.passed, verdict.reasons
    assert verdict.reasons == ()


def test_a_nondeterministic_reduction_passes_unless_it_claims_otherwise() -> None:
    evidence = gather(honest_other_order)
    assert (evidence.repeat_mismatches or 0) > 0
    assert judge(evidence, deterministic=False).passed
    assert not judge(evidence, deterministic=True).passed


def test_fp16_accumulation_is_caught_twice() -> None:
    """By the bound and by the probe, each without the other's help."""
    evidence = gather(fp16_accumulator)
    assert evidence.error_over_bound > 1
    assert evidence.exact_mismatches > evidence.elements / 20


def test_a_race_that_only_shows_after_timing_is_caught() -> None:
    evidence = gather(racing).model_copy(update={"repeat_mismatches": 0, "exact_mismatches": 0})
    reasons = judge(evidence, deterministic=True).reasons
    assert len(reasons) == 1
    assert reasons[0].startswith("after timing: ")


# --- each rule by itself

GOOD = Evidence(
    elements=1000,
    unwritten=0,
    nonfinite=0,
    guard_touched=0,
    error_over_bound=1.0,
    max_abs_error=0.001,
    exact_mismatches=0,
    repeat_mismatches=0,
    after_timing_mismatches=0,
)


def test_exactly_at_the_bound_passes() -> None:
    assert judge(GOOD, deterministic=True).passed


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("elements", 0, "nothing was checked: 0 elements"),
        ("unwritten", 1, "1 of 1,000 elements never written"),
        ("nonfinite", 1, "1 of 1,000 elements NaN or infinite"),
        ("guard_touched", 1, "wrote outside D: 1 guard elements changed"),
        ("error_over_bound", 1.01, "error is 1.01 times the bound (at most 1), largest |D - ref| 0.001"),
        ("error_over_bound", math.nan, "error is not a number"),
        ("error_over_bound", math.inf, "error is inf times the bound (at most 1), largest |D - ref| 0.001"),
        ("error_over_bound", -0.1, "error is -0.1 times the bound (at most 1), largest |D - ref| 0.001"),
        ("exact_mismatches", 1, "integer probe: 1 of 1,000 elements differ from the one exact answer"),
        ("repeat_mismatches", 1, "second launch: 1 of 1,000 elements differ from the first"),
        ("repeat_mismatches", None, "claims to be deterministic, but no second launch was compared"),
        ("after_timing_mismatches", 1, "after timing: 1 of 1,000 elements wrong"),
    ],
)
def test_one_fault_gives_one_reason_with_its_figure(field: str, value: object, reason: str) -> None:
    verdict = judge(GOOD.model_copy(update={field: value}), deterministic=True)
    assert not verdict.passed
    assert verdict.reasons == (reason,)


def test_what_does_not_apply_does_not_count() -> None:
    relaxed = GOOD.model_copy(update={"repeat_mismatches": 5, "after_timing_mismatches": None})
    assert judge(relaxed, deterministic=False).passed


def test_every_fault_is_named() -> None:
    evidence = GOOD.model_copy(update={"unwritten": 2, "guard_touched": 3, "after_timing_mismatches": 4})
    assert len(judge(evidence, deterministic=True).reasons) == 3
