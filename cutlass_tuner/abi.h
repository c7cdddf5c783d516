// The C ABI of a host library: one library per batch of kernels, found by index.
// It instantiates no kernel body; it fills Params and answers questions about them.
// Python's side is abi.py; the two must change together (ct_abi_version guards it).
#pragma once
#include <cstdint>

#define CT_ABI_VERSION 1

extern "C" {

// Facts of a kernel that no problem changes.
typedef struct {
  int32_t params_bytes, params_align;
  int32_t threads, smem_bytes, stages;
  int32_t tile[3], cluster[3];
} ct_description;

// One call of a kernel. Extents in elements in the op's order (GEMM: m, n, k, batch), pointers in
// the op's order (GEMM: A, B, D) in the user's roles: swap_ab is the library's business.
// launch (GEMM): max swizzle (1, 2, 4, 8), raster (0 heuristic, 1 along M, 2 along N), splits,
// decomposition (0 heuristic, 1 data parallel, 2 split-K, 3 stream-K),
// reduction (0 deterministic, 1 nondeterministic). Raster is in the kernel's own M and N.
typedef struct {
  int64_t dims[8];
  uint64_t pointers[8];
  float scalars[4];  // GEMM: alpha
  int32_t launch[8];
  int32_t sm_count, max_active_clusters;
  uint64_t workspace;
} ct_call;

// What the filled Params say: read back, not echoed. -1 where the kernel has no such field.
typedef struct {
  int32_t grid[3];
  int32_t swizzle, raster, splits;
  int64_t workspace_bytes;
  int64_t zero_offset, zero_bytes;  // part of the workspace that must be zero before every launch
} ct_plan;

int32_t ct_abi_version(void);
int32_t ct_kernel_count(void);
char const* ct_kernel_symbol(int32_t kernel);
// 0 = fine; 1 = the kernel's can_implement refuses the call; -1 = no such kernel.
int32_t ct_describe(int32_t kernel, ct_description* out);
int32_t ct_make_plan(int32_t kernel, ct_call const* call, ct_plan* out);
// Writes params_bytes bytes at params (aligned to params_align).
int32_t ct_fill_params(int32_t kernel, ct_call const* call, void* params);
}
