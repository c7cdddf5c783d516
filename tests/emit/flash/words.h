// The words of CUDA and CUTLASS that the flash kernels use, on the machine of machine.h: their own text compiles
// as it stands. Shared memory holds, at each 64 rows of an operand, a tag that says which rows these are; scores
// and values are functions of their coordinates.
#pragma once

#include "machine.h"

#include <cuda.h>

#define __device__
#define __forceinline__ inline
#define CUTLASS_PRAGMA_UNROLL
#define CUTLASS_LAMBDA_FUNC_INLINE

// Which rows lie here: written by TMA, or for O by the threads that store it.
struct Tag {
  int operand;  // 'q', 'k', 'v' or 'o'
  int row, head, batch, chunk, stores[2];
  bool operator==(Tag const& other) const { return std::memcmp(this, &other, sizeof(Tag)) == 0; }
};
inline Tag& tag_at(void const* address) { return *static_cast<Tag*>(const_cast<void*>(address)); }

// What stands in a CUtensorMap here.
struct MapFacts {
  char operand;
  int chunk_columns, rows, chunks, seqlen;
};
inline MapFacts const& facts_of(CUtensorMap const* map) { return *reinterpret_cast<MapFacts const*>(map); }

// The problem that runs. Scores are raw: scale comes later.
struct World {
  int seqlen_q, seqlen_kv, heads_per_kv;
  std::function<void(Tag const& tile, unsigned thread, float const* o)> stored;

  static float random(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint32_t x = a * 0x9e3779b9u ^ b * 0x85ebca6bu ^ c * 0xc2b2ae35u ^ d * 0x27d4eb2fu;
    x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
    return static_cast<float>(x >> 8) / (1 << 23) - 1.0f;
  }
  // Rows behind the last are zeros, as TMA fills them.
  float score(int batch, int head, int row, int head_kv, int key) const {
    return row < seqlen_q && key < seqlen_kv ? 8.0f * random(batch * 64 + head, row, head_kv, key) : 0.0f;
  }
  float value(int batch, int head_kv, int key, int column) const {
    return key < seqlen_kv ? random(batch * 64 + head_kv, key, column, 7) : 0.0f;
  }
};
inline World world;

// Rows and columns of accumulator register i of a thread of a warp group (PTX ISA, wgmma).
inline int accumulator_row(unsigned thread, int i) {
  return 16 * (thread / 32 % 4) + thread % 32 / 4 + 8 * (i / 2 % 2);
}
inline int accumulator_column(unsigned thread, int i) { return 8 * (i / 4) + 2 * (thread % 4) + i % 2; }

// --- CUDA

inline int __float_as_int(float x) {
  int y;
  std::memcpy(&y, &x, 4);
  return y;
}
inline float __int_as_float(int x) {
  float y;
  std::memcpy(&y, &x, 4);
  return y;
}
inline float __logf(float x) { return std::log(x); }
// The lanes of a quad, and of a warp, are alike: each has the same scores as this one.
inline float __shfl_xor_sync(unsigned, float x, int) { return x; }
inline bool __any_sync(unsigned, bool x) { return x; }
inline void __syncthreads() { machine::Machine::now().sync_all(); }

inline void named_barrier(char const* text, unsigned barrier, unsigned threads) {
  bool const sync = std::strstr(text, "bar.sync") != nullptr;
  machine::require(sync || std::strstr(text, "bar.arrive"), text);
  auto& machine = machine::Machine::now();
  sync ? machine.sync(threads, barrier) : machine.signal(threads, barrier);
}
inline float special_function(char const* text, float x) {
  machine::require(std::strstr(text, "ex2.approx") != nullptr, text);
  return std::exp2(x);
}

// --- CUTLASS

namespace cutlass {
struct half_t {
  float held;  // P is not rounded here: that is tests/verify's business
  half_t(float x = 0.0f) : held(x) {}
  operator float() const { return held; }
};
struct bfloat16_t : half_t {
  using half_t::half_t;
};
template <class T, int N>
struct Array {
  T held[N];
  T& operator[](int i) { return held[i]; }
  T const& operator[](int i) const { return held[i]; }
};
template <class To, class From, int N>
struct NumericArrayConverter {
  Array<To, N> operator()(Array<From, N> const& from) const {
    Array<To, N> to;
    for (int i = 0; i < N; ++i) {
      to[i] = To(from[i]);
    }
    return to;
  }
};
inline int canonical_warp_group_idx() { return threadIdx.x / machine::kGroup; }

namespace arch {
template <int>
void warpgroup_reg_alloc() {}
template <int>
void warpgroup_reg_dealloc() {}
inline void fence_barrier_init() {}

struct ClusterTransactionBarrier {
  static void init(uint64_t* barrier, int count) {
    machine::state(barrier) = {static_cast<uint8_t>(count), static_cast<uint8_t>(count), 0, 0};
  }
  static void wait(uint64_t* barrier, uint32_t parity) {
    machine::Machine::now().until(
        "an mbarrier", [barrier, parity] { return machine::state(barrier).completed % 2 != parity; });
  }
  static void arrive(uint64_t* barrier) {
    machine::require(machine::state(barrier).pending > 0, "an mbarrier gets more arrivals than it counts");
    --machine::state(barrier).pending;
    machine::state(barrier).settle();
    machine::Machine::now().yield();
  }
  static void arrive_and_expect_tx(uint64_t* barrier, int bytes) {
    machine::state(barrier).bytes += bytes;
    arrive(barrier);
  }
};
}  // namespace arch
}  // namespace cutlass
