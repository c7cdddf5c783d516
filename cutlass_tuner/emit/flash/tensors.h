// Types of a flash kernel's operands: shared memory layouts, tensor core operations, barriers.
#pragma once

#include "cute/tensor.hpp"
#include "cute/arch/copy_sm90_tma.hpp"
#include "cutlass/arch/barrier.h"
#include "cutlass/cutlass.h"
#include "cutlass/arch/reg_reconfig.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass/numeric_types.h"

#include "emit/flash/traits.h"

namespace cutlass_tuner::flash {

using namespace cute;

template <Element>
struct Arithmetic;
template <>
struct Arithmetic<Element::kF16> {
  using type = cutlass::half_t;
};
template <>
struct Arithmetic<Element::kBF16> {
  using type = cutlass::bfloat16_t;
};

template <class K>
struct Tensors {
  using Type = typename Arithmetic<K::kElement>::type;
  using TileQ = Int<K::kTileQ>;
  using TileKV = Int<K::kTileKV>;
  using Dim = Int<K::kHeadDim>;
  using Stages = Int<K::kStages>;
  static constexpr bool kWide = K::kChunk == 64;  // rows of 128 bytes, else of 64

  // As TMA writes them: 8 x chunk swizzle atoms, all rows of a chunk, then the next chunk.
  using AtomK = std::conditional_t<kWide, GMMA::Layout_K_SW128_Atom<Type>, GMMA::Layout_K_SW64_Atom<Type>>;
  using AtomMN = std::conditional_t<kWide, GMMA::Layout_MN_SW128_Atom<Type>, GMMA::Layout_MN_SW64_Atom<Type>>;
  using LayoutQ = decltype(tile_to_shape(AtomK{}, Shape<TileQ, Dim, Int<K::kQStages>>{}));
  using LayoutK = decltype(tile_to_shape(AtomK{}, Shape<TileKV, Dim, Stages>{}));
  // The same bytes as a stage of K, read with the keys as the product's inner extent.
  using LayoutV = decltype(tile_to_shape(AtomMN{}, Shape<Dim, TileKV, Stages>{}, Step<_2, _1, _3>{}));

  using Groups = cute::Layout<Shape<Int<K::kGroups>, _1, _1>>;
  using MmaQK = decltype(make_tiled_mma(
      GMMA::ss_op_selector<Type, Type, float, Shape<TileQ, TileKV, Dim>, GMMA::Major::K, GMMA::Major::K>(),
      Groups{}));
  using MmaPV = decltype(make_tiled_mma(
      GMMA::rs_op_selector<Type, Type, float, Shape<TileQ, Dim, TileKV>, GMMA::Major::K, GMMA::Major::MN>(),
      Groups{}));

  // P in the registers of one thread, as A operand: (4 pairs of a 64 x 16 slice, 1, slices).
  using LayoutP = cute::Layout<Shape<Shape<_2, _2, _2>, _1, Int<K::kTileKV / 16>>>;
};

using Barrier = cutlass::arch::ClusterTransactionBarrier;

// Full and empty barriers of Q and of every stage of K and of V, behind the operands.
template <class K>
struct Barriers {
  uint64_t q_full[K::kQStages], q_empty[K::kQStages];
  uint64_t k_full[K::kStages], k_empty[K::kStages];
  uint64_t v_full[K::kStages], v_empty[K::kStages];

  __device__ void init() {
    for (int i = 0; i < K::kQStages; ++i) {
      Barrier::init(&q_full[i], 1);
      Barrier::init(&q_empty[i], K::kGroups);
    }
    for (int i = 0; i < K::kStages; ++i) {
      Barrier::init(&k_full[i], 1);
      Barrier::init(&v_full[i], 1);
      Barrier::init(&k_empty[i], K::kGroups);
      Barrier::init(&v_empty[i], K::kGroups);
    }
  }
};

// A position in a ring of stages. `phase` is the parity that a full barrier has once the stage is filled.
template <int kStages>
struct Position {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// One of the tiles this CTA computes, in turn.
struct Tile {
  int round = 0, row, head;

  // The first tile of this CTA; there is one, since the grid is no larger than the tiles are many.
  __device__ explicit Tile(Walk const& walk) { walk.at(walk.dealt(0, blockIdx.x, gridDim.x), row, head); }

  // Goes to the next tile, if there is one.
  __device__ __forceinline__ bool advance(Walk const& walk) {
    int const index = walk.dealt(++round, blockIdx.x, gridDim.x);
    if (index >= walk.tiles()) {
      return false;
    }
    walk.at(index, row, head);
    return true;
  }
};

}  // namespace cutlass_tuner::flash
