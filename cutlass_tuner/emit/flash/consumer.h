// The consumers: MMA warp groups, 64 query rows each, that keep S, P and O in registers.
#pragma once

#include "emit/flash/softmax.h"
#include "emit/flash/tensors.h"

namespace cutlass_tuner::flash {

// Issues C (+)= A B as one asynchronous group of WGMMAs, adding to C where `mma` says so, and in every later
// issue of the same `mma`. Operands in shared memory are descriptors; those in
// registers are fenced, or the compiler might move them while a WGMMA reads or writes them.
template <class Mma, class A, class B, class C>
__device__ __forceinline__ void issue(Mma& mma, A& a, B const& b, C& c) {
  constexpr bool kFromRegisters = !is_base_of<GMMA::DescriptorIterator, typename Mma::FrgTypeA>::value;
  if constexpr (kFromRegisters) {
    warpgroup_fence_operand(a);
  }
  warpgroup_fence_operand(c);
  warpgroup_arrive();
  CUTLASS_PRAGMA_UNROLL
  for (int k = 0; k < size<2>(a); ++k) {
    cute::gemm(mma, a(_, _, k), b(_, _, k), c);
    mma.accumulate_ = GMMA::ScaleOut::One;
  }
  warpgroup_commit_batch();
  warpgroup_fence_operand(c);
  if constexpr (kFromRegisters) {
    warpgroup_fence_operand(a);
  }
}

// fp32 -> the element type, two at a time as the instruction does.
template <class From, class To>
__device__ __forceinline__ void round_pairs(From const& from, To& to) {
  using Type = typename To::value_type;
  cutlass::NumericArrayConverter<Type, float, 2> const convert;
  Tensor pairs = recast<cutlass::Array<Type, 2>>(to);
  CUTLASS_PRAGMA_UNROLL
  for (int i = 0; i < size(pairs); ++i) {
    cutlass::Array<float, 2> two;
    two[0] = from(2 * i);
    two[1] = from(2 * i + 1);
    pairs(i) = convert(two);
  }
}

// Waits until all but the newest kPending products are done. The one in `c` is: what reads it stays behind.
template <int kPending, class C>
__device__ __forceinline__ void complete(C& c) {
  warpgroup_wait<kPending>();
  warpgroup_fence_operand(c);
}

// Barriers among warp groups by number, 1 to 15; 0 is __syncthreads'. (CUTLASS's own, by name, begin at 8: too
// few are left for a turn and a store of each of four groups.)
__device__ __forceinline__ void sync_threads(uint32_t threads, uint32_t barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void signal_threads(uint32_t threads, uint32_t barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

template <class K>
struct Consumer {
  using T = Tensors<K>;
  using Type = typename T::Type;
  using State = Softmax<K::kLazyRescale, K::kExpFma>;
  static constexpr uint32_t kTurn = 1, kStore = 5;  // barriers, + the group's number

  Params const& params;
  char* smem;
  Barriers<K>& barriers;
  int const group;   // of the MMA warp groups; known to be uniform, as everything that follows from it
  int const thread;  // of all their threads
  Position<K::kQStages> q{};
  Position<K::kStages> k{}, v{};

  __device__ Consumer(Params const& params, char* smem, Barriers<K>& barriers)
      : params(params), smem(smem), barriers(barriers), group(cutlass::canonical_warp_group_idx() - 1),
        thread(threadIdx.x - kGroupThreads) {
    if (takes_turns() && group == 0) {
      signal_threads(2 * kGroupThreads, kTurn);
    }
  }

  // All tiles of this CTA. A tile's first scores are there when it begins.
  __device__ __forceinline__ void compute() {
    typename T::MmaQK mma_qk;
    typename T::MmaPV mma_pv;
    // Descriptors depend on the warp group alone: told so, the compiler keeps them in uniform registers.
    auto const slice_qk = mma_qk.get_slice(group * kGroupThreads);
    auto const slice_pv = mma_pv.get_slice(group * kGroupThreads);
    Tensor q_ring = make_tensor(make_smem_ptr(reinterpret_cast<Type*>(smem)), typename T::LayoutQ{});
    Tensor k_ring = make_tensor(make_smem_ptr(reinterpret_cast<Type*>(smem + K::kKOffset)), typename T::LayoutK{});
    Tensor v_ring = make_tensor(make_smem_ptr(reinterpret_cast<Type*>(smem + K::kVOffset)), typename T::LayoutV{});
    Tensor q_operand = slice_qk.make_fragment_A(slice_qk.partition_A(q_ring));
    Tensor k_operand = slice_qk.make_fragment_B(slice_qk.partition_B(k_ring));
    Tensor v_operand = slice_pv.make_fragment_B(slice_pv.partition_B(v_ring));
    Tensor s = partition_fragment_C(mma_qk, Shape<typename T::TileQ, typename T::TileKV>{});
    Tensor p = make_tensor<Type>(typename T::LayoutP{});
    Tensor o = partition_fragment_C(mma_pv, Shape<typename T::TileQ, typename T::Dim>{});
    State softmax;
    float alpha[kRows] = {1.0f, 1.0f};

    auto const issue_qk = [&]() CUTLASS_LAMBDA_FUNC_INLINE {
      mma_qk.accumulate_ = GMMA::ScaleOut::Zero;
      Tensor q_stage = q_operand(_, _, _, q.stage);
      issue(mma_qk, q_stage, k_operand(_, _, _, k.stage), s);
    };
    auto const issue_pv = [&]() CUTLASS_LAMBDA_FUNC_INLINE {
      issue(mma_pv, p, v_operand(_, _, _, v.stage), o);
    };

    Tile tile(params.walk);
    // A tile's first scores: those of the last block of keys that this group's rows see something of. Blocks that
    // only other groups see are let go, turn by turn, or the groups would wait for each other.
    auto const first_scores = [&](bool in_turn) CUTLASS_LAMBDA_FUNC_INLINE {
      await(barriers.q_full, q);
      await(barriers.k_full, k);
      int unseen = unseen_blocks(tile);
      if (unseen > 0) {
        skip_turn(in_turn);
        release(barriers.k_empty, k);
        for (; unseen > 1; --unseen) {
          await(barriers.k_full, k);
          await(barriers.v_full, v);
          skip_turn(false);
          release(barriers.k_empty, k);
          release(barriers.v_empty, v);
        }
        await(barriers.k_full, k);
        await(barriers.v_full, v);
      }
      bool const behind = unseen > 0;
      await_turn();
      issue_qk();
      pass_turn();
      complete<0>(s);
      if (behind) {
        release(barriers.v_empty, v);
      }
    };

    first_scores(false);
    for (;;) {
      int const start = first_row(tile), whole = whole_blocks(start);

      // --- the last block of keys, the one that may be ragged
      int block = group_blocks(tile) - 1;
      release(barriers.k_empty, k);
      if (block >= whole) {
        mask(s, start, block);
      }
      softmax.template step<true, true>(s, params.scale_log2, alpha);
      if (K::kQStages > 1 && tile.round > 0) {
        release_stored(q.stage ^ 1);
      }
      round_pairs(s, p);

      // --- the others: S of this block, then O += P V of the block behind it
      mma_pv.accumulate_ = GMMA::ScaleOut::Zero;
      auto const next_block = [&](auto masked) CUTLASS_LAMBDA_FUNC_INLINE {
        constexpr bool kMasked = decltype(masked)::value;
        if constexpr (K::kOverlap) {
          await(barriers.k_full, k);
          await_turn();
          issue_qk();
          await(barriers.v_full, v);
          issue_pv();
          pass_turn();
          complete<1>(s);
          release(barriers.k_empty, k);
        } else {
          await(barriers.v_full, v);
          await_turn();
          issue_pv();
          await(barriers.k_full, k);
          issue_qk();
          pass_turn();
          complete<0>(o);
          complete<0>(s);
          release(barriers.v_empty, v);
          release(barriers.k_empty, k);
        }
        if constexpr (kMasked) {
          mask(s, start, block);
        }
        bool const grown = softmax.template step<false, kMasked>(s, params.scale_log2, alpha);
        if constexpr (K::kOverlap) {
          complete<0>(o);
          release(barriers.v_empty, v);
        }
        if (grown) {
          scale_rows(o, alpha);
        }
        round_pairs(s, p);
      };
      for (--block; block >= whole; --block) {
        next_block(true_type{});
      }
      for (; block >= 0; --block) {
        next_block(false_type{});
      }

      // --- the last product, and the next tile's first. No WGMMA may be in flight at the loop's end: the
      // compiler would move accumulators there, and serialise all of them for it (ptxas C7515).
      Tile const done = tile;
      int const stage = q.stage;
      bool const more = tile.advance(params.walk);
      q.advance();
      await(barriers.v_full, v);
      if (K::kQStages > 1 && more && unseen_blocks(tile) == 0) {
        await(barriers.q_full, q);
        await(barriers.k_full, k);
        await_turn();
        issue_pv();
        issue_qk();
        pass_turn();
        complete<1>(o);
        release(barriers.v_empty, v);
        store(o, softmax, done, stage);
        complete<0>(s);
        continue;
      }
      await_turn();
      issue_pv();
      pass_turn();
      complete<0>(o);
      release(barriers.v_empty, v);
      store(o, softmax, done, stage);
      if (!more) {
        await_stored();
        break;
      }
      if (K::kQStages == 1) {
        release_stored(stage);
      }
      first_scores(K::kQStages > 1);
    }
  }

 private:
  static constexpr bool takes_turns() { return K::kPingpong && K::kGroups > 1; }
  __device__ __forceinline__ void await_turn() const {
    if constexpr (takes_turns()) {
      sync_threads(2 * kGroupThreads, kTurn + group);
    }
  }
  __device__ __forceinline__ void pass_turn() const {
    if constexpr (takes_turns()) {
      int const next = group + 1 == K::kGroups ? 0 : group + 1;
      signal_threads(2 * kGroupThreads, kTurn + next);
    }
  }
  // Lets a turn pass, unless that has been done. All warps of the group are here afterwards: a stage that none of its
  // products reads may be let go only then, or a warp that comes late waits for a phase that is long past.
  __device__ __forceinline__ void skip_turn(bool skipped) const {
    if (takes_turns() && !skipped) {
      await_turn();
      pass_turn();
    } else {
      sync_threads(kGroupThreads, kStore + group);
    }
  }

  template <int kStages>
  static __device__ __forceinline__ void await(uint64_t (&full)[kStages], Position<kStages> const& at) {
    Barrier::wait(&full[at.stage], at.phase);
  }
  // This group has read a stage.
  template <int kStages>
  static __device__ __forceinline__ void release(uint64_t (&empty)[kStages], Position<kStages>& at) {
    if (threadIdx.x % kGroupThreads == 0) {
      Barrier::arrive(&empty[at.stage]);
    }
    at.advance();
  }

  __device__ __forceinline__ int first_row(Tile const& tile) const {
    return tile.row * K::kTileQ + group * kGroupRows;
  }
  // Blocks of keys that this group's rows see something of, and those that only a later group's rows do.
  __device__ __forceinline__ int group_blocks(Tile const& tile) const {
    return key_blocks<K>(params, min(first_row(tile) + kGroupRows, params.seqlen_q));
  }
  __device__ __forceinline__ int unseen_blocks(Tile const& tile) const {
    return K::kCausal ? tile_blocks<K>(params, tile.row) - group_blocks(tile) : 0;
  }
  // Blocks that all rows of this warp group, from `start`, see as a whole: they need no mask.
  __device__ __forceinline__ int whole_blocks(int start) const {
    int const seen = K::kCausal ? start + 1 + params.diagonal : params.seqlen_kv;
    return max(0, min(seen, params.seqlen_kv)) / K::kTileKV;
  }

  // Scores beyond the diagonal or behind the last key count as -inf. `start`: the group's first row.
  template <class Scores>
  __device__ __forceinline__ void mask(Scores& s, int start, int block) const {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int limit[kRows];
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      int last = params.seqlen_kv - 1;
      if (K::kCausal) {
        last = min(last, start + 16 * warp + lane / 4 + 8 * r + params.diagonal);
      }
      limit[r] = last - block * K::kTileKV - 2 * (lane % 4);
    }
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < size(s); ++i) {
      s(i) = column_of(i) > limit[row_of(i)] ? -INFINITY : s(i);
    }
  }

  // O, an average now, on its way through this group's rows of the tile's stage of Q; TMA drops rows behind the
  // last. The log-sum-exp goes straight to memory.
  template <class O>
  __device__ __forceinline__ void store(O& o, State& softmax, Tile const& tile, int stage) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const start = first_row(tile);
    float factor[kRows], lse[kRows];
    softmax.finish(params.scale, factor, lse);
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      int const row = start + 16 * warp + lane / 4 + 8 * r;
      if (lane % 4 == 0 && row < params.seqlen_q) {
        params.lse[static_cast<int64_t>(tile.head) * params.seqlen_q + row] = lse[r];
      }
    }
    scale_rows(o, factor);
    Tensor rounded = make_tensor_like<Type>(o);
    round_pairs(o, rounded);

