// The few CUDA runtime functions that CUTLASS's host code calls, so that a host library depends on no
// CUDA library at all. Hidden, hence never mixed up with a real libcudart in the same process.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstring>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cutlass_tuner {

// What the calls below saw, for whoever made CUTLASS do them on this thread.
struct HostRuntime {
  bool encode = false;  // false: planning, no TMA descriptor is needed and no driver is asked
  bool encode_failed = false;
  char* zeroed = nullptr;
  std::size_t zeroed_bytes = 0;
};
inline thread_local HostRuntime host_runtime;

using EncodeTiled = CUresult (*)(
    CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*, cuuint64_t const*,
    cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

inline EncodeTiled driver_encode() {
  static EncodeTiled const found = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<EncodeTiled>(driver ? dlsym(driver, "cuTensorMapEncodeTiled") : nullptr);
  }();
  return found;
}

// cuTensorMapEncodeTiled where there is a driver; a zeroed descriptor while planning, or without one.
inline CUresult encode_tiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, cuuint64_t const* shape,
    cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const* element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
  EncodeTiled const encode = host_runtime.encode ? driver_encode() : nullptr;
  if (encode == nullptr) {
    std::memset(map, 0, sizeof(*map));
    return CUDA_SUCCESS;
  }
  CUresult const status =
      encode(map, type, rank, address, shape, strides, box, element_strides, interleave, swizzle, promotion, fill);
  host_runtime.encode_failed |= status != CUDA_SUCCESS;
  return status;
}

inline cudaError_t entry_point(char const* name, void** function, cudaDriverEntryPointQueryResult* result) {
  bool const known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
  if (result) {
    *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return known ? cudaSuccess : cudaErrorSymbolNotFound;
}

}  // namespace cutlass_tuner

#define CT_HIDDEN extern "C" __attribute__((visibility("hidden")))

#if CUDART_VERSION >= 13000
CT_HIDDEN cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(
    char const* name, void** function, unsigned, unsigned long long, cudaDriverEntryPointQueryResult* result) {
  return cutlass_tuner::entry_point(name, function, result);
}
#else
CT_HIDDEN cudaError_t CUDARTAPI cudaGetDriverEntryPoint(
    char const* name, void** function, unsigned long long, cudaDriverEntryPointQueryResult* result) {
  return cutlass_tuner::entry_point(name, function, result);
}
#endif

// CUTLASS zeroes a workspace through this: recorded, not done.
CT_HIDDEN cudaError_t CUDARTAPI cudaMemsetAsync(void* address, int, std::size_t bytes, cudaStream_t) {
  cutlass_tuner::host_runtime.zeroed = static_cast<char*>(address);
  cutlass_tuner::host_runtime.zeroed_bytes = bytes;
  return cudaSuccess;
}

// Asked only for a call without an SM count, or after a failed call: neither happens here.
CT_HIDDEN cudaError_t CUDARTAPI cudaGetDevice(int*) { return cudaErrorNoDevice; }
CT_HIDDEN cudaError_t CUDARTAPI cudaDeviceGetAttribute(int*, cudaDeviceAttr, int) { return cudaErrorNoDevice; }
CT_HIDDEN cudaError_t CUDARTAPI cudaGetLastError() { return cudaSuccess; }
CT_HIDDEN char const* CUDARTAPI cudaGetErrorString(cudaError_t) { return "no CUDA runtime in a host library"; }
