// A functor that calls an operator on one tensor.
#pragma once
#include <memory>

#include "oneflow/core/framework/op_expr.h"
#include "oneflow/core/framework/op_interpreter/op_interpreter_util.h"

namespace oneflow {
namespace one {
namespace functional {
namespace impl {

/// Derived classes set `op_`.
class UnaryFunctor {
 public:
  Maybe<Tensor> operator()(const std::shared_ptr<one::Tensor> &x) const {
    return OpInterpUtil::Dispatch<Tensor>(*op_, {x});
  }

 protected:
  UnaryFunctor() = default;
  ~UnaryFunctor() = default;

  std::shared_ptr<OpExpr> op_;
};

}  // namespace impl
}  // namespace functional
}  // namespace one
}  // namespace oneflow
