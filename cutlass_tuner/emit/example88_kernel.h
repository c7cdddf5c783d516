// The forward kernels of CUTLASS example 88 (Hopper FMHA) as this program builds them: the example's mainloops,
// epilogue and kernels unchanged, with a layer around the mainloop that brings what the example lacks:
// a softmax scale, a causal diagonal that is not the matrix's own, grouped query heads, -inf as the log-sum-exp
// of a row that sees no key.
#pragma once

#include "cutlass/cutlass.h"

#include "cute/tensor.hpp"
#include "cutlass/arch/arch.h"
// Beside include/, in the package as in a checkout.
#include "../examples/88_hopper_fmha/kernel/fmha_kernel_builder.hpp"
#include "../examples/88_hopper_fmha/kernel/fmha_tile_scheduler.hpp"

#include "emit/example88_fusion.h"

namespace cutlass_tuner::example88 {

using cute::Int;
using cutlass::fmha::kernel::Option;
using cutlass::fmha::kernel::Tag;

// Strides in elements: row, element of a row, (batch, head). With grouped heads query head h is (h % group,
// h / group), and the first of the two does not move K and V.
using Strides = cute::tuple<int, cute::_1, cute::tuple<int, int>>;
using GroupedStridesQ = cute::tuple<int, cute::_1, cute::tuple<int, cute::tuple<int, int>>>;
using GroupedStridesKV = cute::tuple<int, cute::_1, cute::tuple<int, cute::tuple<cute::_0, int>>>;

// One of the example's forward mainloops. The kernels pass sizes as (batch, heads, seqlen_q, seqlen_kv,
// head_dim); the mainloop below is given the same with `heads` split where heads are grouped, and the diagonal.
template <class Base, class Fusion_>
struct Mainloop : Base {
  using Fusion = Fusion_;
  static constexpr bool kGroupsHeads = cute::is_same_v<typename Base::LayoutQ, GroupedStridesQ>;
  using Heads = cute::conditional_t<kGroupsHeads, cute::tuple<int, int>, int>;  // (group, heads_kv), or heads

  struct Arguments : Base::Arguments {
    Heads heads;
    int diagonal;
    float scale;
  };
  struct Params : Base::Params {
    Heads heads;
    int diagonal;
  };

  // The example also wants seqlen_q to be a multiple of 8. Nothing needs it: rows are strided by TMA, which
  // clips them, and the log-sum-exp is stored row by row.
  template <class Size>
  static bool can_implement(Size const& size, Arguments const&) {
    return cute::get<4>(size) <= cute::size<2>(typename Base::TileShape{}) &&
           cute::get<4>(size) % Base::Alignment == 0;
  }

  template <class Size, class Source>
  CUTLASS_HOST_DEVICE static auto extended(Size const& size, Source const& source) {
    return cute::make_tuple(cute::get<0>(size), source.heads, cute::get<2>(size), cute::get<3>(size),
                            cute::get<4>(size), source.diagonal);
  }

  template <class Size>
  static Params to_underlying_arguments(Size const& size, Arguments const& arguments, void* workspace) {
    Params params{Base::to_underlying_arguments(extended(size, arguments), arguments, workspace), arguments.heads,
                  arguments.diagonal};
    params.scale_softmax = arguments.scale;
    params.scale_softmax_log2 = arguments.scale * 1.4426950408889634f;  // log2(e)
    return params;
  }

  template <bool kLoadQ, class Block, class Size, class... Rest>
  CUTLASS_DEVICE void load_kv_maybe_q(
      int rank, Block const& block, Params const& params, Size const& size, Rest&&... rest) {
    Base::template load_kv_maybe_q<kLoadQ>(rank, block, params, extended(size, params), rest...);
  }

  template <class Block, class Size, class... Rest>
  CUTLASS_DEVICE void load_maybe_q(Block const& block, Params const& params, Size const& size, Rest&&... rest) {
    Base::load_maybe_q(block, params, extended(size, params), rest...);
  }

  // `first` is the warp-specialised kernel's block, or the other kernel's rank in the cluster.
  template <class First, class Block, class Size, class... Rest>
  CUTLASS_DEVICE auto compute(
      First const& first, Block const& block, Params const& params, Size const& size, Rest&&... rest) {
    auto result = Base::compute(first, block, params, extended(size, params), rest...);
    auto& lse = cute::get<1>(result);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < cute::size(lse); i++) {
      lse(i) = lse(i) == INFINITY ? -INFINITY : lse(i);  // the example's mark of an empty sum
    }
    return result;
  }
};

template <class Mainloop, class Kernel_>
struct Described : Kernel_ {
  using Element = typename Mainloop::Element;
  using CollectiveMainloop = Mainloop;
  static constexpr bool kCausal = Mainloop::Fusion::kCausal;
};

template <class Element, class Tile, class Fusion, class... Options>
struct Cooperative {
  using Base = cutlass::fmha::collective::FmhaMainloopTmaWarpSpecialized<
      Element, float, float, Tile, GroupedStridesQ, GroupedStridesKV, GroupedStridesKV, Fusion, Options...>;
  using Loop = Mainloop<Base, Fusion>;
  using Epilogue = cutlass::fmha::collective::FmhaFwdEpilogue<Element, float, typename Base::TileShapePV>;
  using Scheduler = cute::conditional_t<
      Base::kIsPersistent, cutlass::fmha::kernel::PersistentTileScheduler,
      cutlass::fmha::kernel::IndividualTileScheduler>;
  using Kernel =
      Described<Loop, cutlass::fmha::kernel::FmhaKernelTmaWarpSpecialized<Loop, Epilogue, Scheduler, Options...>>;
};

// The example's mainloop without a producer warp group has its strides built in: no grouped heads.
template <class Element, class Tile, class Fusion, class... Options>
struct Tma {
  using Base = cutlass::fmha::collective::FmhaMainloopTma<Element, float, Tile, Fusion, Options...>;
  using Loop = Mainloop<Base, Fusion>;
  using Epilogue = cutlass::fmha::collective::FmhaFwdEpilogue<Element, float, typename Base::TileShapePV>;
  struct Kernel : Described<Loop, cutlass::fmha::kernel::FmhaKernelTma<Loop, Epilogue, Options...>> {
    using Whole = cutlass::fmha::kernel::FmhaKernelTma<Loop, Epilogue, Options...>;

    CUTLASS_DEVICE void operator()(typename Whole::Params const& params, char* smem) {
      Whole::operator()(params, smem);
      // A CTA must not leave while another of its cluster still signals barriers in its shared memory.
      if constexpr (cute::size(typename Whole::ClusterShape{}) > 1) {
        cute::cluster_sync();
      }
    }
  };
};

}  // namespace cutlass_tuner::example88
