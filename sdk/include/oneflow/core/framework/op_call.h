// One call of an operator, and the common part of all contexts.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "oneflow/core/common/util.h"
#include "oneflow/core/framework/nd_sbp.h"
#include "oneflow/core/framework/op_definition.h"
#include "oneflow/core/framework/tensor_desc.h"

namespace oneflow {

/// The part of the work that this process does, which is always the whole work.
class ParallelContext final {
 public:
  int64_t parallel_id() const { return 0; }
  int64_t parallel_num() const { return 1; }
};

/// The devices of the work, always one device.
class ParallelDesc final {
 public:
  explicit ParallelDesc(DeviceType device) : device_(device), hierarchy_(std::make_shared<Shape>(DimVector{1})) {}
  int64_t parallel_num() const { return 1; }
  DeviceType device_type() const { return device_; }
  std::string device_tag() const { return DeviceTag(device_); }
  const std::shared_ptr<Shape> &hierarchy() const { return hierarchy_; }

 private:
  DeviceType device_;
  std::shared_ptr<Shape> hierarchy_;
};

/// The program of a call; the class has no information about the program.
class JobDesc final {
 public:
  std::string job_name() const { return ""; }
};

namespace user_op {

using ArgVec = std::vector<std::pair<std::string, int32_t>>;

/// A call: the operation, the device, and descriptions of tensors by (name, index).
struct OpCall {
  const OpSignature *signature = nullptr;
  std::shared_ptr<const OpConf> conf;
  DeviceType device = kCPU;
  ArgVec inputs;
  ArgVec outputs;
  std::map<std::pair<std::string, int32_t>, TensorDesc> descs;

  /// A tensor's description; null for a missing optional operand or result.
  TensorDesc *Find(const std::string &name, int32_t index);
  /// A tensor's description; an error for a missing tensor.
  TensorDesc *Get(const std::string &name, int32_t index);
};

/// The common part of all contexts: the call.
class OpContext {
 public:
  explicit OpContext(OpCall *call) : call_(call), conf_(call->conf) {}

  const ArgVec &inputs() const { return call_->inputs; }
  const ArgVec &outputs() const { return call_->outputs; }
  const std::string &input(const std::string &name, int32_t index) const { return conf_.input(name, index); }
  const std::string &output(const std::string &name, int32_t index) const { return conf_.output(name, index); }
  bool has_input(const std::string &name, int32_t index) const { return conf_.has_input(name, index); }
  bool has_output(const std::string &name, int32_t index) const { return conf_.has_output(name, index); }
  int32_t input_size(const std::string &name) const { return conf_.input_size(name); }
  int32_t output_size(const std::string &name) const { return conf_.output_size(name); }
  const std::string &op_name() const { return conf_.op_name(); }
  const std::string &op_type_name() const { return conf_.op_type_name(); }
  const std::string &op_loc() const { return call_->signature->where; }
  DeviceType device_type() const { return call_->device; }
  const ParallelContext &parallel_ctx() const { return parallel_; }
  int64_t parallel_num() const { return parallel_.parallel_num(); }
  ParallelDesc parallel_desc() const { return ParallelDesc(device_type()); }
  JobDesc job_desc() const { return JobDesc(); }
  /// The SBP of a tensor: one device has the full tensor.
  SbpParallel SbpParallel4ArgNameAndIndex(const std::string &name, int32_t index) const {
    call_->Get(name, index);
    return SbpParallel();
  }
  NdSbp NdSbp4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return NdSbp({SbpParallel4ArgNameAndIndex(name, index)});
  }
  const UserOpConfWrapper &user_op_conf() const { return conf_; }
  const OpConf &op_conf() const { return conf_.op_conf(); }

  /// The value of an attribute; T has to be the type of the attribute.
  template <typename T>
  T Attr(const std::string &name) const {
    return conf_.attr<T>(name);
  }
  template <typename T>
  T GetAttr(const std::string &name) const {
    return Attr<T>(name);
  }
  template <typename T>
  T attr(const std::string &name) const {
    return Attr<T>(name);
  }

 protected:
  OpCall *call() const { return call_; }

 private:
  OpCall *call_;
  UserOpConfWrapper conf_;
  ParallelContext parallel_;
};

}  // namespace user_op
}  // namespace oneflow
