// A CPU in place of one SM: the threads of a CTA as fibers, the barriers they wait on, TMA and WGMMA.
//
// Of each warp group a few threads run. Which goes on, and when a transfer arrives, is the schedule's choice, so
// that many orders are tried; a CTA none of whose threads can go on is a deadlock. What hardware does at a time of
// its own is done as late as the program allows: products when they are waited for, stores to memory when their
// shared memory must be free. Then whatever is overwritten too early, or read too early, gives wrong numbers.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

struct Dim3 {
  unsigned x;
};
inline Dim3 threadIdx, blockIdx, gridDim;

namespace machine {

constexpr int kGroup = 128;

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require(bool holds, char const* what) {
  if (!holds) {
    throw Fault(what);
  }
}

// What the hardware knows of an mbarrier: arrivals and bytes to come, and how many phases are complete.
struct MBarrier {
  uint8_t count, pending;
  uint16_t completed;
  int32_t bytes;

  void settle() {
    if (pending == 0 && bytes == 0) {
      ++completed;
      pending = count;
    }
  }
};
static_assert(sizeof(MBarrier) == sizeof(uint64_t));
inline MBarrier& state(uint64_t* barrier) { return *reinterpret_cast<MBarrier*>(barrier); }

// bar.sync and bar.arrive of one number.
struct NamedBarrier {
  unsigned expected = 0, arrived = 0, synced = 0, generation = 0;
};

struct Fiber {
  unsigned thread;
  ucontext_t context{};
  std::unique_ptr<char[]> stack{};
  std::function<bool()> ready{[] { return true; }};
  char const* waits_for = "its start";
  bool done = false;
  // WGMMA groups: issued and not yet waited for, and how many were ever issued.
  std::vector<std::function<void()>> open{};
  std::deque<std::function<void()>> flight{};
  int issued = 0, finished = 0;
  // Stores to memory whose shared memory is not yet read, and how many of them are committed.
  std::vector<std::function<void()>> stores{};
  std::size_t committed = 0;
  int tiles_stored = 0;

  unsigned group() const { return thread / kGroup; }
};

class Machine {
 public:
  // `threads` run `body`, each standing for an equal part of its warp group's. `schedule`: who goes on.
  Machine(std::vector<unsigned> const& threads, int of_group, std::function<void()> body, unsigned schedule)
      : weight_(kGroup / of_group), body_(std::move(body)), random_(schedule), schedule_(schedule) {
    for (unsigned thread : threads) {
      fibers_.emplace_back(new Fiber{thread});
    }
  }

  // Until every thread has ended. What went wrong, or nothing.
  std::string run() {
    now_ = this;
    for (auto& fiber : fibers_) {
      start(*fiber);
    }
    while (fault_.empty() && step()) {
    }
    return fault_;
  }

  static Machine& now() { return *now_; }
  Fiber& self() { return *current_; }

  // --- threads

  void until(char const* what, std::function<bool()> ready) {
    current_->ready = std::move(ready);
    current_->waits_for = what;
    swapcontext(&current_->context, &scheduler_);
  }
  void yield() {
    until("its turn to run", [] { return true; });
  }
  template <class Do>
  void of_group(unsigned group, Do&& visit) {
    for (auto& fiber : fibers_) {
      if (fiber->group() == group) {
        visit(*fiber);
      }
    }
  }
  // Which of its warp group's threads that run `fiber` is.
  int ordinal(Fiber const& fiber) {
    int before = 0;
    of_group(fiber.group(), [&](Fiber& one) { before += one.thread < fiber.thread; });
    return before;
  }

  // --- barriers

  void sync(unsigned threads, unsigned number) {
    NamedBarrier& barrier = named_[number];
    ++barrier.synced;
    unsigned const generation = barrier.generation;
    signal(threads, number);
    until("a named barrier", [&barrier, generation] { return barrier.generation != generation; });
  }
  void signal(unsigned threads, unsigned number) {
    NamedBarrier& barrier = named_[number];
    require(barrier.arrived == 0 || barrier.expected == threads, "a barrier is used with two counts");
    barrier.expected = threads;
    barrier.arrived += weight_;
    if (barrier.arrived >= threads) {
      require(barrier.arrived == threads, "more threads at a barrier than it counts");
      require(barrier.synced > 0, "a barrier opened with nobody waiting: a turn was passed twice");
      barrier = {0, 0, 0, barrier.generation + 1};
    }
  }
  void sync_all() {
    NamedBarrier& barrier = named_[0];
    unsigned const generation = barrier.generation;
    if (++barrier.arrived == fibers_.size()) {
      barrier = {0, 0, 0, generation + 1};
    }
    until("__syncthreads", [&barrier, generation] { return barrier.generation != generation; });
  }

