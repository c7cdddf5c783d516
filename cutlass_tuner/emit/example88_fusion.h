// Masks for the kernels of CUTLASS example 88, through the interface of its DefaultFusion: which KV tiles a CTA
// visits, and which scores are -inf before the softmax. Unlike the example's own they mask a ragged end of the
// keys, take any pair of tile sizes, and put the diagonal where the problem wants it.
//
// `size` is (batch, heads, seqlen_q, seqlen_kv, head_dim, diagonal); row i sees key j iff j <= i + diagonal.
// The mainloop visits unmasked tiles first, then masked ones, and needs at least one tile in all: a CTA whose
// rows see no key visits a tile that is masked altogether.
#pragma once

#include "cutlass/cutlass.h"

#include "cute/tensor.hpp"

namespace cutlass_tuner::example88 {

template <class Size>
CUTLASS_HOST_DEVICE int seqlen_q(Size const& size) { return cute::get<2>(size); }
template <class Size>
CUTLASS_HOST_DEVICE int seqlen_kv(Size const& size) { return cute::get<3>(size); }
template <class Size>
CUTLASS_HOST_DEVICE int diagonal(Size const& size) { return cute::get<5>(size); }

// Every row sees every key.
struct Full {
  static constexpr bool kCausal = false;

  template <class Block, class Tile, class Size>
  CUTLASS_HOST_DEVICE int get_trip_count(Block const&, Tile const& tile, Size const& size) {
    return cute::ceil_div(seqlen_kv(size), int(cute::get<1>(tile)));
  }

  template <class Block, class Tile, class Size>
  CUTLASS_HOST_DEVICE int get_unmasked_trip_count(Block const&, Tile const& tile, Size const& size) {
    return seqlen_kv(size) / int(cute::get<1>(tile));
  }

  template <class Block, class Tile, class Size>
  CUTLASS_HOST_DEVICE int get_masked_trip_count(Block const& block, Tile const& tile, Size const& size) {
    return get_trip_count(block, tile, size) - get_unmasked_trip_count(block, tile, size);
  }

  template <class Scores, class Positions, class Size>
  CUTLASS_DEVICE void before_softmax(Scores& scores, Positions const& positions, Size const& size) {
    // The mainloop also asks of its first tile, which is whole more often than not: a thread's last score is
    // its rightmost one.
    if (cute::get<1>(positions(cute::size(scores) - 1)) < seqlen_kv(size)) {
      return;
    }
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < cute::size(scores); i++) {
      if (cute::get<1>(positions(i)) >= seqlen_kv(size)) {
        scores(i) = -INFINITY;
      }
    }
  }
};

// CTAs of a cluster share the KV tiles they load, so all of them visit as many as the lowest rows among them
// need: were the counts different, one would wait for ever.
template <int kClusterM>
struct Causal {
  static constexpr bool kCausal = true;

  // Keys that a row sees; rows past seqlen_q count as the last one.
  template <class Size>
  CUTLASS_HOST_DEVICE static int keys(int row, Size const& size) {
    int const seen = (row < seqlen_q(size) ? row : seqlen_q(size) - 1) + diagonal(size) + 1;
    return seen < 0 ? 0 : seen < seqlen_kv(size) ? seen : seqlen_kv(size);
  }

  template <class Block, class Tile, class Size>
  CUTLASS_HOST_DEVICE int get_trip_count(Block const& block, Tile const& tile, Size const& size) {
    int const last_block = int(cute::get<0>(block)) / kClusterM * kClusterM + kClusterM - 1;
    int const last_row = (last_block + 1) * int(cute::get<0>(tile)) - 1;
    int const trips = cute::ceil_div(keys(last_row, size), int(cute::get<1>(tile)));
    return trips < 1 ? 1 : trips;
  }

  template <class Block, class Tile, class Size>
  CUTLASS_HOST_DEVICE int get_unmasked_trip_count(Block const& block, Tile const& tile, Size const& size) {
    return keys(int(cute::get<0>(block)) * int(cute::get<0>(tile)), size) / int(cute::get<1>(tile));
  }

  template <class Block, class Tile, class Size>
  CUTLASS_HOST_DEVICE int get_masked_trip_count(Block const& block, Tile const& tile, Size const& size) {
    return get_trip_count(block, tile, size) - get_unmasked_trip_count(block, tile, size);
  }

  template <class Scores, class Positions, class Size>
  CUTLASS_DEVICE void before_softmax(Scores& scores, Positions const& positions, Size const& size) {
    // A thread's first score is its topmost row's, its last one its rightmost: where these two agree, all do.
    int const rightmost = cute::get<1>(positions(cute::size(scores) - 1));
    int const topmost = cute::get<0>(positions(0));
    if (rightmost <= topmost + diagonal(size) && rightmost < seqlen_kv(size)) {
      return;
    }
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < cute::size(scores); i++) {
      auto const position = positions(i);
      int const key = cute::get<1>(position);
      if (key > int(cute::get<0>(position)) + diagonal(size) || key >= seqlen_kv(size)) {
        scores(i) = -INFINITY;
      }
    }
  }
};

}  // namespace cutlass_tuner::example88
