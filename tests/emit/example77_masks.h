// Walks the blocks of keys that a tile of an example 77 kernel visits, on the host, and counts where the keys that
// a row is left with are not those it must see. `Kernel` is one of example77_kernel.h.
#pragma once

#include <vector>

namespace masks {

using namespace cute;

template <class Kernel>
int64_t wrong_tile(int tile, int q, int kv, int diagonal) {
  using Tile = typename Kernel::TileShape;
  constexpr int kTileQ = size<0>(Tile{}), kTileKv = size<1>(Tile{});
  auto const sizes = make_tuple(q, kv, 64, make_tuple(make_tuple(1, 1), 1), diagonal);
  auto const coord = make_coord(tile, _0{}, make_coord(0, 0));
  typename Kernel::CollectiveMainloop::Mask mask;
  int const trips = mask.get_trip_count(coord, Tile{}, sizes);
  int const unmasked = mask.get_unmasked_trip_count(coord, Tile{}, sizes);
  int64_t wrong = trips < 1 || unmasked + mask.get_masked_trip_count(coord, Tile{}, sizes) != trips;

  std::vector<float> store(size_t(kTileQ) * kTileKv);
  std::vector<char> seen(size_t(kTileQ) * trips * kTileKv);
  for (int trip = 0; trip < trips; trip++) {
    Tensor positions = domain_offset(make_coord(tile * kTileQ, trip * kTileKv), make_identity_tensor(take<0, 2>(Tile{})));
    Tensor scores = make_tensor(store.data(), make_layout(take<0, 2>(Tile{})));
    fill(scores, 1.0f);
    if (trip >= unmasked) {
      mask.apply_mask(scores, positions, sizes);
    }
    for (int i = 0; i < size(scores); i++) {
      int const row = get<0>(positions(i)) - tile * kTileQ, key = get<1>(positions(i));
      seen[size_t(row) * trips * kTileKv + key] = scores(i) == 1.0f;
    }
  }
  for (int row = 0; row < kTileQ && tile * kTileQ + row < q; row++) {
    for (int key = 0; key < (trips * kTileKv > kv ? trips * kTileKv : kv); key++) {
      bool const must = key < kv && (!Kernel::kCausal || key <= tile * kTileQ + row + diagonal);
      wrong += must != (key < trips * kTileKv && seen[size_t(row) * trips * kTileKv + key]);
    }
  }
  return wrong;
}

template <class Kernel>
int64_t wrong(int q, int kv, int diagonal) {
  int64_t wrong = 0;
  for (int tile = 0; tile * size<0>(typename Kernel::TileShape{}) < q; tile++) {
    wrong += wrong_tile<Kernel>(tile, q, kv, diagonal);
  }
  return wrong;
}

}  // namespace masks

#define MASKS_OF(index, Kernel)                                                                              \
  extern "C" __attribute__((visibility("default"))) int64_t wrong_##index(int q, int kv, int diagonal) {     \
    return masks::wrong<Kernel>(q, kv, diagonal);                                                            \
  }
