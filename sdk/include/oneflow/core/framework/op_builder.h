// Operators that functors call: `OpBuilder("leaky_relu").Input("x").Output("y").Build()`.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "oneflow/core/framework/attr_map.h"

namespace oneflow {
namespace one {

/// An operator with values for some attributes.
class OpExpr {
 public:
  virtual ~OpExpr();
  virtual const std::string &op_type_name() const = 0;
};

/// A call of a registered operator: the given operands, in order, and the number of tensors of each (0: optional).
class UserOpExpr final : public OpExpr {
 public:
  using Args = std::vector<std::pair<std::string, int32_t>>;
  UserOpExpr(user_op::OpConf conf, Args inputs) : conf_(std::move(conf)), inputs_(std::move(inputs)) {}

  const std::string &op_type_name() const override { return conf_.op_type_name; }
  const std::string &op_name() const { return conf_.op_name; }
  const user_op::OpConf &proto() const { return conf_; }
  const Args &inputs() const { return inputs_; }

 private:
  user_op::OpConf conf_;
  Args inputs_;
};

/// Makes an OpExpr.
class OpBuilder final {
 public:
  explicit OpBuilder(const std::string &op_type_name) : OpBuilder(op_type_name, op_type_name) {}
  OpBuilder(const std::string &op_type_name, const std::string &op_name) {
    conf_.op_type_name = op_type_name;
    conf_.op_name = op_name;
  }

  OpBuilder &Input(const std::string &name, int32_t size = 1) {
    inputs_.emplace_back(name, size);
    return *this;
  }
  OpBuilder &Output(const std::string &name, int32_t size = 1) {
    conf_.outputs[name].resize(static_cast<size_t>(size));
    return *this;
  }
  template <typename T>
  OpBuilder &Attr(const std::string &name, const T &value) {
    conf_.attrs[name] = AttrTraits<T>::Pack(value);
    return *this;
  }
  Maybe<UserOpExpr> Build() const { return std::make_shared<UserOpExpr>(conf_, inputs_); }

 private:
  user_op::OpConf conf_;
  UserOpExpr::Args inputs_;
};

}  // namespace one
}  // namespace oneflow
