// One attention call by a flash kernel's own text, on the machine of machine.h, against brute force.
#pragma once

#include "cute.h"

#include "emit/flash/kernel.h"

#include "emit/flash/host.h"

namespace cutlass_tuner::flash {

// head_dim, mask and layout are the kernel's.
struct Problem {
  int batch, heads_q, heads_kv, seqlen_q, seqlen_kv, causal;
  int persistent, heavy, section, sms;
  unsigned thread, schedule;  // which thread of a warp group runs beside its first one
};

// cuTensorMapEncodeTiled: operands are told by their addresses.
inline CUresult write_facts(
    CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address, cuuint64_t const* extents, cuuint64_t const*,
    cuuint32_t const* box, cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill) {
  MapFacts const facts = {
      static_cast<char>(reinterpret_cast<uintptr_t>(address)), static_cast<int>(box[0]), static_cast<int>(box[1]),
      static_cast<int>(box[2]), static_cast<int>(extents[1])};
  std::memcpy(map, &facts, sizeof facts);
  return CUDA_SUCCESS;
}

template <class K>
class Run {
 public:
  explicit Run(Problem const& problem) : p_(problem), rows_(problem.batch * problem.heads_q * problem.seqlen_q) {}

  // What went wrong, or nothing.
  std::string operator()() {
    std::vector<float> lse(rows_, NAN);
    std::vector<int> stored(rows_, 0);
    auto const at = [](char operand) { return reinterpret_cast<void*>(static_cast<uintptr_t>(operand)); };
    Call const call = {p_.batch, p_.heads_q, p_.heads_kv, p_.seqlen_q, p_.seqlen_kv, K::kHeadDim,
                       static_cast<Causal>(p_.causal), Layout::kBSHD, at('q'), at('k'), at('v'), at('o'),
                       lse.data(), kScale};
    Launch const launch = {p_.persistent != 0, p_.heavy != 0, p_.section, p_.sms};
    Params params;
    machine::require(can_implement<K>(call, launch) && fill<K>(&write_facts, call, launch, &params), "no such call");
    ::world = {p_.seqlen_q, p_.seqlen_kv, p_.heads_q / p_.heads_kv,
               [&](Tag const& tile, unsigned thread, float const* o) { check(tile, thread, o, lse, stored); }};
    ::gridDim.x = grid<K>(call, launch);
    std::vector<unsigned> threads = {0};
    for (unsigned group = 1; group <= K::kGroups; ++group) {
      threads.insert(threads.end(), {group * kGroupThreads, group * kGroupThreads + p_.thread});
    }
    for (::blockIdx.x = 0; ::blockIdx.x < ::gridDim.x; ++::blockIdx.x) {
      std::vector<char> memory(K::kSmemBytes + 1024, '\xaa');
      auto* const smem = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.data()) + 1023) / 1024 * 1024);
      machine::Machine sm(threads, 2, [&] { attention<K>(params, smem); }, p_.schedule + ::blockIdx.x * 97);
      if (std::string const fault = sm.run(); !fault.empty()) {
        return fault;
      }
    }
    for (int index = 0; index < rows_; ++index) {
      int const row = index % p_.seqlen_q;
      bool const ours = has(0, row) || has(p_.thread, row);
      if (stored[index] != ours) {
        wrong_ = "row " + std::to_string(row) + " stored " + std::to_string(stored[index]) + " times";
      }
    }
    return wrong_;
  }

 private:
  static constexpr float kScale = 0.25f;

  // Whether thread `thread` of a warp group holds this row.
  static bool has(unsigned thread, int row) {
    int const inside = row % kGroupRows;
    return inside == accumulator_row(thread, 0) || inside == accumulator_row(thread, 2);
  }

  // O of a thread's two rows, and their log-sum-exp, over those keys that the thread's columns are. The other lanes
  // of its quad are alike, so that sums are four times as large.
  void check(
      Tag const& tile, unsigned thread, float const* o, std::vector<float> const& lse, std::vector<int>& stored) {
    for (int r = 0; r < kRows; ++r) {
      int const row = tile.row + accumulator_row(thread, 2 * r);
      if (row >= p_.seqlen_q) {
        continue;
      }
      int const index = (tile.batch * p_.heads_q + tile.head) * p_.seqlen_q + row;
      stored[index] += 1;
      std::vector<float> expected(K::kHeadDim / 2, 0.0f);
      double const sum = attend(tile, thread, row, r, expected);
      for (int i = 2 * r; i < K::kHeadDim / 2; i += i % 2 ? 3 : 1) {
        note(std::abs(o[i] - expected[i]) <= 1e-3f, "O", tile, row, o[i], expected[i]);
      }
      if (thread % 4 == 0) {
        double const right = sum > 0 ? std::log(4 * sum) : -INFINITY;
        note(lse[index] == right || std::abs(lse[index] - right) <= 1e-3, "LSE", tile, row, lse[index], right);
      }
    }
  }

  double attend(Tag const& tile, unsigned thread, int row, int r, std::vector<float>& o) const {
    int const head_kv = tile.head / (p_.heads_q / p_.heads_kv);
    int const shift = p_.causal == 1 ? p_.seqlen_kv - p_.seqlen_q : 0;
    int const end = p_.causal ? std::min(p_.seqlen_kv, std::max(0, row + shift + 1)) : p_.seqlen_kv;
    double sum = 0;
    std::vector<double> sums(o.size(), 0.0);
    for (int key = 0; key < end; ++key) {
      if (key % 8 / 2 != static_cast<int>(thread % 4)) {
        continue;
      }
      double const p = std::exp(kScale * ::world.score(tile.batch, tile.head, row, head_kv, key));
      sum += p;
      for (std::size_t i = 2 * r; i < o.size(); i += i % 2 ? 3 : 1) {
        sums[i] += p * ::world.value(tile.batch, head_kv, key, accumulator_column(thread, i));
      }
    }
    for (std::size_t i = 0; i < o.size(); ++i) {
      o[i] = sum > 0 ? sums[i] / (4 * sum) : 0;
    }
    return sum;
  }

  void note(bool right, char const* what, Tag const& tile, int row, double found, double expected) {
    if (!right) {
      char text[160];
      std::snprintf(text, sizeof text, "%s of batch %d head %d row %d is %g instead of %g", what, tile.batch, tile.head,
                    row, found, expected);
      wrong_ = text;
    }
  }

  Problem p_;
  int rows_;
  std::string wrong_;
};

// Empty where the kernel gave the right answer.
template <class K>
char const* run(Problem const* problem) {
  static std::string told;
  try {
    told = Run<K>(*problem)();
  } catch (machine::Fault const& fault) {
    told = fault.what();
  }
  return told.c_str();
}

}  // namespace cutlass_tuner::flash
