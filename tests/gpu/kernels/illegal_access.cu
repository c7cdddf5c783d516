// Stores through an address that nobody gave it.
#include "product.cuh"

extern "C" __global__ void illegal_access(Params const p) {
  *reinterpret_cast<float volatile*>(size_t(p.m)) = p.alpha;
}
