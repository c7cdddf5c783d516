// Computes the first tile and leaves the rest.
#include "product.cuh"

extern "C" __global__ void first_tile(Params const p) {
  if (blockIdx.x != 0) { return; }
  float const sum = product(p, 0, p.k);
  d_at(p, place(p)) = __float2half_rn(p.alpha * sum);
}
