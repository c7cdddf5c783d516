// Forgets the barriers around its shared memory.
#include "product.cuh"

extern "C" __global__ void racing(Params const p) {
  float const sum = product<false>(p, 0, p.k);
  d_at(p, place(p)) = __float2half_rn(p.alpha * sum);
}
