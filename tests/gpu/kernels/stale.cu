// Right the first time; later launches write nothing and live on what the first one left.
#include "launches.cuh"
#include "product.cuh"

extern "C" __global__ void stale(Params const p) {
  if (launches_before() > 0) { return; }
  float const sum = product(p, 0, p.k);
  d_at(p, place(p)) = __float2half_rn(p.alpha * sum);
}
