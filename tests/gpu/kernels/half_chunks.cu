// Accumulates in fp16 and promotes to fp32 every 64 of K, as kernels do that are sold as fp32.
#include "product.cuh"

extern "C" __global__ void half_chunks(Params const p) {
  constexpr int kChunk = 64;
  Place const at = place(p);
  float sum = 0.0f;
  for (int begin = 0; begin < p.k; begin += kChunk) {
    __half chunk = __float2half_rn(0.0f);
    for (int i = begin; i < begin + kChunk; ++i) {
      chunk = __hfma(a_at(p, at.row, i), b_at(p, i, at.column), chunk);
    }
    sum += __half2float(chunk);
  }
  d_at(p, at) = __float2half_rn(p.alpha * sum);
}