    Tensor q_ring = make_tensor(make_smem_ptr(reinterpret_cast<Type*>(smem)), typename T::LayoutQ{});
    auto const copy_o = make_tiled_copy_C(Copy_Atom<SM90_U32x4_STSM_N, Type>{}, typename T::MmaPV{});
    auto const slice = copy_o.get_slice(thread);
    copy(copy_o, slice.retile_S(rounded), slice.partition_D(q_ring(_, _, stage)));
    tma_store_fence();
    sync_threads(kGroupThreads, kStore + group);
    if (threadIdx.x % kGroupThreads == 0) {
      int const batch = tile.head / params.heads_q, head = tile.head - batch * params.heads_q;
      CUTLASS_PRAGMA_UNROLL
      for (int c = 0; c < K::kChunks; ++c) {
        int const offset = (c * K::kTileQ + group * kGroupRows) * K::kChunk * kElementBytes;
        SM90_TMA_STORE_5D::copy(&params.o, smem + stage * K::kQBytes + offset, 0, start, c, head, batch);
      }
      tma_store_arrive();
    }
  }

  // Shared memory must not be given up, nor written again, before O has left it.
  __device__ __forceinline__ void await_stored() const {
    if (threadIdx.x % kGroupThreads == 0) {
      tma_store_wait<0>();
    }
  }
  __device__ __forceinline__ void release_stored(int stage) const {
    await_stored();
    if (threadIdx.x % kGroupThreads == 0) {
      Barrier::arrive(&barriers.q_empty[stage]);
    }
  }
};

}  // namespace cutlass_tuner::flash
