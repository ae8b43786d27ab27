// Calls of operators on tensors of the program under construction.
#pragma once
#include <memory>

#include "oneflow/core/framework/op_builder.h"
#include "oneflow/core/framework/tensor.h"

namespace oneflow {
namespace one {

namespace detail {

/// The results of an operator; an error if the operator does not allow the call.
Maybe<TensorTuple> Dispatch(const OpExpr &op, const TensorTuple &inputs, const AttrMap &attrs);

template <typename T>
struct ResultAs;

template <>
struct ResultAs<TensorTuple> {
  static Maybe<TensorTuple> Get(const Maybe<TensorTuple> &results) { return results; }
};

template <>
struct ResultAs<void> {
  static Maybe<void> Get(const Maybe<TensorTuple> &results) {
    JUST(results);
    return Maybe<void>::Ok();
  }
};

template <>
struct ResultAs<Tensor> {
  static Maybe<Tensor> Get(const Maybe<TensorTuple> &results) {
    const std::shared_ptr<TensorTuple> tensors = JUST(results);
    if (tensors->size() != 1) return Error() << "expected one result, got " << tensors->size();
    return tensors->front();
  }
};

}  // namespace detail

class OpInterpUtil final {
 public:
  /// The result of `op` on tensors in the order of the Input calls; T is Tensor, or TensorTuple for several results.
  template <typename T>
  static Maybe<T> Dispatch(const OpExpr &op, const TensorTuple &inputs, const AttrMap &attrs = AttrMap()) {
    return detail::ResultAs<T>::Get(detail::Dispatch(op, inputs, attrs));
  }
};

}  // namespace one
}  // namespace oneflow
