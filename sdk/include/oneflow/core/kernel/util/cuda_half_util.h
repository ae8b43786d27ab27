// Half-precision numbers in CUDA kernels, defined only by CUDA compilers.
#pragma once
#ifdef __CUDACC__
#include <cuda_fp16.h>

#include <cassert>
#include <cstdio>
#include <cstring>

#include "oneflow/core/common/float16.h"
#include "oneflow/core/device/cuda_util.h"

namespace oneflow {

#define HALF_CHECK_FAILED                                             \
  printf("half operations are only supported when CUDA_ARCH >= 530"); \
  assert(false)

__inline__ __device__ half hone() { return __float2half(1.0f); }
__inline__ __device__ half hzero() { return __float2half(0.0f); }

/// The same bits.
inline half float16_2half(float16 x) {
  half made;
  static_assert(sizeof(made) == sizeof(x.bits), "both have 16 bits");
  std::memcpy(&made, &x.bits, sizeof(made));
  return made;
}
inline float16 half2float16(half x) {
  float16 made;
  std::memcpy(&made.bits, &x, sizeof(made.bits));
  return made;
}

}  // namespace oneflow
#endif  // __CUDACC__
