// Macros and aliases of kernels and registrations.
#pragma once
#include <cstdint>

namespace oneflow {

/// The device type of a kernel. kGPU is the older name of kCUDA.
enum DeviceType { kInvalidDevice = 0, kCPU = 1, kCUDA = 2, kGPU = 2 };

/// The name of a device type: "cpu" or "cuda".
inline const char *DeviceTag(DeviceType device) {
  return device == kCPU ? "cpu" : device == kCUDA ? "cuda" : "invalid";
}

}  // namespace oneflow

#define FOR_RANGE(type, i, begin, end) for (type i = (begin), oneflow_end_##i = (end); i < oneflow_end_##i; ++i)

// A function for the host and, with a CUDA compiler, for devices.
#ifdef __CUDACC__
#define OF_DEVICE_FUNC __device__ __host__ __forceinline__
#else
#define OF_DEVICE_FUNC inline
#endif

#define OF_DISALLOW_COPY(T) \
  T(const T &) = delete;    \
  T &operator=(const T &) = delete
#define OF_DISALLOW_MOVE(T) \
  T(T &&) = delete;         \
  T &operator=(T &&) = delete
#define OF_DISALLOW_COPY_AND_MOVE(T) \
  OF_DISALLOW_COPY(T);               \
  OF_DISALLOW_MOVE(T)

#define OF_PP_CAT_(a, b) a##b
#define OF_PP_CAT(a, b) OF_PP_CAT_(a, b)
#define OF_PP_STRINGIZE_(x) #x
#define OF_PP_STRINGIZE(x) OF_PP_STRINGIZE_(x)
