// Right for alpha 1 only.
#include "product.cuh"

extern "C" __global__ void ignores_alpha(Params const p) {
  d_at(p, place(p)) = __float2half_rn(product(p, 0, p.k));
}
