// What every kernel of this folder is launched with. Host and device include this same file.
#pragma once

constexpr int kTile = 16;  // a CTA of kTile x kTile threads computes a tile of as many elements of D

// D (m x n, row-major) = alpha * A (m x k, row-major) B (k x n, column-major), fp16. No batches.
struct Params {
  void const* a;
  void const* b;
  void* d;
  void* workspace;
  int m, n, k, splits;
  float alpha;
};
