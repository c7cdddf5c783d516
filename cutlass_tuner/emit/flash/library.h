// Flash kernels behind the C ABI of a host library (abi.h).
#pragma once

#include <new>

#include "emit/flash/host.h"
#include "emit/host_library.h"
#include "emit/host_runtime.h"

namespace cutlass_tuner::flash {

// The op's dims and launch codes, see abi.h.
inline Call call_of(ct_call const& call) {
  int64_t const* d = call.dims;
  auto const pointer = [&](int i) { return reinterpret_cast<void*>(static_cast<uintptr_t>(call.pointers[i])); };
  return {d[0], d[1], d[2], d[3], d[4], d[5], static_cast<Causal>(d[6]), static_cast<Layout>(d[7]),
          pointer(0), pointer(1), pointer(2), pointer(3), static_cast<float*>(pointer(4)), call.scalars[0]};
}

inline Launch launch_of(ct_call const& call) {
  return {call.launch[0] == 1, call.launch[1] == 1, call.launch[2], call.sm_count};
}

template <class K>
void describe_kernel(ct_description* out) {
  *out = {sizeof(Params), alignof(Params), K::kThreads, K::kSmemBytes, K::kStages,
          {K::kTileQ, K::kTileKV, K::kHeadDim}, {1, 1, 1}};
}

template <class K>
int32_t plan_call(ct_call const& call, ct_plan* out) {
  if (!can_implement<K>(call_of(call), launch_of(call))) {
    return kRefused;
  }
  *out = {{grid<K>(call_of(call), launch_of(call)), 1, 1}, call.launch[2], -1, -1, 0, 0, 0};
  return kFine;
}

template <class K>
int32_t fill_params(ct_call const& call, void* params) {
  if (!can_implement<K>(call_of(call), launch_of(call))) {
    return kRefused;
  }
  host_runtime = {};
  host_runtime.encode = true;
  bool const made = fill<K>(&encode_tiled, call_of(call), launch_of(call), ::new (params) Params);
  return made ? kFine : kNoDescriptor;
}

template <class K>
constexpr LibraryKernel library_kernel(char const* symbol) {
  return {symbol, &describe_kernel<K>, &plan_call<K>, &fill_params<K>};
}

}  // namespace cutlass_tuner::flash
