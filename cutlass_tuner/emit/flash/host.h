// From an attention call to the Params of a flash kernel. Plain C++17 with the driver's headers, nothing of
// CUTLASS: the tuner's host library and the exported kernels include this same file, so both launch alike.
#pragma once

#include <cmath>
#include <cstdint>

#include "emit/flash/traits.h"

namespace cutlass_tuner::flash {

enum class Layout : int32_t { kBSHD, kBHSD };
enum class Causal : int32_t { kFull, kBottomRight, kTopLeft };

// Q and O (batch, seqlen_q, heads_q), K and V (batch, seqlen_kv, heads_kv) of rows of head_dim elements,
// packed, the middle two extents in the order of `layout`. lse (batch, heads_q, seqlen_q).
struct Call {
  int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim;
  Causal causal;
  Layout layout;
  void const *q, *k, *v;
  void* o;
  float* lse;
  float scale;
};

// Run-time knobs: a CTA a tile, or persistent ones on all SMs; tiles with most keys first; heads walked together.
struct Launch {
  bool persistent, heavy_first;
  int32_t section, sm_count;
};

template <class K>
bool can_implement(Call const& call, Launch const& launch) {
  constexpr int64_t kMost = int64_t{1} << 30;
  bool const sane = call.batch > 0 && call.heads_kv > 0 && call.seqlen_q > 0 && call.seqlen_kv > 0 &&
                    call.heads_q % call.heads_kv == 0 && launch.section > 0;
  return sane && call.head_dim == K::kHeadDim && (call.causal != Causal::kFull) == K::kCausal &&
         call.seqlen_q + call.seqlen_kv < kMost &&
         (call.seqlen_q / K::kTileQ + 1) * call.batch * call.heads_q < kMost;
}

template <class K>
Walk walk(Call const& call, Launch const& launch) {
  auto const q_tiles = static_cast<int32_t>((call.seqlen_q + K::kTileQ - 1) / K::kTileQ);
  auto const heads = static_cast<int32_t>(call.batch * call.heads_q);
  return {q_tiles, heads, launch.section < heads ? launch.section : heads, launch.heavy_first ? 1 : 0};
}

template <class K>
int32_t grid(Call const& call, Launch const& launch) {
  int32_t const tiles = walk<K>(call, launch).tiles();
  int32_t const most = launch.sm_count * K::kBlocksPerSM;
  return launch.persistent && most < tiles ? most : tiles;
}

// A descriptor of one operand: boxes of `rows` rows and `chunks` chunks of a head. `encode` is
// cuTensorMapEncodeTiled or stands in for it. False where the driver refuses.
template <class K, class Encode>
bool describe_operand(
    Encode encode, CUtensorMap* map, void const* base, Call const& call, int64_t heads, int64_t seqlen, int rows,
    int chunks) {
  bool const bshd = call.layout == Layout::kBSHD;
  cuuint64_t const row = K::kHeadDim * kElementBytes;
  cuuint64_t const extents[] = {
      static_cast<cuuint64_t>(K::kChunk), static_cast<cuuint64_t>(seqlen), static_cast<cuuint64_t>(K::kChunks),
      static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(call.batch)};
  cuuint64_t const strides[] = {
      bshd ? row * heads : row, K::kChunk * kElementBytes, bshd ? row : row * seqlen, row * heads * seqlen};
  cuuint32_t const box[] = {
      static_cast<cuuint32_t>(K::kChunk), static_cast<cuuint32_t>(rows), static_cast<cuuint32_t>(chunks), 1, 1};
  cuuint32_t const steps[] = {1, 1, 1, 1, 1};
  CUtensorMapDataType const type = K::kElement == Element::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUtensorMapSwizzle const swizzle =
      K::kChunk * kElementBytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
  return encode(
             map, type, 5, const_cast<void*>(base), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// Params of a call that can be implemented. False where the driver refuses a descriptor.
template <class K, class Encode>
bool fill(Encode encode, Call const& call, Launch const& launch, Params* params) {
  constexpr float kLog2E = 1.4426950408889634f;
  *params = {};
  params->lse = call.lse;
  params->walk = walk<K>(call, launch);
  params->heads_q = static_cast<int32_t>(call.heads_q);
  params->heads_per_kv = static_cast<int32_t>(call.heads_q / call.heads_kv);
  params->seqlen_q = static_cast<int32_t>(call.seqlen_q);
  params->seqlen_kv = static_cast<int32_t>(call.seqlen_kv);
  params->diagonal = call.causal == Causal::kBottomRight ? params->seqlen_kv - params->seqlen_q : 0;
  params->scale = call.scale;
  params->scale_log2 = call.scale * kLog2E;
  return describe_operand<K>(encode, &params->q, call.q, call, call.heads_q, call.seqlen_q, K::kTileQ, K::kChunks) &&
         describe_operand<K>(encode, &params->k, call.k, call, call.heads_kv, call.seqlen_kv, K::kTileKV, K::kChunks) &&
         describe_operand<K>(encode, &params->v, call.v, call, call.heads_kv, call.seqlen_kv, K::kTileKV, K::kChunks) &&
         describe_operand<K>(encode, &params->o, call.o, call, call.heads_q, call.seqlen_q, kGroupRows, 1);
}

}  // namespace cutlass_tuner::flash
