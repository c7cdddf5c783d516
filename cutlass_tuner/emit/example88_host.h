// From an attention call to the Arguments of a kernel of example88_kernel.h. Header only, C++17.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "emit/example88_kernel.h"

namespace cutlass_tuner::example88 {

// O = softmax(scale Q K^T + mask) V and the log-sum-exp of each row, operands packed. Extents in elements.
struct Call {
  int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim;
  int64_t causal;  // 0 full, 1 aligned bottom-right, 2 aligned top-left
  bool heads_first;  // (batch, heads, seqlen, head_dim); else (batch, seqlen, heads, head_dim)
  void const *q, *k, *v;
  void* o;
  float* lse;  // (batch, heads_q, seqlen_q)
  float scale;
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

template <class Kernel>
bool can_implement(Call const& call) {
  bool const grouped = call.heads_q != call.heads_kv;
  return addressable(call.batch, call.heads_q, call.seqlen_q, call.head_dim) &&
         addressable(call.batch, call.heads_kv, call.seqlen_kv, call.head_dim) &&
         (call.causal != 0) == Kernel::kCausal && call.heads_q % call.heads_kv == 0 &&
         (!grouped || Kernel::CollectiveMainloop::kGroupsHeads) && std::isfinite(call.scale) && call.scale > 0;
}

struct PackedStrides {
  int row, batch, head;
};

inline PackedStrides packed(Call const& call, int64_t heads, int64_t seqlen) {
  int const dim = static_cast<int>(call.head_dim), all = static_cast<int>(heads * dim);
  int const batch = static_cast<int>(seqlen * all);
  return call.heads_first ? PackedStrides{dim, batch, static_cast<int>(seqlen * dim)} : PackedStrides{all, batch, dim};
}

inline Strides plain(PackedStrides const& of) { return {of.row, cute::_1{}, {of.batch, of.head}}; }

// Only where can_implement(call): extents and strides are known to fit.
template <class Kernel>
typename Kernel::Arguments arguments(Call const& call) {
  using Element = typename Kernel::Element;
  auto const extent = [](int64_t value) { return static_cast<int>(value); };
  int const group = extent(call.heads_q / call.heads_kv);
  PackedStrides const of_q = packed(call, call.heads_q, call.seqlen_q);
  PackedStrides const of_kv = packed(call, call.heads_kv, call.seqlen_kv);

  typename Kernel::Arguments out{};
  out.problem_size = cute::make_tuple(extent(call.batch), extent(call.heads_q), extent(call.seqlen_q),
                                      extent(call.seqlen_kv), extent(call.head_dim));
  if constexpr (Kernel::CollectiveMainloop::kGroupsHeads) {
    out.mainloop.heads = cute::make_tuple(group, extent(call.heads_kv));
    out.mainloop.dQ = {of_q.row, cute::_1{}, {of_q.batch, {of_q.head, group * of_q.head}}};
    out.mainloop.dK = {of_kv.row, cute::_1{}, {of_kv.batch, {cute::_0{}, of_kv.head}}};
  } else {
    out.mainloop.heads = extent(call.heads_q);
    out.mainloop.dQ = plain(of_q);
    out.mainloop.dK = plain(of_kv);
  }
  out.mainloop.dV = out.mainloop.dK;
  out.mainloop.ptr_Q = static_cast<Element const*>(call.q);
  out.mainloop.ptr_K = static_cast<Element const*>(call.k);
  out.mainloop.ptr_V = static_cast<Element const*>(call.v);
  out.mainloop.diagonal = call.causal == 1 ? extent(call.seqlen_kv - call.seqlen_q) : 0;
  out.mainloop.scale = call.scale;
  out.epilogue.ptr_O = static_cast<Element*>(call.o);
  out.epilogue.dO = plain(of_q);
  out.epilogue.ptr_LSE = call.lse;
  out.epilogue.dLSE = {cute::_1{}, {extent(call.heads_q * call.seqlen_q), extent(call.seqlen_q)}};
  out.hw_info.device_id = 0;  // not used once the SM count is given
  out.hw_info.sm_count = call.sm_count;
  return out;
}

}  // namespace cutlass_tuner::example88
