// Masks for the kernels of CUTLASS example 77, through the interface of its NoMask: how many blocks of keys a
// tile visits, how many of them the softmax masks, and which scores are -inf. Unlike the example's own they put
// the diagonal where the problem wants it, and a tile visits one block at least: the example's kernel waits for
// ever on a tile that visits none.
//
// `size` is (seqlen_q, seqlen_kv, head_dim, ((group, heads_kv), batch), diagonal); row i sees key j iff
// j <= i + diagonal. Unmasked blocks come first.
#pragma once

#include "cutlass/cutlass.h"

#include "cute/tensor.hpp"

namespace cutlass_tuner::example77 {

template <class Size>
CUTLASS_HOST_DEVICE int seqlen_q(Size const& size) { return cute::get<0>(size); }
template <class Size>
CUTLASS_HOST_DEVICE int seqlen_kv(Size const& size) { return cute::get<1>(size); }
template <class Size>
CUTLASS_HOST_DEVICE int diagonal(Size const& size) { return cute::get<4>(size); }

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
  CUTLASS_HOST_DEVICE void apply_mask(Scores& scores, Positions const& positions, Size const& size) {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < cute::size(scores); i++) {
      if (int(cute::get<1>(positions(i))) >= seqlen_kv(size)) {
        scores(i) = -INFINITY;
      }
    }
  }
};

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
    int const last_row = (int(cute::get<0>(block)) + 1) * int(cute::get<0>(tile)) - 1;
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
  CUTLASS_HOST_DEVICE void apply_mask(Scores& scores, Positions const& positions, Size const& size) {
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

}  // namespace cutlass_tuner::example77
