// Attention forward on Hopper: O = softmax(scale Q K^T + mask) V and each row's log-sum-exp.
//
// A producer warp group feeds shared memory by TMA; each of kGroups MMA warp groups owns 64 query rows and
// keeps their scores and output in registers. What FlashAttention-3 (Shah et al., 2024) showed to matter is a
// knob: the softmax of one block under the next block's QK product, warp groups that take turns; beside
// FlashAttention-4's lazy rescaling and exponentials on the FMA units.
#pragma once

#include "emit/flash/consumer.h"
#include "emit/flash/producer.h"

namespace cutlass_tuner::flash {

template <class K>
__device__ __forceinline__ void attention(Params const& params, char* smem) {
  auto& barriers = *reinterpret_cast<Barriers<K>*>(smem + K::kBarrierOffset);
  int const group = cutlass::canonical_warp_group_idx();
  if (threadIdx.x == 0) {
    for (CUtensorMap const* map : {&params.q, &params.k, &params.v, &params.o}) {
      prefetch_tma_descriptor(reinterpret_cast<TmaDescriptor const*>(map));
    }
    barriers.init();
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();

  if (group == 0) {
    cutlass::arch::warpgroup_reg_dealloc<K::kProducerRegisters>();
    if (threadIdx.x == 0) {
      Producer<K> producer{params, smem, barriers};
      Tile tile(params.walk);
      do {
        producer.load_tile(tile);
      } while (tile.advance(params.walk));
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<K::kConsumerRegisters>();
    Consumer<K>(params, smem, barriers).compute();
  }
}

}  // namespace cutlass_tuner::flash
