// Walks the tiles that a kernel of example 88 would visit, thread by thread on the host, and counts where the
// keys that a row is left with are not those it must see. `Kernel` is one of example88_kernel.h.
#pragma once

#include <vector>

namespace masks {

using namespace cute;

template <class Kernel>
int64_t wrong_block(int block, int q, int kv, int diagonal, int& trips_out) {
  using Loop = typename Kernel::CollectiveMainloop;
  using Tile = typename Loop::TileShape;
  using TileGroup = typename Loop::TileShapeQK;  // of one MMA warp group
  constexpr int kTileQ = size<0>(Tile{}), kTileKv = size<1>(Tile{}), kRows = size<0>(TileGroup{});
  auto const sizes = make_tuple(1, 1, q, kv, 64, diagonal);
  auto const coord = make_coord(block, _0{}, make_coord(0, 0));
  typename Loop::Fusion fusion;
  int const trips = fusion.get_trip_count(coord, Tile{}, sizes);
  int const unmasked = fusion.get_unmasked_trip_count(coord, Tile{}, sizes);
  trips_out = trips;
  int64_t wrong = trips < 1 || unmasked + fusion.get_masked_trip_count(coord, Tile{}, sizes) != trips;

  std::vector<char> seen(size_t(kTileQ) * trips * kTileKv, 0);
  for (int group = 0; group < kTileQ / kRows; group++) {
    for (int thread = 0; thread < 128; thread++) {
      auto slice = typename Loop::TiledMmaQK{}.get_thread_slice(thread);
      Tensor positions = slice.partition_C(make_identity_tensor(take<0, 2>(TileGroup{})));
      positions.data() = positions.data() + E<0>{} * (block * (kTileQ / kRows) + group) * kRows;
      for (int trip = 0; trip < trips; trip++) {
        Tensor scores = make_tensor<float>(shape(positions));
        fill(scores, 1.0f);
        if (trip == 0 || trip >= unmasked) {
          fusion.before_softmax(scores, positions, sizes);
        }
        for (int i = 0; i < size(scores); i++) {
          int const row = get<0>(positions(i)) - block * kTileQ, key = get<1>(positions(i));
          seen[size_t(row) * trips * kTileKv + key] = scores(i) == 1.0f;
        }
        positions.data() = positions.data() + E<1>{} * kTileKv;
      }
    }
  }
  for (int row = 0; row < kTileQ && block * kTileQ + row < q; row++) {
    for (int key = 0; key < (trips * kTileKv > kv ? trips * kTileKv : kv); key++) {
      bool const must = key < kv && (!Kernel::kCausal || key <= block * kTileQ + row + diagonal);
      wrong += must != (key < trips * kTileKv && seen[size_t(row) * trips * kTileKv + key]);
    }
  }
  return wrong;
}

template <class Kernel>
int64_t wrong(int q, int kv, int diagonal) {
  constexpr int kTileQ = size<0>(typename Kernel::TileShape{}), kCluster = size<0>(typename Kernel::ClusterShape{});
  int64_t wrong = 0;
  int const blocks = round_up(ceil_div(q, kTileQ), kCluster);
  for (int block = 0, first = 0; block < blocks; block++) {
    int trips = 0;
    wrong += wrong_block<Kernel>(block, q, kv, diagonal, trips);
    first = block % kCluster == 0 ? trips : first;
    wrong += trips != first;  // CTAs of a cluster load for one another
  }
  return wrong;
}

}  // namespace masks

#define MASKS_OF(index, Kernel)                                                                              \
  extern "C" __attribute__((visibility("default"))) int64_t wrong_##index(int q, int kv, int diagonal) {     \
    return masks::wrong<Kernel>(q, kv, diagonal);                                                            \
  }
