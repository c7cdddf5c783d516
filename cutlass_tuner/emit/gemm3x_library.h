// What a host library answers about a CUTLASS 3.x GEMM kernel, templated over the kernel struct.
#pragma once

#include <cstdint>
#include <new>

#include "emit/gemm3x_host.h"
#include "emit/host_library.h"
#include "emit/host_runtime.h"

namespace cutlass_tuner {

template <class Kernel, bool kSwapAB>
typename Kernel::Arguments arguments(ct_call const& call) {
  auto const pointer = [&](int i) { return reinterpret_cast<void*>(static_cast<uintptr_t>(call.pointers[i])); };
  auto const extent = [&](int i) { return static_cast<int>(call.dims[i]); };
  GemmCall const gemm{extent(0), extent(1), extent(2), extent(3), pointer(0), pointer(1), pointer(2), call.scalars[0]};
  GemmLaunch const launch{call.launch[0], call.launch[1], call.launch[2],  call.launch[3],
                          call.launch[4], call.sm_count,  call.max_active_clusters};
  return arguments<Kernel, kSwapAB>(gemm, launch);
}

template <class Kernel>
void describe(ct_description* out) {
  using Tile = typename Kernel::TileShape;
  using Cluster = typename Kernel::ClusterShape;
  *out = {sizeof(typename Kernel::Params),
          alignof(typename Kernel::Params),
          static_cast<int32_t>(Kernel::MaxThreadsPerBlock),
          Kernel::SharedStorageSize,
          Kernel::CollectiveMainloop::DispatchPolicy::Stages,
          {cute::size<0>(Tile{}), cute::size<1>(Tile{}), cute::size<2>(Tile{})},
          {cute::size<0>(Cluster{}), cute::size<1>(Cluster{}), cute::size<2>(Cluster{})}};
}

template <class Kernel, bool kSwapAB>
int32_t plan(ct_call const& call, ct_plan* out) {
  auto const arguments_ = arguments<Kernel, kSwapAB>(call);
  if (!Kernel::can_implement(arguments_)) {
    return kRefused;
  }
  // A plan is made before there is a workspace: any base will do, the answer is relative to it.
  auto* const workspace = reinterpret_cast<char*>(call.workspace ? call.workspace : uint64_t{1} << 20);
  host_runtime = {};
  auto const params = Kernel::to_underlying_arguments(arguments_, workspace);
  Kernel::initialize_workspace(arguments_, workspace, nullptr);
  dim3 const grid = Kernel::get_grid_shape(params);
  GemmDecision const read = decision<Kernel>(params);
  bool const zeroes = host_runtime.zeroed_bytes > 0;
  *out = {{static_cast<int32_t>(grid.x), static_cast<int32_t>(grid.y), static_cast<int32_t>(grid.z)},
          read.swizzle,
          read.raster,
          read.splits,
          static_cast<int64_t>(Kernel::get_workspace_size(arguments_)),
          zeroes ? host_runtime.zeroed - workspace : 0,
          static_cast<int64_t>(host_runtime.zeroed_bytes)};
  return kFine;
}

template <class Kernel, bool kSwapAB>
int32_t fill(ct_call const& call, void* params) {
  auto const arguments_ = arguments<Kernel, kSwapAB>(call);
  if (!Kernel::can_implement(arguments_)) {
    return kRefused;
  }
  host_runtime = {};
  host_runtime.encode = true;
  auto* const workspace = reinterpret_cast<void*>(static_cast<uintptr_t>(call.workspace));
  ::new (params) typename Kernel::Params(Kernel::to_underlying_arguments(arguments_, workspace));
  return host_runtime.encode_failed ? kNoDescriptor : kFine;
}

template <class Kernel, bool kSwapAB>
constexpr LibraryKernel library_kernel(char const* symbol) {
  return {symbol, &describe<Kernel>, &plan<Kernel, kSwapAB>, &fill<Kernel, kSwapAB>};
}

}  // namespace cutlass_tuner
