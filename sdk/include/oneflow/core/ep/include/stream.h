// The device of a kernel and the stream of the device.
#pragma once
#include "oneflow/core/common/util.h"

struct CUstream_st;

namespace oneflow {

/// The device that a kernel runs on, and the stream of the device, which is null on the CPU.
class DeviceCtx {
 public:
  DeviceCtx(DeviceType device, CUstream_st *stream) : device_(device), stream_(stream) {}
  DeviceType device_type() const { return device_; }
  /// A cudaStream_t.
  CUstream_st *cuda_stream() const { return stream_; }
  template <typename T>
  T *As() {
    return static_cast<T *>(this);
  }

 private:
  DeviceType device_;
  CUstream_st *stream_;
};

namespace ep {
using Stream = DeviceCtx;
using CpuStream = DeviceCtx;
}  // namespace ep

}  // namespace oneflow
