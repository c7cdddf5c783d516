// softmax.h's own text for one thread, as C functions. The lanes of its quad hold the same scores.
#pragma once

#include "cute.h"

#include "emit/flash/softmax.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void exp2_of(float const* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = cutlass_tuner::flash::exp2_fma(x[i]);
  }
}

namespace cutlass_tuner::flash {

constexpr int kScores = 16;  // of a thread: two rows of 8

// Blocks of kScores scores each, one after the other. `alphas`: a pair for each block. Ends with factor and lse.
template <bool kLazy, int kExpFma>
void walk(
    float const* scores, int64_t blocks, float scale, bool masked, float* alphas, float* sums, float* factor,
    float* lse) {
  float const scale_log2 = scale * 1.4426950408889634f;
  Softmax<kLazy, kExpFma> softmax;
  float alpha[kRows] = {1.0f, 1.0f};
  for (int64_t block = 0; block < blocks; ++block) {
    cute::Tensor<cute::Registers<float, kScores>> s;
    std::copy_n(scores + block * kScores, kScores, s.held);
    bool grown = false;
    if (block == 0) {
      softmax.template step<true, true>(s, scale_log2, alpha);
    } else {
      grown = masked ? softmax.template step<false, true>(s, scale_log2, alpha)
                     : softmax.template step<false, false>(s, scale_log2, alpha);
    }
    for (int r = 0; r < kRows; ++r) {
      alphas[block * kRows + r] = grown ? alpha[r] : 1.0f;
      sums[block * kRows + r] = softmax.sum[r];
    }
  }
  softmax.finish(scale, *reinterpret_cast<float(*)[kRows]>(factor), *reinterpret_cast<float(*)[kRows]>(lse));
}

}  // namespace cutlass_tuner::flash

#define WALK(name, lazy, exp_fma)                                                                               \
  EXPORT void name(                                                                                             \
      float const* scores, int64_t blocks, float scale, int masked, float* alphas, float* sums, float* factor,  \
      float* lse) {                                                                                             \
    cutlass_tuner::flash::walk<lazy, exp_fma>(scores, blocks, scale, masked != 0, alphas, sums, factor, lse); \
  }
WALK(walk_exact, false, 0)
WALK(walk_lazy, true, 0)
WALK(walk_fma, false, 3)

EXPORT int on_fma(int i, int of_eight) { return cutlass_tuner::flash::on_fma(i, of_eight); }
