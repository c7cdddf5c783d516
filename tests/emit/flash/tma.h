// The words of TMA that the flash kernels use, on the machine of machine.h: loads arrive when the schedule lets them,
// stores read their shared memory when it is waited for.
#pragma once

#include "cute.h"

namespace cute {

struct TmaDescriptor;
inline void prefetch_tma_descriptor(TmaDescriptor const*) {}
namespace TMA {
enum class CacheHintSm90 : uint64_t { EVICT_NORMAL };
}

struct SM90_TMA_LOAD_5D {
  static void copy(
      CUtensorMap const* map, uint64_t* full, uint64_t, char* to, int column, int row, int chunk, int head,
      int batch) {
    MapFacts const facts = facts_of(map);
    machine::require(column == 0 && chunk == 0, "a load begins inside a row");
    machine::Machine::now().transfer([=] {
      int const row_bytes = 2 * facts.chunk_columns;
      for (int c = 0; c < facts.chunks; ++c) {
        for (int r = 0; r < facts.rows; r += 64) {
          tag_at(to + (c * facts.rows + r) * row_bytes) = {facts.operand, row + r, head, batch, c, {0, 0}};
        }
      }
      machine::state(full).bytes -= row_bytes * facts.rows * facts.chunks;
      machine::state(full).settle();
    });
  }
};

struct SM90_U32x4_STSM_N {};
template <class, class>
struct Copy_Atom {};
struct TiledCopy {
  Partition get_slice(int thread) const { return {thread / machine::kGroup}; }
};
template <class Atom, class Mma>
TiledCopy make_tiled_copy_C(Atom, Mma) {
  return {};
}

// O on its way: what the threads of a warp group that run wrote to their 64 rows of a stage.
constexpr int kValuesOffset = 64, kMostValues = 128;
inline float* values_at(void const* address, int ordinal) {
  char* const base = static_cast<char*>(const_cast<void*>(address)) + kValuesOffset;
  return reinterpret_cast<float*>(base) + ordinal * kMostValues;
}

template <class T, int N>
void copy(TiledCopy, Tensor<Registers<T, N>> const& values, Tensor<Place> to) {
  static_assert(N <= kMostValues);
  auto& machine = machine::Machine::now();
  auto& fiber = machine.self();
  int const ordinal = machine.ordinal(fiber);
  ++fiber.tiles_stored;
  for (int c = 0; c < to.chunks; ++c) {
    Tag& tag = tag_at(to.address + c * to.chunk_bytes);
    machine::require(tag.operand == 'q' || tag.operand == 'o', "O was written to where no Q lay");
    tag = {'o', 0, 0, 0, c, {tag.operand == 'o' ? tag.stores[0] : 0, tag.operand == 'o' ? tag.stores[1] : 0}};
    tag.stores[ordinal] = fiber.tiles_stored;
  }
  std::copy_n(values.held, N, values_at(to.address, ordinal));
}

struct SM90_TMA_STORE_5D {
  static void copy(CUtensorMap const* map, void const* from, int, int row, int chunk, int head, int batch) {
    auto& machine = machine::Machine::now();
    auto& fiber = machine.self();
    Tag const tag = tag_at(from);
    machine::require(facts_of(map).operand == 'o' && facts_of(map).rows == 64, "a store of another operand");
    machine::require(tag.operand == 'o' && tag.chunk == chunk, "a store of what is no O");
    machine.of_group(fiber.group(), [&](machine::Fiber& one) {
      machine::require(tag.stores[machine.ordinal(one)] == fiber.tiles_stored, "a store of half a tile");
    });
    fiber.stores.push_back([=, &machine, &fiber] {
      machine::require(tag == tag_at(from), "O was overwritten before it was stored");
      if (chunk == 0) {
        machine.of_group(fiber.group(), [&](machine::Fiber& one) {
          world.stored({'o', row, head, batch, 0, {0, 0}}, one.thread, values_at(from, machine.ordinal(one)));
        });
      }
    });
  }
};
inline void tma_store_fence() {}
inline void tma_store_arrive() {
  auto& fiber = machine::Machine::now().self();
  fiber.committed = fiber.stores.size();
}
template <int kPending>
void tma_store_wait() {
  static_assert(kPending == 0);
  machine::Machine::now().finish_stores(machine::Machine::now().self());
}

}  // namespace cute
