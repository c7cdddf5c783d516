// The host library of one kernel of this folder, named by -DKERNEL: the tuner's ABI in plain C++. One CTA
// a tile and split; -DSPLITS=n deals K out to n CTAs, which share an fp32 tile and a counter that must be
// zero at the start.
#include <cstdint>
#include <new>

#include "abi.h"
#include "params.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#ifndef SPLITS
#define SPLITS 1
#endif

namespace {

constexpr int32_t kFine = 0, kRefused = 1, kUnknown = -1;

int extent(ct_call const* call, int i) { return static_cast<int>(call->dims[i]); }

int tiles(ct_call const* call) { return extent(call, 0) / kTile * (extent(call, 1) / kTile); }

// Whole tiles only, and whole tiles of K for every split.
bool can_implement(ct_call const* call) {
  bool const whole = extent(call, 0) % kTile == 0 && extent(call, 1) % kTile == 0;
  return whole && extent(call, 2) % (kTile * SPLITS) == 0 && extent(call, 3) == 1;
}

int64_t workspace_bytes(ct_call const* call) {
  int64_t const sums = int64_t(extent(call, 0)) * extent(call, 1) * sizeof(float);
  return SPLITS > 1 ? sums + tiles(call) * int64_t(sizeof(uint32_t)) : 0;
}

}  // namespace

int32_t ct_abi_version() { return CT_ABI_VERSION; }
int32_t ct_kernel_count() { return 1; }
char const* ct_kernel_symbol(int32_t kernel) { return kernel == 0 ? TEXT(KERNEL) : ""; }

int32_t ct_describe(int32_t kernel, ct_description* out) {
  if (kernel != 0) { return kUnknown; }
  *out = {sizeof(Params), alignof(Params), kTile * kTile, 0, 1, {kTile, kTile, kTile}, {1, 1, 1}};
  return kFine;
}

int32_t ct_make_plan(int32_t kernel, ct_call const* call, ct_plan* out) {
  if (kernel != 0) { return kUnknown; }
  if (!can_implement(call)) { return kRefused; }
  int64_t const bytes = workspace_bytes(call);
  *out = {{tiles(call), 1, SPLITS}, -1, -1, SPLITS > 1 ? SPLITS : -1, bytes, 0, bytes};
  return kFine;
}

int32_t ct_fill_params(int32_t kernel, ct_call const* call, void* params) {
  if (kernel != 0) { return kUnknown; }
  if (!can_implement(call)) { return kRefused; }
  auto const pointer = [&](uint64_t address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); };
  ::new (params) Params{pointer(call->pointers[0]), pointer(call->pointers[1]), pointer(call->pointers[2]),
                        pointer(call->workspace),   extent(call, 0),            extent(call, 1),
                        extent(call, 2),            SPLITS,                     call->scalars[0]};
  return kFine;
}
