// The forward kernels of CUTLASS example 77 (Blackwell FMHA, tcgen05) as this program builds them: the example's
// mainloop, epilogue, schedulers and kernel unchanged, given a problem size that also holds the diagonal of a
// causal mask, and a split of the registers among the warps that a knob chooses.
#pragma once

#include "cutlass/cutlass.h"

#include "cute/tensor.hpp"
#include "cutlass/kernel_hardware_info.h"
// Beside include/, in the package as in a checkout. The example's own includes are relative to its folder, which
// the compilers are given; its epilogue needs what its mainloop includes.
#include "../examples/77_blackwell_fmha/collective/sm100_fmha_fwd_mainloop_tma_warpspecialized.hpp"
#include "../examples/77_blackwell_fmha/collective/sm100_fmha_fwd_epilogue_tma_warpspecialized.hpp"
#include "../examples/77_blackwell_fmha/kernel/sm100_fmha_fwd_kernel_tma_warpspecialized.hpp"

#include "emit/example77_mask.h"

namespace cutlass_tuner::example77 {

using cute::Int;
using cutlass::fmha::kernel::CausalIndividualTileScheduler;
using cutlass::fmha::kernel::CausalPersistentTileScheduler;
using cutlass::fmha::kernel::IndividualTileScheduler;
using cutlass::fmha::kernel::PersistentTileScheduler;

// Query head h is (h % group, h / group), and the first of the two does not move K and V.
using Heads = cute::tuple<int, int>;
// (seqlen_q, seqlen_kv, head_dim, ((group, heads_kv), batch), diagonal)
using Size = cute::tuple<int, int, int, cute::tuple<Heads, int>, int>;
// Strides in elements: row, element of a row, (head, batch); of the log-sum-exp row, (head, batch).
using StridesQ = cute::tuple<int, cute::_1, cute::tuple<cute::tuple<int, int>, int>>;
using StridesKV = cute::tuple<int, cute::_1, cute::tuple<cute::tuple<cute::_0, int>, int>>;
using StridesLse = cute::tuple<cute::_1, cute::tuple<cute::tuple<int, int>, int>>;

// Registers a thread: of the two softmax warp groups, of the correction warp group, and what is left for the
// fourth, whose warps load, issue MMAs and store. All four together have the SM's 65536.
template <int kSoftmax, int kCorrection>
struct Schedule : cutlass::fmha::kernel::Sm100FmhaCtxKernelWarpspecializedSchedule {
  static const int NumRegsSoftmax = kSoftmax;
  static const int NumRegsCorrection = kCorrection;
  static const int NumRegsOther = 65536 / 128 - 2 * kSoftmax - kCorrection;
};

template <class Base>
struct Mainloop : Base {
  // The example assigns the size to one of its own, which has no diagonal.
  template <class Size, class Arguments>
  static auto to_underlying_arguments(Size const& size, Arguments const& arguments, void* workspace) {
    return Base::to_underlying_arguments(cute::take<0, 4>(size), arguments, workspace);
  }

  // For sequences without keys, of which there are none here; the example's has a printf in it.
  template <class... Arguments>
  CUTLASS_DEVICE void correction_empty(Arguments&&...) {}
};

template <class Element_, class Tile, class Mask_, class Scheduler, int kSoftmax, int kCorrection>
struct Forward {
  using Loop = Mainloop<cutlass::fmha::collective::Sm100FmhaFwdMainloopTmaWarpspecialized<
      Element_, float, float, Tile, StridesQ, StridesKV, StridesKV, Mask_>>;
  using Epilogue = cutlass::fmha::collective::Sm100FmhaFwdEpilogueTmaWarpspecialized<
      Element_, float, typename Loop::TileShapePV, StridesQ, StridesLse>;
  struct Kernel : cutlass::fmha::kernel::Sm100FmhaFwdKernelTmaWarpspecialized<
                      Size, Loop, Epilogue, Scheduler, Schedule<kSoftmax, kCorrection>> {
    using Element = Element_;
    using CollectiveMainloop = Loop;
    using TileScheduler = Scheduler;
    static constexpr bool kCausal = Mask_::kCausal;
  };
};

}  // namespace cutlass_tuner::example77
