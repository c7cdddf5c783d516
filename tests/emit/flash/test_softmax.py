"""softmax.h's own arithmetic, on a CPU: the polynomial 2^x, the running maximum and sum."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import numpy.typing as npt
import pytest

from cutlass_tuner.ops.registry import op
from cutlass_tuner.verify.tolerance import tolerance
from emit.flash.on_cpu import compiled

Float32 = npt.NDArray[np.float32]
SCORES = 16
"""Of a thread and a block: two rows of 8, as WGMMA leaves them."""
ROW = np.arange(SCORES) // 2 % 2
LOG2_E = np.float32(math.log2(math.e))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("softmax"), '#include "softmax.h"\n')


def pointer(numbers: Float32) -> ctypes.c_void_p:
    return ctypes.c_void_p(numbers.ctypes.data)


# --- 2^x on the FMA units


def exp2_fma(library: ctypes.CDLL, x: Float32) -> Float32:
    y = np.empty_like(x)
    library.exp2_of(pointer(x), pointer(y), ctypes.c_int64(x.size))
    return y


def test_the_polynomial_errs_by_less_than_rounding_to_fp16(library: ctypes.CDLL) -> None:
    x = np.linspace(-126, 8, 4_000_001, dtype=np.float32)
    error = exp2_fma(library, x) / np.exp2(x.astype(np.float64)) - 1
    assert 1.0e-4 < np.abs(error).max() <= 1.021e-4 < 2.0**-11  # as softmax.h says


def test_the_polynomial_is_exact_at_whole_numbers(library: ctypes.CDLL) -> None:
    """At 0 above all: where the maximum is, P is 1."""
    x = np.arange(-126, 9, dtype=np.float32)
    assert (exp2_fma(library, x) == np.exp2(x)).all()


def test_the_polynomial_rises(library: ctypes.CDLL) -> None:
    """By its error at most it falls, where one cubic meets the next."""
    x = np.linspace(-20, 8, 2_000_001, dtype=np.float32)
    y = exp2_fma(library, x).astype(np.float64)
    assert (y[1:] / np.maximum.accumulate(y)[:-1] - 1).min() > -2.1e-4


def test_far_below_the_maximum_it_is_next_to_nothing(library: ctypes.CDLL) -> None:
    x = np.array([-126.5, -1e4, -1e30, -np.inf], np.float32)
    assert (exp2_fma(library, x) == np.float32(2.0**-126)).all()


@pytest.mark.parametrize("of_eight", [0, 1, 2, 3])
def test_so_many_of_eight_go_to_the_fma_units(library: ctypes.CDLL, of_eight: int) -> None:
    picked = [bool(library.on_fma(i, of_eight)) for i in range(64)]
    assert [sum(picked[start : start + 8]) for start in range(0, 64, 8)] == [of_eight] * 8
    assert not any(picked[i] and picked[i + 1] for i in range(63))  # spread out


# --- the online softmax


class Walked:
    """What came of walking over blocks of scores: per block alpha (1 where O is left alone) and the thread's
    sum of each row, and at the end the factor and the log-sum-exp."""

    def __init__(
        self, library: ctypes.CDLL, scores: Float32, scale: float, kind: str = "exact", masked: bool = False
    ) -> None:
        self.alpha, self.sum = (np.empty((len(scores), 2), np.float32) for _ in range(2))
        self.factor, self.lse = np.empty(2, np.float32), np.empty(2, np.float32)
        given = np.ascontiguousarray(scores, np.float32)
        results = [pointer(out) for out in (self.alpha, self.sum, self.factor, self.lse)]
        blocks, step = ctypes.c_int64(len(given)), ctypes.c_float(scale)
        getattr(library, f"walk_{kind}")(pointer(given), blocks, step, int(masked), *results)


def expected_lse(scores: Float32, scale: float) -> npt.NDArray[np.float64]:
    """Natural, of each row; the four lanes of a quad are alike."""
    exact = scores.astype(np.float64) * scale
    tops = [exact[:, row == ROW].max() for row in (0, 1)]
    sums = [4 * np.exp(exact[:, row == ROW] - tops[row]).sum() for row in (0, 1)]
    return np.array([top + math.log(total) for top, total in zip(tops, sums, strict=True)])


@pytest.mark.parametrize(("kind", "within"), [("exact", 1e-5), ("lazy", 1e-5), ("fma", 1.1e-4)])
def test_the_log_sum_exp_of_many_blocks(library: ctypes.CDLL, kind: str, within: float) -> None:
    rng = np.random.default_rng(0)
    for growth in (0.0, 3.0, -3.0):
        scores = rng.standard_normal((64, SCORES)).astype(np.float32) * 4
        scores += np.arange(64, dtype=np.float32)[:, None] * growth
        walked = Walked(library, scores, 0.125 if growth else 1.0, kind)
        assert walked.lse == pytest.approx(
            expected_lse(scores, 0.125 if growth else 1.0), rel=1e-6, abs=within
        )
        assert walked.factor * 4 * walked.sum[-1] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("kind", ["exact", "lazy"])
def test_rows_that_see_no_key_are_zero_and_minus_infinity(library: ctypes.CDLL, kind: str) -> None:
    """One row sees none at all, the other only in the second block."""
    scores = np.full((3, SCORES), -np.inf, np.float32)
    scores[1, ROW == 1] = 2.0
    walked = Walked(library, scores, 1.0, kind, masked=True)
    assert (walked.factor[0], walked.lse[0]) == (0.0, -np.inf)
    assert walked.lse[1] == pytest.approx(2.0 + math.log(32))
    assert np.isfinite(walked.alpha).all() and np.isfinite(walked.sum).all()


def test_o_is_rescaled_lazily_only_where_the_maximum_grows_by_more_than_2_to_the_8(
    library: ctypes.CDLL,
) -> None:
    step = math.log(2)  # natural: a score of n steps is 2^n
    scores = np.repeat(np.array([0, 7.9, 8.2, 16.1], np.float32)[:, None] * np.float32(step), SCORES, axis=1)
    walked = Walked(library, scores, 1.0, "lazy")
    assert (walked.alpha[[0, 1, 3]] == 1).all()
    assert walked.alpha[2] == pytest.approx(2.0**-8.2, rel=1e-5)
    assert walked.lse == pytest.approx(expected_lse(scores, 1.0), rel=1e-6)


# --- why alpha is 2 to the power of a difference


def awkward_maximum(scale: float) -> np.float32:
    """A score around 64 (scaled) whose product with scale * log2(e) is far from an fp32 number."""
    tried = np.linspace(500, 520, 4001, dtype=np.float32)
    exact = tried.astype(np.float64) * float(np.float32(scale) * LOG2_E)
    return np.float32(tried[np.argmax(exact - exact.astype(np.float32))])


def test_alpha_is_exactly_1_where_the_maximum_stays(library: ctypes.CDLL) -> None:
    scores = np.full((256, SCORES), -np.inf, np.float32)
    scores[0] = awkward_maximum(0.125)
    walked = Walked(library, scores, 0.125)
    assert (walked.alpha == 1).all()
    assert (walked.sum == walked.sum[0]).all()


def test_a_rounded_shift_in_alpha_would_leave_the_tolerance_within_256_blocks(library: ctypes.CDLL) -> None:
    """exp2(fma(max, scale, -round(max * scale))) looks alike, but is 2^(a rounding error) in every block.

    All scores but the first are far below, d = 64, and q and k are positive, so that sum |q||k| is the score.
    """
    top, scale_log2 = awkward_maximum(0.125), np.float32(0.125) * LOG2_E
    largest, keys = float(top) * 0.125, 256 * SCORES // 2 * 4
    held = tolerance(op("fmha").contract)
    sums = largest * math.sqrt(64) + math.sqrt(keys)
    bound = held.probability_roundoff / 2 + held.log_roundoff * largest
    bound += held.accumulator_roundoff * held.spread * sums

    scores = np.full((256, SCORES), -np.inf, np.float32)
    scores[0] = top
    error = Walked(library, scores, 0.125).lse - (largest + math.log(32))
    assert np.abs(error).max() < 0.2 * bound

    repeated = np.float32(np.exp2(float(top) * float(scale_log2) - float(top * scale_log2)))
    total = np.float32(1.0)
    for _ in range(256):
        total *= repeated
    assert abs(math.log(total)) > 1.5 * bound
