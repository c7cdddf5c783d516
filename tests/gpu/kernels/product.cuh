// What an honest kernel is made of; each kernel of this folder changes one thing about it.
#pragma once

#include <cuda_fp16.h>

#include "params.h"

// The element of D that this thread is for.
struct Place {
  int row, column;
};

__device__ inline Place place(Params const& p) {
  int const tiles_across = p.n / kTile, x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  int const tile = blockIdx.x;
  return {tile / tiles_across * kTile + y, tile % tiles_across * kTile + x};
}

__device__ inline __half a_at(Params const& p, int row, int i) {
  return static_cast<__half const*>(p.a)[size_t(row) * p.k + i];
}

__device__ inline __half b_at(Params const& p, int i, int column) {
  return static_cast<__half const*>(p.b)[size_t(column) * p.k + i];
}

__device__ inline __half& d_at(Params const& p, Place at) {
  return static_cast<__half*>(p.d)[size_t(at.row) * p.n + at.column];
}

// Sum over i in [begin, end) of A[row][i] B[i][column] in fp32, tile by tile through shared memory. Without
// barriers a warp reads what its neighbours have not stored yet, or have already overwritten.
template <bool kBarriers = true>
__device__ float product(Params const& p, int begin, int end) {
  __shared__ __half a[kTile][kTile], b[kTile][kTile + 2];
  int const x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  Place const at = place(p);
  int const first_column = at.column - x;
  float sum = 0.0f;
  for (int i = begin; i < end; i += kTile) {
    a[y][x] = a_at(p, at.row, i + x);
    b[y][x] = b_at(p, i + x, first_column + y);
    if (kBarriers) { __syncthreads(); }
    for (int j = 0; j < kTile; ++j) { sum += __half2float(a[y][j]) * __half2float(b[x][j]); }
    if (kBarriers) { __syncthreads(); }
  }
  return sum;
}
