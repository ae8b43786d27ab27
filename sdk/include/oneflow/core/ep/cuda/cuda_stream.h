// The stream of a CUDA device. Functions that launch kernels are defined only by CUDA compilers.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "oneflow/core/device/cuda_util.h"
#include "oneflow/core/ep/include/stream.h"

namespace oneflow {
namespace ep {

#ifdef __CUDACC__
/// The numbers of blocks and threads of a launch.
struct CudaLaunchConfig {
  dim3 grid_dim;
  dim3 block_dim;
  size_t shared_mem_size;
  CudaLaunchConfig() : shared_mem_size(0) {}
  CudaLaunchConfig(unsigned int grid_size, unsigned int block_size, size_t shared_mem_size)
      : grid_dim(grid_size), block_dim(block_size), shared_mem_size(shared_mem_size) {}
};
#endif

/// The class of every stream that a kernel gets; the handle is null on the CPU.
class CudaStream final : public Stream {
 public:
  using Stream::Stream;
  static constexpr uint32_t kDefaultBlockSize = 256;

#ifdef __CUDACC__
  /// The properties of the current device.
  const cudaDeviceProp &device_properties() const {
    static thread_local cudaDeviceProp properties;
    static thread_local int known = -1;
    int device = 0;
    OF_CUDA_CHECK(cudaGetDevice(&device));
    if (known != device) OF_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    known = device;
    return properties;
  }
  /// The architecture of the current device: 900 for sm_90.
  int cuda_arch() const { return device_properties().major * 100 + device_properties().minor * 10; }

  /// The number of blocks that cover the elements, at most `max_waves` times the number that the device runs at once.
  void InitLaunchConfigWithWaves(CudaLaunchConfig *config, size_t elem_cnt, size_t block_size, size_t max_waves) const {
    const cudaDeviceProp &device = device_properties();
    const size_t at_once = device.multiProcessorCount * (device.maxThreadsPerMultiProcessor / block_size);
    const size_t blocks = std::min((elem_cnt + block_size - 1) / block_size, at_once * max_waves);
    *config = CudaLaunchConfig(static_cast<unsigned int>(std::max<size_t>(blocks, 1)),
                               static_cast<unsigned int>(block_size), 0);
  }

  template <typename... Params, typename... Args>
  void LaunchKernel(void (*kernel)(Params...), const CudaLaunchConfig &config, Args... args) {
    kernel<<<config.grid_dim, config.block_dim, config.shared_mem_size, cuda_stream()>>>(args...);
  }
  template <typename... Params, typename... Args>
  void LaunchKernel(void (*kernel)(Params...), size_t elem_cnt, size_t max_waves, Args... args) {
    CudaLaunchConfig config;
    InitLaunchConfigWithWaves(&config, elem_cnt, kDefaultBlockSize, max_waves);
    LaunchKernel(kernel, config, args...);
  }
  template <typename... Params, typename... Args>
  void LaunchKernelDefaultWaves(void (*kernel)(Params...), size_t elem_cnt, Args... args) {
    LaunchKernel(kernel, elem_cnt, 32, args...);
  }
#endif
};

}  // namespace ep
}  // namespace oneflow
