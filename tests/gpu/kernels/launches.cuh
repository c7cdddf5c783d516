// A kernel's memory of its own launches.
#pragma once

static __device__ unsigned arrived = 0;

// How many launches came before this one. Launches of one stream do not overlap, so that every CTA of a
// launch, whenever it arrives, finds the arrivals of all launches before and of no later one.
__device__ inline unsigned launches_before() {
  __shared__ unsigned before;
  if (threadIdx.x == 0) { before = atomicAdd(&arrived, 1u) / (gridDim.x * gridDim.y * gridDim.z); }
  __syncthreads();
  return before;
}