  // --- what hardware does by itself

  void transfer(std::function<void()> arrives) { transfers_.push_back(std::move(arrives)); }

  // Until all but the newest `pending` groups of products are done. A warp group's threads do them together: once
  // they are done for one, they are for all.
  void complete(int pending) {
    Fiber& fiber = *current_;
    while (static_cast<int>(fiber.flight.size()) > pending) {
      int const wanted = fiber.finished + 1;
      until("the rest of its warp group to issue a product", [this, &fiber, wanted] {
        bool all = true;
        of_group(fiber.group(), [&](Fiber& one) { all &= one.issued >= wanted; });
        return all;
      });
      of_group(fiber.group(), [wanted](Fiber& one) {
        if (wanted > one.finished) {
          auto& products = one.flight[wanted - 1 - one.finished];
          products();
          products = [] {};
        }
      });
      fiber.flight.pop_front();
      ++fiber.finished;
    }
  }

  // Until the committed stores have read their shared memory.
  void finish_stores(Fiber& fiber) {
    for (std::size_t i = 0; i < fiber.committed; ++i) {
      fiber.stores[i]();
    }
    fiber.stores.erase(fiber.stores.begin(), fiber.stores.begin() + fiber.committed);
    fiber.committed = 0;
  }

 private:
  static constexpr std::size_t kStack = 256 << 10;

  void start(Fiber& fiber) {
    fiber.stack.reset(new char[kStack]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, &Machine::enter, 0);
  }

  static void enter() {
    Machine& machine = now();
    Fiber& fiber = machine.self();
    try {
      machine.body_();
      require(fiber.stores.empty(), "a CTA ends before its shared memory is stored");
    } catch (Fault const& fault) {
      machine.fault_ = fault.what();
    }
    fiber.done = true;
  }

  // Lets one thread or one transfer go on. False when all have ended.
  bool step() {
    std::vector<int> able;  // threads, then transfers
    int living = 0;
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      living += !fibers_[i]->done;
      if (!fibers_[i]->done && fibers_[i]->ready()) {
        able.push_back(static_cast<int>(i));
      }
    }
    int const count = static_cast<int>(fibers_.size());
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      able.push_back(count + static_cast<int>(i));
    }
    if (able.empty()) {
      fault_ = living > 0 ? deadlock() : "";
      return false;
    }
    int const next = chosen(able);
    if (next >= count) {
      auto const arrives = transfers_[next - count];
      transfers_.erase(transfers_.begin() + (next - count));
      arrives();
      return true;
    }
    current_ = fibers_[next].get();
    threadIdx.x = current_->thread;
    swapcontext(&scheduler_, &current_->context);
    return true;
  }

  // By turns of the seed: any; the first (so leaders run ahead of their group); the last; any but one, which
  // runs only when nothing else can.
  int chosen(std::vector<int>& able) {
    auto const any = [&](std::vector<int> const& of) { return of[random_() % of.size()]; };
    switch (schedule_ % 4) {
      case 0: return any(able);
      case 1: return able.front();
      case 2: return able.back();
      default: break;
    }
    int const starved = static_cast<int>(schedule_ / 4 % fibers_.size());
    std::vector<int> others;
    for (int one : able) {
      if (one != starved) {
        others.push_back(one);
      }
    }
    return any(others.empty() ? able : others);
  }

  std::string deadlock() const {
    std::string told = "deadlock:";
    for (auto const& fiber : fibers_) {
      if (!fiber->done) {
        told += " thread " + std::to_string(fiber->thread) + " waits for " + fiber->waits_for + ";";
      }
    }
    return told;
  }

  inline static Machine* now_ = nullptr;
  unsigned weight_;
  std::function<void()> body_;
  std::mt19937 random_;
  unsigned schedule_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::function<void()>> transfers_;
  NamedBarrier named_[16];
  ucontext_t scheduler_{};
  Fiber* current_ = nullptr;
  std::string fault_;
};

}  // namespace machine
