// Executes the trap instruction, as a failed device assertion does.
#include "product.cuh"

extern "C" __global__ void trapping(Params const p) {
  if (p.alpha != 0.0f) { __trap(); }
}
