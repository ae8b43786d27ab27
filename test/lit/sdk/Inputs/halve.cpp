#include "oneflow/core/framework/framework.h"

namespace oneflow {

REGISTER_USER_OP("lit_halve")
    .Input("x")
    .Output("y")
    .Attr<int32_t>("axis", 0)
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      Shape shape = ctx->InputShape("x", 0);
      const int32_t axis = ctx->Attr<int32_t>("axis");
      CHECK_LT_OR_RETURN(axis, shape.NumAxes()) << "axes";
      shape.Set(axis, shape.At(axis) / 2);
      *ctx->OutputShape("y", 0) = shape;
      return Maybe<void>::Ok();
    });

REGISTER_USER_OP("lit_twice").Input("x").Output("y").SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged);

class TwiceKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    float *y = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<float>();
    FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) { y[i] = 2 * x->dptr<float>()[i]; }
  }
};
REGISTER_USER_KERNEL("lit_twice").SetCreateFn<TwiceKernel>().SetIsMatchedHob(
    user_op::HobDataType("x", 0) == DataType::kFloat);

REGISTER_USER_OP_GRAD("lit_twice").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  ctx->DefineOp("dx", [ctx](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("lit_twice").InputBind("x", ctx->FwOp().output_grad("y", 0)).Output("y").Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0), [ctx]() { return ctx->GetOp("dx").output("y", 0); });
});

}  // namespace oneflow
