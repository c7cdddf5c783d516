// The plain functions of traits.h, and tensors.h's way over the tiles, as C functions.
#pragma once

#include "cute.h"

#include "emit/flash/tensors.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// Tile by tile as each CTA computes them, a CTA after another: cta, round, row, head. How many there were.
EXPORT int64_t deal(int q_tiles, int heads, int section, int heavy, int ctas, int32_t* out) {
  cutlass_tuner::flash::Walk const walk = {q_tiles, heads, section, heavy};
  ::gridDim.x = ctas;
  int64_t count = 0;
  for (::blockIdx.x = 0; ::blockIdx.x < ::gridDim.x; ++::blockIdx.x) {
    cutlass_tuner::flash::Tile tile(walk);
    do {
      int32_t const line[] = {static_cast<int32_t>(::blockIdx.x), tile.round, tile.row, tile.head};
      std::copy_n(line, 4, out + 4 * count++);
    } while (tile.advance(walk));
  }
  return count;
}

namespace cutlass_tuner::flash {

struct Facts {
  int32_t groups, blocks_per_sm, threads, registers, producer, consumer;
  int32_t q_bytes, kv_bytes, k_offset, v_offset, barrier_offset, barrier_bytes, smem_bytes;
};
template <class K>
constexpr Facts facts() {
  return {K::kGroups, K::kBlocksPerSM, K::kThreads, K::kRegisters, K::kProducerRegisters, K::kConsumerRegisters,
          K::kQBytes, K::kKVBytes, K::kKOffset, K::kVOffset, K::kBarrierOffset,
          static_cast<int32_t>(sizeof(Barriers<K>)), K::kSmemBytes};
}

// Blocks of every row of tiles, and of the rows below every end from 1 to seqlen_q.
template <class K>
void blocks(int seqlen_q, int seqlen_kv, int diagonal, int32_t* of_tiles, int32_t* below) {
  Params params = {};
  params.seqlen_q = seqlen_q;
  params.seqlen_kv = seqlen_kv;
  params.diagonal = diagonal;
  for (int row = 0; row * K::kTileQ < seqlen_q; ++row) {
    of_tiles[row] = tile_blocks<K>(params, row);
  }
  for (int end = 1; end <= seqlen_q; ++end) {
    below[end - 1] = key_blocks<K>(params, end);
  }
}

}  // namespace cutlass_tuner::flash
