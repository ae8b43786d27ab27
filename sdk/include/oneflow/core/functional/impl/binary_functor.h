// A functor that calls an operator on two tensors, whose types the operator checks.
#pragma once
#include <memory>

#include "oneflow/core/framework/op_expr.h"
#include "oneflow/core/framework/op_interpreter/op_interpreter_util.h"

namespace oneflow {
namespace one {
namespace functional {
namespace impl {

/// Derived classes set `op_`.
class BinaryFunctor {
 public:
  Maybe<Tensor> operator()(const std::shared_ptr<one::Tensor> &x, const std::shared_ptr<one::Tensor> &y) const {
    return OpInterpUtil::Dispatch<Tensor>(*op_, {x, y});
  }

 protected:
  BinaryFunctor() = default;
  ~BinaryFunctor() = default;

  std::shared_ptr<OpExpr> op_;
};

}  // namespace impl
}  // namespace functional
}  // namespace one
}  // namespace oneflow
