// The C ABI over `cutlass_tuner::kKernels`; the last include of a host library's generated source.
#pragma once

#include "emit/host_library.h"

namespace cutlass_tuner {
constexpr int32_t kCount = sizeof(kKernels) / sizeof(kKernels[0]);
constexpr bool known(int32_t kernel) { return kernel >= 0 && kernel < kCount; }
}  // namespace cutlass_tuner

int32_t ct_abi_version() { return CT_ABI_VERSION; }
int32_t ct_kernel_count() { return cutlass_tuner::kCount; }

char const* ct_kernel_symbol(int32_t kernel) {
  return cutlass_tuner::known(kernel) ? cutlass_tuner::kKernels[kernel].symbol : "";
}

int32_t ct_describe(int32_t kernel, ct_description* out) {
  if (!cutlass_tuner::known(kernel)) {
    return cutlass_tuner::kUnknown;
  }
  cutlass_tuner::kKernels[kernel].describe(out);
  return cutlass_tuner::kFine;
}

int32_t ct_make_plan(int32_t kernel, ct_call const* call, ct_plan* out) {
  return cutlass_tuner::known(kernel) ? cutlass_tuner::kKernels[kernel].plan(*call, out) : cutlass_tuner::kUnknown;
}

int32_t ct_fill_params(int32_t kernel, ct_call const* call, void* params) {
  return cutlass_tuner::known(kernel) ? cutlass_tuner::kKernels[kernel].fill(*call, params) : cutlass_tuner::kUnknown;
}
