// From an attention call to the Arguments of a kernel of example77_kernel.h. Header only, C++17.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "emit/example77_kernel.h"

namespace cutlass_tuner::example77 {

// O = softmax(scale Q K^T + mask) V and the log-sum-exp of each row, operands packed. Extents in elements.
struct Call {
  int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim;
  int64_t causal;  // 0 full, 1 aligned bottom-right, 2 aligned top-left
  bool heads_first;  // (batch, heads, seqlen, head_dim); else (batch, seqlen, heads, head_dim)
  void const *q, *k, *v;
  void* o;
  float* lse;  // (batch, heads_q, seqlen_q)
  float scale;
  bool persistent;  // of a persistent scheduler: a CTA an SM, else one a tile
  int sm_count;
};

// CuTe's strides are int here, so the largest operand must be addressable by one.
inline bool addressable(int64_t batch, int64_t heads, int64_t seqlen, int64_t head_dim) {
  int64_t room = std::numeric_limits<int32_t>::max();
  for (int64_t extent : {batch, heads, seqlen, head_dim}) {
    if (extent < 1 || extent > room) {
      return false;
    }
    room /= extent;
  }
  return true;
}

// The example divides a row's O by the sum of its exponentials: of a row that sees no key, 0 / 0.
inline bool every_row_sees_a_key(Call const& call) { return call.causal != 1 || call.seqlen_q <= call.seqlen_kv; }

// This scheduler swaps tiles and heads in groups of `TileH` heads.
template <class Kernel>
bool schedulable(Call const& call) {
  using Grouping = CausalIndividualTileScheduler;
  return !cute::is_same_v<typename Kernel::TileScheduler, Grouping> || call.heads_q % Grouping::TileH == 0;
}

template <class Kernel>
bool can_implement(Call const& call) {
  return addressable(call.batch, call.heads_q, call.seqlen_q, call.head_dim) &&
         addressable(call.batch, call.heads_kv, call.seqlen_kv, call.head_dim) &&
         call.head_dim == cute::size<2>(typename Kernel::TileShape{}) && call.heads_q % call.heads_kv == 0 &&
         (call.causal != 0) == Kernel::kCausal && every_row_sees_a_key(call) && schedulable<Kernel>(call) &&
         std::isfinite(call.scale) && call.scale > 0;
}

struct PackedStrides {
  int row, batch, head;
};

inline PackedStrides packed(Call const& call, int64_t heads, int64_t seqlen) {
  int const dim = static_cast<int>(call.head_dim), all = static_cast<int>(heads * dim);
  int const batch = static_cast<int>(seqlen * all);
  return call.heads_first ? PackedStrides{dim, batch, static_cast<int>(seqlen * dim)} : PackedStrides{all, batch, dim};
}

// Only where can_implement(call): extents and strides are known to fit.
template <class Kernel>
typename Kernel::Arguments arguments(Call const& call) {
  using Element = typename Kernel::Element;
  auto const extent = [](int64_t value) { return static_cast<int>(value); };
  int const group = extent(call.heads_q / call.heads_kv), rows = extent(call.seqlen_q);
  PackedStrides const of_q = packed(call, call.heads_q, call.seqlen_q);
  PackedStrides const of_kv = packed(call, call.heads_kv, call.seqlen_kv);
  StridesQ const strides_q = {of_q.row, cute::_1{}, {{of_q.head, group * of_q.head}, of_q.batch}};
  StridesKV const strides_kv = {of_kv.row, cute::_1{}, {{cute::_0{}, of_kv.head}, of_kv.batch}};

  typename Kernel::Arguments out{};
  out.problem_shape = {rows, extent(call.seqlen_kv), extent(call.head_dim),
                       {{group, extent(call.heads_kv)}, extent(call.batch)},
                       call.causal == 1 ? extent(call.seqlen_kv - call.seqlen_q) : 0};
  out.mainloop.load = {static_cast<Element const*>(call.q), strides_q,
                       static_cast<Element const*>(call.k), strides_kv,
                       static_cast<Element const*>(call.v), strides_kv};
  out.mainloop.scale_softmax = call.scale;
  out.epilogue = {static_cast<Element*>(call.o), strides_q, call.lse,
                  {cute::_1{}, {{rows, group * rows}, extent(call.heads_q) * rows}}};
  out.hw_info.device_id = 0;  // not used once the SM count is given
  out.hw_info.sm_count = call.persistent ? call.sm_count : std::numeric_limits<int>::max();
  return out;
}

}  // namespace cutlass_tuner::example77
