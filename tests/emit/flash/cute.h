// The words of CuTe that the flash kernels use, on the machine of machine.h.
#pragma once

#include <type_traits>

#include "words.h"

namespace cute {

template <int N>
using Int = std::integral_constant<int, N>;
using _1 = Int<1>;
using _2 = Int<2>;
using _3 = Int<3>;
using std::false_type;
using std::is_base_of;
using std::true_type;
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

template <class...>
struct Shape {};
template <class...>
struct Step {};
template <class>
struct Layout {};
struct Underscore {};
constexpr Underscore _{};

namespace GMMA {
enum class Major { K, MN };
enum class ScaleOut { Zero, One };
struct DescriptorIterator {};
template <class>
struct Layout_K_SW128_Atom {};
template <class>
struct Layout_K_SW64_Atom {};
template <class>
struct Layout_MN_SW128_Atom {};
template <class>
struct Layout_MN_SW64_Atom {};
template <bool kFromRegisters, class Tile>
struct Op {};
template <class A, class B, class C, class Tile, Major, Major>
Op<false, Tile> ss_op_selector() {
  return {};
}
template <class A, class B, class C, class Tile, Major, Major>
Op<true, Tile> rs_op_selector() {
  return {};
}
}  // namespace GMMA

// A ring of stages of rows x columns in shared memory, a chunk of at most 64 columns after another.
template <int kRows, int kColumns>
struct RingLayout {
  static constexpr int kStageBytes = 2 * kRows * kColumns;
  static constexpr int kRowBytes = 2 * (kColumns < 64 ? kColumns : 64);  // in a chunk
  static constexpr int kChunkBytes = kRows * kRowBytes;
  static constexpr int kSlices = kColumns / 16;
};
template <class Atom, int kRows, int kColumns, int kStages>
RingLayout<kRows, kColumns> tile_to_shape(Atom, Shape<Int<kRows>, Int<kColumns>, Int<kStages>>) {
  return {};
}
template <class Atom, int kColumns, int kRows, int kStages>
RingLayout<kRows, kColumns> tile_to_shape(
    Atom, Shape<Int<kColumns>, Int<kRows>, Int<kStages>>, Step<_2, _1, _3>) {
  return {};
}

// --- tensors, by what they hold

template <class Held>
struct Tensor;

template <class T, int N>
struct Registers {};
template <class T, int N>
struct Tensor<Registers<T, N>> {
  using value_type = T;
  T held[N];
  T& operator()(int i) { return held[i]; }
  T const& operator()(int i) const { return held[i]; }
  struct Slice {
    T* held;
    int k, slices;
  };
  Slice operator()(Underscore, Underscore, int k) { return {held, k, N / 8}; }
};
template <class T, int N>
Int<N> size(Tensor<Registers<T, N>> const&) {
  return {};
}
template <int, class T, int N>
int size(Tensor<Registers<T, N>> const&) {
  return N / 8;
}

template <class T>
struct Pairs {};
template <class T>
struct Tensor<Pairs<T>> {
  T* held;
  int count;
  cutlass::Array<T, 2>& operator()(int i) { return reinterpret_cast<cutlass::Array<T, 2>&>(held[2 * i]); }
};
template <class T>
int size(Tensor<Pairs<T>> const& pairs) {
  return pairs.count;
}
template <class Array, class T, int N>
Tensor<Pairs<T>> recast(Tensor<Registers<T, N>>& whole) {
  return {whole.held, N / 2};
}

// A stage of an operand, from a warp group's own rows on where each has some, or its k-th slice of columns.
struct Place {};
template <>
struct Tensor<Place> {
  char* address;
  int slices, chunks, chunk_bytes, row_bytes, k = 0;
  Tensor operator()(Underscore, Underscore, int slice) const {
    return {address, slices, chunks, chunk_bytes, row_bytes, slice};
  }
};
template <int>
int size(Tensor<Place> const& place) {
  return place.slices;
}

template <int kRows, int kColumns>
struct Tensor<RingLayout<kRows, kColumns>> {
  using Ring = RingLayout<kRows, kColumns>;
  char* base;
  int group = 0;
  Tensor<Place> operator()(Underscore, Underscore, int stage) const {
    char* const address = base + stage * Ring::kStageBytes + group * 64 * Ring::kRowBytes;
    return {address, Ring::kSlices, Ring::kStageBytes / Ring::kChunkBytes, Ring::kChunkBytes, Ring::kRowBytes};
  }
  Tensor<Place> operator()(Underscore, Underscore, Underscore, int stage) const { return (*this)(_, _, stage); }
};

template <class T>
char* make_smem_ptr(T* address) {
  return reinterpret_cast<char*>(address);
}
template <int kRows, int kColumns>
Tensor<RingLayout<kRows, kColumns>> make_tensor(char* base, RingLayout<kRows, kColumns>) {
  return {base};
}
template <class T, class Atom, class M, int kSlices>
Tensor<Registers<T, 8 * kSlices>> make_tensor(Layout<Shape<Atom, M, Int<kSlices>>>) {
  return {};
}
template <class T, class From, int N>
Tensor<Registers<T, N>> make_tensor_like(Tensor<Registers<From, N>> const&) {
  return {};
}

// --- products

struct Partition {
  int group;
  template <class Ring>
  Tensor<Ring> partition_A(Tensor<Ring> ring) const {
    return {ring.base, group};
  }
  template <class Ring>
  Tensor<Ring> partition_B(Tensor<Ring> ring) const {
    return ring;
  }
  template <class Ring>
  Tensor<Ring> make_fragment_A(Tensor<Ring> ring) const {
    return ring;
  }
  template <class Ring>
  Tensor<Ring> make_fragment_B(Tensor<Ring> ring) const {
    return ring;
  }
  Tensor<Place> partition_D(Tensor<Place> place) const {
    place.address += group * 64 * place.row_bytes;
    return place;
  }
  template <class Values>
  Values const& retile_S(Values const& values) const {
    return values;
  }
};

template <bool kFromRegisters>
struct TiledMma {
  using FrgTypeA = std::conditional_t<kFromRegisters, int, GMMA::DescriptorIterator>;
  GMMA::ScaleOut accumulate_ = GMMA::ScaleOut::One;
  Partition get_slice(int thread) const { return {thread / machine::kGroup}; }
};
template <bool kFromRegisters, class Tile, class Groups>
TiledMma<kFromRegisters> make_tiled_mma(GMMA::Op<kFromRegisters, Tile>, Groups) {
  return {};
}
template <class Mma, int kRows, int kColumns>
Tensor<Registers<float, kColumns / 2>> partition_fragment_C(Mma, Shape<Int<kRows>, Int<kColumns>>) {
  return {};
}

// Reads what lies in shared memory and registers when it is waited for, and expects what lay there at its issue.
// Until then the accumulators are of no value.
template <int N>
void gemm(TiledMma<false>&, Tensor<Place> a, Tensor<Place> b, Tensor<Registers<float, N>>& c) {
  if (a.k > 0) {
    return;
  }
  auto& machine = machine::Machine::now();
  std::fill_n(c.held, N, NAN);
  unsigned const thread = machine.self().thread;
  Tag const q = tag_at(a.address), k = tag_at(b.address);
  machine.self().open.push_back([=, to = c.held] {
    machine::require(q == tag_at(a.address) && q.operand == 'q', "Q was overwritten under a product");
    machine::require(k == tag_at(b.address) && k.operand == 'k', "K was overwritten under a product");
    for (int i = 0; i < N; ++i) {
      int const row = q.row + accumulator_row(thread, i), key = k.row + accumulator_column(thread, i);
      to[i] = world.score(q.batch, q.head, row, k.head, key);
    }
  });
}
template <class P, int N>
void gemm(TiledMma<true>& mma, P a, Tensor<Place> b, Tensor<Registers<float, N>>& c) {
  if (a.k > 0) {
    return;
  }
  auto& machine = machine::Machine::now();
  std::vector<float> sums(N, 0.0f);
  if (mma.accumulate_ == GMMA::ScaleOut::One) {
    std::copy_n(c.held, N, sums.begin());
  }
  std::fill_n(c.held, N, NAN);
  unsigned const thread = machine.self().thread;
  Tag const v = tag_at(b.address);
  machine.self().open.push_back([=, to = c.held] {
    machine::require(v == tag_at(b.address) && v.operand == 'v', "V was overwritten under a product");
    for (int i = 0; i < N; ++i) {
      to[i] = sums[i];
      for (int j = i / 2 % 2 * 2; j < 8 * a.slices; j += j % 2 ? 3 : 1) {  // this row's share of P
        int const key = v.row + accumulator_column(thread, j);
        to[i] += a.held[j] * world.value(v.batch, v.head, key, accumulator_column(thread, i));
      }
    }
  });
}
inline void warpgroup_arrive() {}
template <class T>
void warpgroup_fence_operand(T&) {}
inline void warpgroup_commit_batch() {
  auto& fiber = machine::Machine::now().self();
  fiber.flight.push_back([products = std::move(fiber.open)] {
    for (auto const& product : products) {
      product();
    }
  });
  fiber.open.clear();
  ++fiber.issued;
  machine::Machine::now().yield();
}
template <int kPending>
void warpgroup_wait() {
  machine::Machine::now().complete(kPending);
}

}  // namespace cute

#include "tma.h"

// Last, since no header of the system is to see them: inline assembly, by its text and its operands' names.
#define volatile(...) ("" :: : "memory"); named_barrier(#__VA_ARGS__, barrier, threads)
#define asm(...) y = special_function(#__VA_ARGS__, x)
