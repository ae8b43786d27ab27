// Contexts of functions that this SDK does not support. Registrations of such functions compile, and are refused with
// advice when the library is loaded; the functions are never called.
#pragma once
#include <cstdint>
#include <string>

#include "oneflow/core/framework/device.h"
#include "oneflow/core/framework/op_call.h"

namespace oneflow {

/// A message of OneFlow's, which the SDK declares only.
class OperatorConf;

namespace user_op {

class InferOutputBlobTimeShapeFnContext : public OpContext {
 public:
  using OpContext::OpContext;
  const Shape &TimeShape4InputArgNameAndIndex(const std::string &, int32_t) {
    throw CheckError("tensors are not repeated in time");
  }
  Shape *mut_output_blob_time_shape() { throw CheckError("tensors are not repeated in time"); }
};

class DeviceAndStreamInferContext : public OpContext {
 public:
  using OpContext::OpContext;
  Symbol<Device> InputTensorDevice4ArgNameAndIndex(const std::string &, int64_t) const {
    throw CheckError("devices are not chosen by operators");
  }
  Symbol<Device> *OutputTensorDevice4ArgNameAndIndex(const std::string &, int64_t) {
    throw CheckError("devices are not chosen by operators");
  }
};
using DeviceInferContext = DeviceAndStreamInferContext;

}  // namespace user_op
}  // namespace oneflow
