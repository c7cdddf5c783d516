// The producer: one thread that feeds Q, K and V of every tile to shared memory.
#pragma once

#include "emit/flash/tensors.h"

namespace cutlass_tuner::flash {

template <class K>
struct Producer {
  Params const& params;
  char* smem;
  Barriers<K>& barriers;
  Position<K::kQStages> q{};
  Position<K::kStages> k{}, v{};

  __device__ void load_tile(Tile const& tile) {
    int const blocks = tile_blocks<K>(params, tile.row);
    int const batch = tile.head / params.heads_q;
    int const head = tile.head - batch * params.heads_q;
    int const head_kv = head / params.heads_per_kv;

    // A single stage of Q is in use until the tile before is stored: K need not wait for that.
    if (K::kQStages == 1) {
      load_k(blocks - 1, head_kv, batch);
    }
    load(params.q, ready(barriers.q_empty, barriers.q_full, q, K::kQBytes), smem + q.stage * K::kQBytes,
         tile.row * K::kTileQ, head, batch);
    q.advance();
    if (K::kQStages > 1) {
      load_k(blocks - 1, head_kv, batch);
    }
    // Scores are computed a block ahead of their use, so K is needed before the V of the block before it.
    for (int block = blocks - 1; block > 0; --block) {
      load_k(block - 1, head_kv, batch);
      load_v(block, head_kv, batch);
    }
    load_v(0, head_kv, batch);
  }

 private:
  __device__ void load_k(int block, int head, int batch) {
    load(params.k, ready(barriers.k_empty, barriers.k_full, k, K::kKVBytes),
         smem + K::kKOffset + k.stage * K::kKVBytes, block * K::kTileKV, head, batch);
    k.advance();
  }

  __device__ void load_v(int block, int head, int batch) {
    load(params.v, ready(barriers.v_empty, barriers.v_full, v, K::kKVBytes),
         smem + K::kVOffset + v.stage * K::kKVBytes, block * K::kTileKV, head, batch);
    v.advance();
  }

  // Waits until a stage is free, and gives the barrier that `bytes` will arrive at.
  template <int kStages>
  static __device__ uint64_t& ready(
      uint64_t (&empty)[kStages], uint64_t (&full)[kStages], Position<kStages> const& at, int bytes) {
    Barrier::wait(&empty[at.stage], at.phase ^ 1);
    Barrier::arrive_and_expect_tx(&full[at.stage], bytes);
    return full[at.stage];
  }

  static __device__ void load(CUtensorMap const& map, uint64_t& full, char* to, int row, int head, int batch) {
    constexpr auto kKeep = static_cast<uint64_t>(TMA::CacheHintSm90::EVICT_NORMAL);
    SM90_TMA_LOAD_5D::copy(&map, &full, kKeep, to, 0, row, 0, head, batch);
  }
};

}  // namespace cutlass_tuner::flash
