// The online softmax of one warp group's 64 rows, in registers.
//
// Scores lie as WGMMA leaves them (PTX ISA, wgmma .m64nNk16 accumulator fragment): register i of a thread is
// row (lane / 4) + 8 * (i / 2 % 2) of its warp's 16 and column 8 * (i / 4) + 2 * (lane % 4) + i % 2. A thread
// thus has two rows, each shared by a quad of lanes. P, as A operand of the next product, has the same order.
#pragma once

#include "cute/tensor.hpp"

#include "emit/flash/traits.h"

namespace cutlass_tuner::flash {

constexpr int kRows = 2;
constexpr int row_of(int i) { return i / 2 % 2; }
constexpr int column_of(int i) { return i / 4 * 8 + i % 2; }
constexpr float kLazyLog2 = 8.0f;  // P stays below 2^8: far from fp16's largest, and exact where it was

__device__ __forceinline__ float exp2_mufu(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 2^x for x <= kLazyLog2 without the special function unit, which does 16 a cycle on an SM and binds kernels
// of small head dimensions. Cody-Waite: x = n + f, |f| <= 1/2, then a cubic with p(0) = 1 (so that 2^0 is 1,
// exactly) whose largest relative error is 1.02e-4: below what rounding P to fp16 adds.
__device__ __forceinline__ float exp2_fma(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
  x = fmaxf(x, -126.0f);
  float const shifted = x + kRound;
  float const f = x - (shifted - kRound);
  float p = fmaf(0.05500857f, f, 0.24221096f);
  p = fmaf(p, f, 0.69328297f);
  p = fmaf(p, f, 1.0f);
  return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}

// Which of 8 neighbouring exponentials go to the FMA units: spread out, so that both units are always busy.
constexpr bool on_fma(int i, int of_eight) { return (i % 8 * of_eight) % 8 + of_eight > 7; }

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

template <bool kLazy, int kExpFma>
struct Softmax {
  float maximum[kRows];  // of the raw scores; -inf where no key was seen
  float sum[kRows];      // this thread's part of the row's sum

  // Turns scores into exponentials in place. `grown` says whether O must be multiplied by alpha[row].
  // kMasked: a row may have seen no key so far, so its maximum may be -inf.
  template <bool kFirst, bool kMasked, class Scores>
  __device__ __forceinline__ bool step(Scores& s, float scale_log2, float (&alpha)[kRows]) {
    constexpr int kCount = decltype(cute::size(s))::value;
    float next[kRows];
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      next[r] = s(2 * r);
    }
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kCount; ++i) {
      next[row_of(i)] = fmaxf(next[row_of(i)], s(i));
    }
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      next[r] = quad_max(next[r]);
      if (!kFirst) {
        next[r] = fmaxf(next[r], maximum[r]);
      }
    }
    bool grown = !kFirst;
    if (kLazy && !kFirst) {
      // NaN, from -inf - -inf, is not greater: such a row has nothing to rescale
      bool const some = (next[0] - maximum[0]) * scale_log2 > kLazyLog2 ||
                        (next[1] - maximum[1]) * scale_log2 > kLazyLog2;
      grown = __any_sync(0xffffffff, some);
    }
    float shift[kRows];
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (kLazy && !kFirst) {
        next[r] = grown ? next[r] : maximum[r];
      }
      float const finite = kMasked && next[r] == -INFINITY ? 0.0f : next[r];
      shift[r] = finite * scale_log2;
      if (!kFirst) {
        // Of the difference, so that it is exactly 1 where the maximum stays: any other rounding would be repeated
        // with every block, and shows in long rows of large scores.
        alpha[r] = kLazy && !grown ? 1.0f : exp2_mufu((maximum[r] - finite) * scale_log2);
      }
      maximum[r] = next[r];
    }
    float part[kRows] = {0.0f, 0.0f};
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kCount; ++i) {
      float const x = fmaf(s(i), scale_log2, -shift[row_of(i)]);
      s(i) = !kMasked && on_fma(i, kExpFma) ? exp2_fma(x) : exp2_mufu(x);
      part[row_of(i)] += s(i);
    }
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sum[r] = kFirst ? part[r] : fmaf(sum[r], alpha[r], part[r]);
    }
    return grown;
  }

  // The factor that makes O an average, and the row's log-sum-exp (natural, of scaled scores).
  __device__ __forceinline__ void finish(float scale, float (&factor)[kRows], float (&lse)[kRows]) {
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float const whole = quad_sum(sum[r]);
      bool const empty = maximum[r] == -INFINITY;
      factor[r] = empty ? 0.0f : 1.0f / whole;
      lse[r] = empty ? -INFINITY : fmaf(maximum[r], scale, __logf(whole));
    }
  }
};

template <class Tensor>
__device__ __forceinline__ void scale_rows(Tensor& o, float const (&factor)[kRows]) {
  CUTLASS_PRAGMA_UNROLL
  for (int i = 0; i < decltype(cute::size(o))::value; ++i) {
    o(i) *= factor[row_of(i)];
  }
}

}  // namespace cutlass_tuner::flash
