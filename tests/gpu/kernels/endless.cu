// Spins for 25 seconds: a hang to whoever watches, but no reason to reset a GPU.
#include "product.cuh"

extern "C" __global__ void endless(Params const p) {
  constexpr unsigned long long kLong = 25ull * 1000 * 1000 * 1000;  // nanoseconds
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < kLong);
}
