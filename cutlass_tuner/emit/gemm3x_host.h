// From a GEMM call to the Arguments and Params of a CUTLASS 3.x kernel, and back. Header only, C++17.
// The tuner's host library and the exported kernels include this same file, so both launch alike.
// `Kernel` is a struct derived from cutlass::gemm::kernel::GemmUniversal with a void C operand.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cutlass/cutlass.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

namespace cutlass_tuner {

// D (m x n) = alpha * A (m x k) B (k x n), batch times; operands packed, D row-major; the user's roles.
struct GemmCall {
  int m, n, k, batch;
  void const* a;
  void const* b;
  void* d;
  float alpha;
};

// Run-time knobs. The codes are those of ct_call's `launch`; raster is in the kernel's own M and N.
// max_active_clusters 0 lets CUTLASS estimate how many clusters the device holds at once.
struct GemmLaunch {
  int max_swizzle;
  int raster;         // 0 heuristic, 1 along M, 2 along N
  int splits;         // stream-K scheduler only, as the two below
  int decomposition;  // 0 heuristic, 1 data parallel, 2 split-K, 3 stream-K
  int reduction;      // 0 deterministic, 1 nondeterministic
  int sm_count, max_active_clusters;
};

// What the scheduler decided, read from Params; -1 where the kernel's scheduler has no such field.
struct GemmDecision {
  int swizzle = -1, raster = -1, splits = -1;
};

template <class Kernel>
inline constexpr bool is_stream_k =
    std::is_same_v<typename Kernel::TileSchedulerTag, cutlass::gemm::StreamKScheduler>;

template <class Kernel, class = void>
inline constexpr bool has_scheduler = false;
template <class Kernel>
inline constexpr bool has_scheduler<Kernel, std::void_t<decltype(std::declval<typename Kernel::Params>().scheduler)>> =
    true;

template <class Kernel>
typename Kernel::TileSchedulerArguments scheduler_arguments(GemmLaunch const& launch) {
  typename Kernel::TileSchedulerArguments arguments{};
  if constexpr (has_scheduler<Kernel>) {
    using Raster = cutlass::gemm::kernel::detail::RasterOrderOptions;
    constexpr Raster rasters[] = {Raster::Heuristic, Raster::AlongM, Raster::AlongN};
    arguments.max_swizzle_size = launch.max_swizzle;
    arguments.raster_order = rasters[launch.raster];
  }
  if constexpr (is_stream_k<Kernel>) {
    using Mode = cutlass::gemm::kernel::detail::DecompositionMode;
    using Reduction = cutlass::gemm::kernel::detail::ReductionMode;
    constexpr Mode modes[] = {Mode::Heuristic, Mode::DataParallel, Mode::SplitK, Mode::StreamK};
    arguments.splits = launch.splits;
    arguments.decomposition_mode = modes[launch.decomposition];
    arguments.reduction_mode = launch.reduction ? Reduction::Nondeterministic : Reduction::Deterministic;
  }
  return arguments;
}

// kSwapAB: the kernel computes the transpose, D^T (n x m) = B^T A^T, on the same memory.
template <class Kernel, bool kSwapAB>
typename Kernel::Arguments arguments(GemmCall const& call, GemmLaunch const& launch) {
  int const m = kSwapAB ? call.n : call.m;
  int const n = kSwapAB ? call.m : call.n;
  auto const stride = [&](auto packed, int rows) {
    return cutlass::make_cute_packed_stride(packed, cute::make_shape(rows, call.k, call.batch));
  };
  typename Kernel::StrideD const stride_d =
      cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, cute::make_shape(m, n, call.batch));

  typename Kernel::Arguments out{};
  out.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  out.problem_shape = cute::make_shape(m, n, call.k, call.batch);
  out.mainloop.ptr_A = static_cast<typename Kernel::ElementA const*>(kSwapAB ? call.b : call.a);
  out.mainloop.ptr_B = static_cast<typename Kernel::ElementB const*>(kSwapAB ? call.a : call.b);
  out.mainloop.dA = stride(typename Kernel::StrideA{}, m);
  out.mainloop.dB = stride(typename Kernel::StrideB{}, n);
  out.epilogue.thread.alpha = call.alpha;
  out.epilogue.thread.beta = 0.0f;
  out.epilogue.dC = stride_d;
  out.epilogue.ptr_D = static_cast<typename Kernel::ElementD*>(call.d);
  out.epilogue.dD = stride_d;
  out.hw_info.device_id = 0;  // not used by these kernels once the SM count is given
  out.hw_info.sm_count = launch.sm_count;
  out.hw_info.max_active_clusters = launch.max_active_clusters;
  out.scheduler = scheduler_arguments<Kernel>(launch);
  return out;
}

template <class Kernel>
GemmDecision decision(typename Kernel::Params const& params) {
  GemmDecision out;
  if constexpr (has_scheduler<Kernel>) {
    using Raster = cutlass::gemm::kernel::detail::RasterOrder;
    out.swizzle = 1 << params.scheduler.log_swizzle_size_;
    out.raster = params.scheduler.raster_order_ == Raster::AlongM ? 1 : 2;
  }
  if constexpr (is_stream_k<Kernel>) {
    out.splits = static_cast<int>(params.scheduler.divmod_splits_.divisor);
  }
  return out;
}

}  // namespace cutlass_tuner
