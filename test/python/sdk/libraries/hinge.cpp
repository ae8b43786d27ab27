// Implements hinge.td, with kernels, functions over tensors and a gradient; test_declared_operator.py calls it.
#include "oneflow/core/framework/framework.h"
#include "oneflow/core/framework/mutable_attr_map.h"
#include "oneflow/core/framework/op_expr.h"
#include "oneflow/core/framework/op_expr_grad_function.h"
#include "oneflow/core/framework/op_generated.h"
#include "oneflow/core/functional/functional.h"

namespace oneflow {

/* static */ Maybe<void> FlowHingeOp::InferLogicalTensorDesc(user_op::InferContext *ctx) {
  ctx->SetOutputShape("y", 0, ctx->InputShape("x", 0));
  return Maybe<void>::Ok();
}
/* static */ Maybe<void> FlowHingeOp::InferPhysicalTensorDesc(user_op::InferContext *ctx) {
  return InferLogicalTensorDesc(ctx);
}
/* static */ Maybe<void> FlowHingeOp::InferDataType(user_op::InferContext *ctx) {
  ctx->SetOutputDType("y", 0, ctx->InputDType("x", 0));
  return Maybe<void>::Ok();
}
/* static */ Maybe<void> FlowHingeOp::GetSbp(user_op::SbpContext *ctx) {
  return user_op::GetSbpFnUtil::SplitForEachAxis(ctx);
}
/* static */ Maybe<void> FlowHingeGradOp::InferLogicalTensorDesc(user_op::InferContext *ctx) {
  return user_op::TensorDescInferFnUtil::Unchanged(ctx);
}
/* static */ Maybe<void> FlowHingeGradOp::InferDataType(user_op::InferContext *ctx) {
  return user_op::TensorDescInferFnUtil::UnchangedDataType(ctx);
}
/* static */ Maybe<void> FlowHingeGradOp::GetSbp(user_op::SbpContext *ctx) {
  return user_op::GetSbpFnUtil::SplitForEachAxis(ctx);
}

namespace {

template <typename T>
class HingeKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    T *y = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<T>();
    const T margin = static_cast<T>(ctx->Attr<float>("margin"));
    FOR_RANGE(int64_t, i, 0, x->shape_view().elem_cnt()) { y[i] = std::max(T(0), margin - x->dptr<T>()[i]); }
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

template <typename T>
class HingeGradKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    const T *dy = ctx->Tensor4ArgNameAndIndex("dy", 0)->dptr<T>();
    T *dx = ctx->Tensor4ArgNameAndIndex("dx", 0)->mut_dptr<T>();
    const T margin = static_cast<T>(ctx->Attr<float>("margin"));
    FOR_RANGE(int64_t, i, 0, x->shape_view().elem_cnt()) { dx[i] = x->dptr<T>()[i] < margin ? -dy[i] : T(0); }
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

#define REGISTER_HINGE(T)                                                    \
  REGISTER_USER_KERNEL("flow_hinge")                                         \
      .SetCreateFn<HingeKernel<T>>()                                         \
      .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kCPU) &&     \
                       (user_op::HobDataType("y", 0) == GetDataType<T>::value)); \
  REGISTER_USER_KERNEL("flow_hinge_grad")                                    \
      .SetCreateFn<HingeGradKernel<T>>()                                     \
      .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kCPU) &&     \
                       (user_op::HobDataType("dx", 0) == GetDataType<T>::value));
REGISTER_HINGE(float)
REGISTER_HINGE(double)

}  // namespace

namespace one {

struct HingeState : public AutoGradCaptureState {
  bool requires_grad;
  float margin;
};

class Hinge : public OpExprGradFunction<HingeState> {
 public:
  Maybe<void> Init(const OpExpr &op) override {
    const auto *fw_op_expr = dynamic_cast<const UserOpExpr *>(&op);
    CHECK_NOTNULL_OR_RETURN(fw_op_expr);
    base_attrs_ = MakeAttrMapFromUserOpConf(fw_op_expr->proto());
    return Maybe<void>::Ok();
  }
  Maybe<void> Capture(HingeState *ctx, const TensorTuple &inputs, const TensorTuple &, const AttrMap &attrs) const override {
    CHECK_EQ_OR_RETURN(inputs.size(), 1);
    ctx->requires_grad = inputs.at(0)->requires_grad();
    if (!ctx->requires_grad) { return Maybe<void>::Ok(); }
    ComposedAttrMap composed_attrs(attrs, base_attrs_);
    ctx->margin = JUST(composed_attrs.GetAttr<float>("margin"));
    ctx->SaveTensorForBackward(inputs.at(0));
    return Maybe<void>::Ok();
  }
  Maybe<void> Apply(const HingeState *ctx, const TensorTuple &out_grads, TensorTuple *in_grads) const override {
    CHECK_EQ_OR_RETURN(out_grads.size(), 1);
    in_grads->resize(1);
    if (ctx->requires_grad) {
      in_grads->at(0) = JUST(functional::FlowHingeGrad(ctx->SavedTensors().at(0), out_grads.at(0), ctx->margin));
    }
    return Maybe<void>::Ok();
  }

 private:
  AttrMap base_attrs_;
};
REGISTER_OP_EXPR_GRAD_FUNCTION("flow_hinge", Hinge);

namespace functional {
namespace impl {

class HingeFunctor {
 public:
  HingeFunctor() { op_ = CHECK_JUST(one::OpBuilder("flow_hinge").Input("x").Output("y").Build()); }
  Maybe<Tensor> operator()(const std::shared_ptr<one::Tensor> &x, const float &margin) const {
    MutableAttrMap attrs;
    JUST(attrs.SetAttr<float>("margin", margin));
    return OpInterpUtil::Dispatch<one::Tensor>(*op_, {x}, attrs);
  }

 private:
  std::shared_ptr<OpExpr> op_;
};

class HingeGradFunctor {
 public:
  HingeGradFunctor() { op_ = CHECK_JUST(one::OpBuilder("flow_hinge_grad").Input("x").Input("dy").Output("dx").Build()); }
  Maybe<Tensor> operator()(const std::shared_ptr<one::Tensor> &x, const std::shared_ptr<one::Tensor> &dy,
                           const float &margin) const {
    MutableAttrMap attrs;
    JUST(attrs.SetAttr<float>("margin", margin));
    return OpInterpUtil::Dispatch<one::Tensor>(*op_, {x, dy}, attrs);
  }

 private:
  std::shared_ptr<OpExpr> op_;
};

}  // namespace impl

ONEFLOW_FUNCTION_LIBRARY(m) {
  m.add_functor<impl::HingeFunctor>("FlowHinge");
  m.add_functor<impl::HingeGradFunctor>("FlowHingeGrad");
}

}  // namespace functional
}  // namespace one
}  // namespace oneflow
