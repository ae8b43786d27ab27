// Macros of CUDA kernels, defined only by CUDA compilers.
#pragma once
#ifdef __CUDACC__
#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "oneflow/core/common/maybe.h"

namespace oneflow {

constexpr int32_t kCudaThreadsNumPerBlock = 512;
constexpr int32_t kCudaMaxBlocksNum = 8192;

/// The number of blocks that cover `n` threads.
inline int32_t BlocksNum4ThreadsNum(int64_t n) {
  const int64_t blocks = (n + kCudaThreadsNumPerBlock - 1) / kCudaThreadsNumPerBlock;
  return static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(blocks, 1), kCudaMaxBlocksNum));
}
inline int32_t SMBlocksNum4ThreadsNum(int64_t n) { return BlocksNum4ThreadsNum(n); }

}  // namespace oneflow

#define CUDA_1D_KERNEL_LOOP_T(type, i, n)                                 \
  for (type i = static_cast<type>(blockIdx.x) * blockDim.x + threadIdx.x, \
            oneflow_step_##i = static_cast<type>(blockDim.x) * gridDim.x; \
       i < (n); i += oneflow_step_##i)
#define CUDA_1D_KERNEL_LOOP(i, n) CUDA_1D_KERNEL_LOOP_T(int64_t, i, n)

#define RUN_CUDA_KERNEL(func, device_ctx_ptr, thread_num, ...)                                 \
  func<<<::oneflow::SMBlocksNum4ThreadsNum(thread_num), ::oneflow::kCudaThreadsNumPerBlock, 0, \
         (device_ctx_ptr)->cuda_stream()>>>(__VA_ARGS__)

#define OF_CUDA_CHECK(call)                                                     \
  do {                                                                          \
    const cudaError_t oneflow_error_ = (call);                                  \
    CHECK(oneflow_error_ == cudaSuccess) << cudaGetErrorString(oneflow_error_); \
  } while (false)
#endif  // __CUDACC__
