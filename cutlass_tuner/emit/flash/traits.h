// What a flash kernel is and what it is given: plain C++, for the device and for the host library alike.
#pragma once

#include <cstdint>

#include <cuda.h>

#ifdef __CUDACC__
#define CT_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define CT_HOST_DEVICE inline
#endif

namespace cutlass_tuner::flash {

enum class Element { kF16, kBF16 };

constexpr int kGroupThreads = 128;
constexpr int kGroupRows = 64;
constexpr int kElementBytes = 2;

// A kernel's compile-time choices, and what follows from them. A CTA computes kTileQ query rows, 64 by each
// of its kGroups MMA warp groups, and walks over the keys kTileKV at a time, kStages blocks of them in flight.
// kQStages 2: a persistent CTA's next Q is there early, and its first scores are computed under the last
// product of the tile before, while O is stored.
// kBlocksPerSM CTAs shall share an SM.
// kOverlap: softmax of one block under the next QK product, inside a warp group. kPingpong: warp groups issue
// their products in turns. kLazyRescale: O is rescaled only where a row's maximum grows by more than 2^8.
// kExpFma: of every 8 exponentials, how many are polynomials on the FMA units.
template <
    Element kElement_, int kHeadDim_, bool kCausal_, int kGroups_, int kTileKV_, int kStages_, int kQStages_,
    int kBlocksPerSM_, bool kOverlap_, bool kPingpong_, bool kLazyRescale_, int kExpFma_>
struct Knobs {
  static constexpr Element kElement = kElement_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr bool kCausal = kCausal_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kTileKV = kTileKV_;
  static constexpr int kStages = kStages_;
  static constexpr int kQStages = kQStages_;
  static constexpr int kBlocksPerSM = kBlocksPerSM_;
  static constexpr bool kOverlap = kOverlap_;
  static constexpr bool kPingpong = kPingpong_;
  static constexpr bool kLazyRescale = kLazyRescale_;
  static constexpr int kExpFma = kExpFma_;

  static constexpr int kTileQ = kGroupRows * kGroups;
  static constexpr int kThreads = kGroupThreads * (kGroups + 1);
  // setmaxnreg: of the registers a CTA gets (as many a thread for all, in steps of 8), the producers keep 24
  // and the others share the rest.
  static constexpr int kRegisters = 65536 / (kBlocksPerSM * kThreads) / 8 * 8 * kThreads;
  static constexpr int kProducerRegisters = 24;
  static constexpr int kShare = (kRegisters / kGroupThreads - kProducerRegisters) / kGroups / 8 * 8;
  static constexpr int kConsumerRegisters = kShare < 240 ? kShare : 240;

  // TMA and WGMMA swizzle rows of at most 128 bytes: wider tiles are stored a chunk of columns after another.
  static constexpr int kChunk = kHeadDim < 64 ? kHeadDim : 64;
  static constexpr int kChunks = kHeadDim / kChunk;

  // Shared memory: stages of Q (where O leaves through), of K and of V, a full and an empty barrier of each.
  static constexpr int kQBytes = kElementBytes * kHeadDim * kTileQ;
  static constexpr int kKVBytes = kElementBytes * kHeadDim * kTileKV;
  static constexpr int kKOffset = kQStages * kQBytes;
  static constexpr int kVOffset = kKOffset + kStages * kKVBytes;
  static constexpr int kBarrierOffset = kVOffset + kStages * kKVBytes;
  static constexpr int kSmemBytes = kBarrierOffset + 8 * (4 * kStages + 2 * kQStages);
};

// In which order the tiles of all heads are walked. Heads go in sections, whose K and V should fit the L2;
// inside one, all heads of a row of tiles come before the next row, so that with causal masks and `heavy`
// the tiles with most keys come first: on whatever SM is free, or dealt to persistent CTAs back and forth.
struct Walk {
  int32_t q_tiles, heads, section, heavy;

  CT_HOST_DEVICE int32_t tiles() const { return q_tiles * heads; }

  // The tile that CTA `cta` of `ctas` computes in its `round`-th turn; none where it is not below tiles().
  CT_HOST_DEVICE int32_t dealt(int32_t round, int32_t cta, int32_t ctas) const {
    return round * ctas + (heavy && round % 2 == 1 ? ctas - 1 - cta : cta);
  }

  CT_HOST_DEVICE void at(int32_t tile, int32_t& row, int32_t& head) const {
    int32_t const first = tile / (section * q_tiles) * section;
    int32_t const inside = tile - first * q_tiles;
    int32_t const width = heads - first < section ? heads - first : section;
    int32_t const step = inside / width;
    head = first + inside - step * width;
    row = heavy ? q_tiles - 1 - step : step;
  }
};

// TMA descriptors see (column in chunk, row, chunk, head, batch).
struct Params {
  CUtensorMap q, k, v, o;
  float* lse;  // [batch, heads_q, seqlen_q]
  Walk walk;
  int32_t heads_q, heads_per_kv, seqlen_q, seqlen_kv;
  int32_t diagonal;  // causal: row i sees key j where j <= i + diagonal
  float scale, scale_log2;
};

// How many blocks of keys are walked for rows below `end`, the last of which may be seen in part. At least
// one: rows that see no key at all are masked as a whole there, and need no code of their own.
template <class K>
CT_HOST_DEVICE int32_t key_blocks(Params const& params, int32_t end) {
  int32_t const seen = K::kCausal ? end + params.diagonal : params.seqlen_kv;
  int32_t const keys = seen < params.seqlen_kv ? seen : params.seqlen_kv;
  return keys > K::kTileKV ? (keys + K::kTileKV - 1) / K::kTileKV : 1;
}

// The same for a row of tiles.
template <class K>
CT_HOST_DEVICE int32_t tile_blocks(Params const& params, int32_t row) {
  int32_t const end = (row + 1) * K::kTileQ;
  return key_blocks<K>(params, end < params.seqlen_q ? end : params.seqlen_q);
}

}  // namespace cutlass_tuner::flash
