// Gradients as functions over tensors: OpExprGradFunction and REGISTER_OP_EXPR_GRAD_FUNCTION.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oneflow/core/framework/op_interpreter/op_interpreter_util.h"
#include "oneflow/core/framework/registration.h"

namespace oneflow {
namespace one {

/// The values that Capture saves for Apply; derived classes save more.
class AutoGradCaptureState {
 public:
  virtual ~AutoGradCaptureState();

  /// Saves a tensor; returns the index of the tensor in SavedTensors.
  size_t SaveTensorForBackward(const std::shared_ptr<Tensor> &tensor) {
    saved_.push_back(tensor);
    return saved_.size() - 1;
  }
  const TensorTuple &SavedTensors() const { return saved_; }

  std::vector<bool> input_requires_grad;

 private:
  TensorTuple saved_;
};

/// A gradient of any state.
class OpExprGradFunctionIf {
 public:
  virtual ~OpExprGradFunctionIf();
  virtual Maybe<void> Init(const OpExpr &op) = 0;
  /// The gradients of `inputs`, null for an input without gradient.
  virtual Maybe<void> Differentiate(const TensorTuple &inputs, const TensorTuple &outputs, const AttrMap &attrs,
                                    const TensorTuple &out_grads, TensorTuple *in_grads) const = 0;
};

/// The arguments of a forward call.
struct OpExprInterpContext {
  AttrMap attrs;
};

/// The gradient of an operator. One form of Capture is overridden and saves the values of the forward call that Apply
/// needs; Apply computes the gradients of inputs.
template <typename StateT>
class OpExprGradFunction : public OpExprGradFunctionIf {
 public:
  Maybe<void> Init(const OpExpr &op) override = 0;
  virtual Maybe<void> Capture(StateT *, const TensorTuple &, const TensorTuple &, const AttrMap &) const {
    return Error("the class overrides no form of Capture");
  }
  virtual Maybe<void> Capture(StateT *state, const TensorTuple &inputs, const TensorTuple &outputs,
                              const OpExprInterpContext &ctx) const {
    return Capture(state, inputs, outputs, ctx.attrs);
  }
  virtual Maybe<void> Apply(const StateT *state, const TensorTuple &out_grads, TensorTuple *in_grads) const = 0;

  Maybe<void> Differentiate(const TensorTuple &inputs, const TensorTuple &outputs, const AttrMap &attrs,
                            const TensorTuple &out_grads, TensorTuple *in_grads) const final {
    StateT state;
    for (const auto &input : inputs) state.input_requires_grad.push_back(input && input->requires_grad());
    JUST(Capture(&state, inputs, outputs, OpExprInterpContext{attrs}));
    return Apply(&state, out_grads, in_grads);
  }
};

/// Registers the class of an operator's gradient.
class GradFunctionRegistration final {
 public:
  using Create = std::function<std::shared_ptr<OpExprGradFunctionIf>()>;
  GradFunctionRegistration(const std::string &op, const Create &create, const char *file, int line);
};

}  // namespace one
}  // namespace oneflow

#define REGISTER_OP_EXPR_GRAD_FUNCTION(op, Class)                                                       \
  static const ::oneflow::one::GradFunctionRegistration OF_PP_CAT(oneflow_grad_function_, __COUNTER__)( \
      op, [] { return std::make_shared<Class>(); }, __FILE__, __LINE__)
