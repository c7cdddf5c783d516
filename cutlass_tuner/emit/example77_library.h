// What a host library answers about a kernel of CUTLASS example 77, templated over the kernel struct.
#pragma once

#include <cstdint>
#include <new>

#include "emit/example77_host.h"
#include "emit/host_library.h"
#include "emit/host_runtime.h"

namespace cutlass_tuner::example77 {

inline Call unpacked(ct_call const& call) {
  auto const pointer = [&](int i) { return reinterpret_cast<void*>(static_cast<uintptr_t>(call.pointers[i])); };
  int64_t const* dims = call.dims;
  return {dims[0],    dims[1],    dims[2],    dims[3],    dims[4], dims[5], dims[6],
          dims[7] == 1, pointer(0), pointer(1), pointer(2), pointer(3), static_cast<float*>(pointer(4)),
          call.scalars[0], call.launch[0] == 1, call.sm_count};
}

template <class Kernel>
void describe(ct_description* out) {
  using Tile = typename Kernel::TileShape;
  using Cluster = typename Kernel::ClusterShape;
  *out = {sizeof(typename Kernel::Params),
          alignof(typename Kernel::Params),
          Kernel::MaxThreadsPerBlock,
          Kernel::SharedStorageSize,
          Kernel::CollectiveMainloop::StageCountKV,
          {cute::size<0>(Tile{}), cute::size<1>(Tile{}), cute::size<2>(Tile{})},
          {cute::size<0>(Cluster{}), cute::size<1>(Cluster{}), cute::size<2>(Cluster{})}};
}

// Writes Params where the kernel takes the call and its grid is one that CUDA takes.
template <class Kernel>
int32_t prepare(ct_call const& call, bool encode, void* params, dim3* grid) {
  Call const unpacked_ = unpacked(call);
  if (!can_implement<Kernel>(unpacked_)) {
    return kRefused;
  }
  host_runtime = {};
  host_runtime.encode = encode;
  auto* const made = ::new (params)
      typename Kernel::Params(Kernel::to_underlying_arguments(arguments<Kernel>(unpacked_), nullptr));
  *grid = Kernel::get_grid_shape(*made);
  constexpr unsigned kMostYZ = 65535;
  return grid->y > kMostYZ || grid->z > kMostYZ ? kRefused : host_runtime.encode_failed ? kNoDescriptor : kFine;
}

template <class Kernel>
int32_t plan(ct_call const& call, ct_plan* out) {
  alignas(typename Kernel::Params) char params[sizeof(typename Kernel::Params)];
  dim3 grid;
  int32_t const status = prepare<Kernel>(call, false, params, &grid);
  if (status == kFine) {
    *out = {{static_cast<int32_t>(grid.x), static_cast<int32_t>(grid.y), static_cast<int32_t>(grid.z)},
            -1, -1, -1, 0, 0, 0};
  }
  return status;
}

template <class Kernel>
int32_t fill(ct_call const& call, void* params) {
  dim3 grid;
  return prepare<Kernel>(call, true, params, &grid);
}

template <class Kernel>
constexpr LibraryKernel library_kernel(char const* symbol) {
  return {symbol, &describe<Kernel>, &plan<Kernel>, &fill<Kernel>};
}

}  // namespace cutlass_tuner::example77
