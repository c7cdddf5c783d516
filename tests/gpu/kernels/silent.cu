// Writes nothing: the fastest kernel there is.
#include "product.cuh"

extern "C" __global__ void silent(Params const p) {}
