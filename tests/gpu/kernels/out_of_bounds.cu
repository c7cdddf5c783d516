// Right, and writes one element beyond D.
#include "product.cuh"

extern "C" __global__ void out_of_bounds(Params const p) {
  float const sum = product(p, 0, p.k);
  d_at(p, place(p)) = __float2half_rn(p.alpha * sum);
  if (blockIdx.x == 0 && threadIdx.x == 0) { d_at(p, {p.m, 0}) = __float2half_rn(1.0f); }
}
