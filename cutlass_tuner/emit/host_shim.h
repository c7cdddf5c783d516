// Lets plain g++ compile CUTLASS 3.x kernel *types* (never a kernel body), in a sixth of nvcc's time.
// CUTLASS's device functions are templates or inline: they must parse, and are never called here, so
// every device name they mention gets a dummy. Include this before anything of CUTLASS.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

static constexpr uint3 threadIdx{0, 0, 0}, blockIdx{0, 0, 0};
static constexpr dim3 blockDim{1, 1, 1}, gridDim{1, 1, 1};
inline void __syncthreads() {}
inline void __syncwarp(unsigned = ~0u) {}
namespace cutlass::arch {
inline int SmId() { return 0; }
}  // namespace cutlass::arch

// wmma.h needs nvcuda::wmma, which only nvcc has, as soon as it sees a CUDA version: it goes first.
#include "cutlass/arch/wmma.h"
#define __CUDACC_VER_MAJOR__ (CUDA_VERSION / 1000)
#define __CUDACC_VER_MINOR__ (CUDA_VERSION % 1000 / 10)
