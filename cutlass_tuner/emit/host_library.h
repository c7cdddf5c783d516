// One kernel in a host library: its symbol and the functions behind the C ABI (abi.h).
// A generated source defines `cutlass_tuner::kKernels`, then includes host_exports.h.
#pragma once

#include <cstdint>

// All else is hidden: weak symbols of templates must not be mixed up with another library's CUTLASS.
#pragma GCC visibility push(default)
#include "abi.h"
#pragma GCC visibility pop

namespace cutlass_tuner {

struct LibraryKernel {
  char const* symbol;
  void (*describe)(ct_description*);
  int32_t (*plan)(ct_call const&, ct_plan*);
  int32_t (*fill)(ct_call const&, void*);
};

// Below zero an answer means that no such kernel exists. kNoDescriptor: the driver refused to encode a
// TMA descriptor (a misaligned or null pointer, a stride it cannot take).
constexpr int32_t kFine = 0, kRefused = 1, kNoDescriptor = 2, kUnknown = -1;

}  // namespace cutlass_tuner
