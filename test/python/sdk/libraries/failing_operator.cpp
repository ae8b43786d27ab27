// One operator that fails in every way, as its attribute says; test_user_errors.py has the messages.
#include "oneflow/core/framework/framework.h"

namespace oneflow {
namespace {

Maybe<int32_t> Number(bool fails) {
  CHECK_OR_RETURN(!fails) << "there is no number";
  return 5;
}

REGISTER_USER_OP("t_failing")
    .Input("x")
    .OptionalInput("pair", 2)
    .OptionalInputWithMininum("many", 2)
    .Output("out")
    .Attr<std::string>("mode", "")
    .SetCheckAttrFn([](const user_op::UserOpDefWrapper &, const user_op::UserOpConfWrapper &conf) -> Maybe<void> {
      CHECK_NE_OR_RETURN(conf.attr<std::string>("mode"), "refused") << "is never allowed";
      return Maybe<void>::Ok();
    })
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const std::string mode = ctx->Attr<std::string>("mode");
      if (mode == "infer_throws") throw std::runtime_error("thrown by infer");
      if (mode == "infer_throws_int") throw 7;
      if (mode == "infer_check") CHECK_EQ(ctx->InputShape("x", 0).NumAxes(), 9) << "axes";
      const int32_t five = JUST(Number(mode == "infer_maybe"));
      CHECK_EQ_OR_RETURN(five, 5);
      if (mode == "bad_name") ctx->InputShape("y", 0);
      if (mode == "bad_index") ctx->InputShape("x", 3);
      if (mode == "bad_axis") ctx->InputShape("x", 0).At(5);
      if (mode == "bad_attr") ctx->Attr<int32_t>("mode");
      if (mode == "no_attr") ctx->Attr<int32_t>("depth");
      if (mode == "infer_writes") ctx->Shape4ArgNameAndIndex("x", 0)->Set(0, 7);
      if (mode == "infer_retypes") *ctx->Dtype4ArgNameAndIndex("x", 0) = kDouble;
      if (mode == "no_shape") return Maybe<void>::Ok();
      ctx->SetOutputShape("out", 0, mode == "bad_shape" ? Shape({-3}) : ctx->InputShape("x", 0));
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const std::string mode = ctx->Attr<std::string>("mode");
      if (mode == "sbp_axis") ctx->NewBuilder().Split(ctx->inputs(), 4).Split(ctx->outputs(), 4).Build();
      if (mode == "sbp_part") ctx->NewBuilder().Split(ctx->inputs(), 0).Build();
      if (mode == "sbp_stranger") {
        ctx->NewBuilder().Split(ctx->inputs(), 0).Split(ctx->outputs(), 0).Split(user_op::OpArg("zz", 0), 0).Build();
      }
      if (mode == "sbp_maybe") return Error::RuntimeError() << "no signatures today";
      return Maybe<void>::Ok();
    })
    .SetInputArgModifyFn([](const user_op::GetInputArgModifier &modifier, const user_op::UserOpConfWrapper &conf) {
      if (conf.attr<std::string>("mode") == "mutable") modifier("x", 0)->set_is_mutable(true);
    });

class FailingKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const std::string mode = ctx->Attr<std::string>("mode");
    user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0), *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    if (mode == "kernel_throws") throw std::out_of_range("thrown by the kernel");
    if (mode == "wrong_type") out->mut_dptr<double>()[0] = 0;
    float *y = out->mut_dptr<float>();
    const int64_t n = out->shape().elem_cnt();
    if (mode == "nothing") return;
    std::copy(x->dptr<float>(), x->dptr<float>() + (mode == "half" ? n / 2 : n), y);
    if (mode == "overrun") y[n + 2] = 1;
    if (mode == "underrun") y[-1] = 1;
    if (mode == "overrun_far") reinterpret_cast<char *>(y)[4 * n + 80000] ^= 1;
    if (mode == "overrun_same") std::memset(y + n, 0xA5, 8);
    if (mode == "writes_input") x->mut_dptr<float>()[0] = 99;
  }
};
REGISTER_USER_KERNEL("t_failing")
    .SetCreateFn<FailingKernel>()
    .SetIsMatchedHob((user_op::HobDeviceType() == kCPU) & (user_op::HobDataType("x", 0) == kFloat) &
                     (user_op::HobAttr<std::string>("mode") != "no_kernel"));
REGISTER_USER_KERNEL("t_failing").SetCreateFn<FailingKernel>().SetIsMatchedHob(user_op::HobDeviceType() == kGPU);

REGISTER_USER_OP_GRAD("t_failing").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) -> Maybe<void> {
  const std::string mode = ctx->FwOp().attr<std::string>("mode");
  if (mode == "grad_maybe") return Error::CheckFailed() << "cannot differentiate";
  const std::string op = mode == "grad_op" ? "t_no_such_op" : "identity";
  ctx->DefineOp("dx", [&](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName(op)
        .InputBind(mode == "grad_operand" ? "x" : "in",
                   mode == "grad_tensor"   ? "nowhere/out_0"
                   : mode == "grad_self"   ? ctx->GetOp("dx").output("out", 0)
                   : mode == "grad_circle" ? "dx/out_0"
                                           : ctx->FwOp().output_grad("out", 0))
        .Output("out")
        .Build();
  });
  if (mode == "grad_undefined") ctx->GetOp("dy");
  ctx->FwOp().InputGradBind(user_op::OpArg(mode == "grad_input" ? "y" : "x", 0),
                            [&ctx]() { return ctx->GetOp("dx").output("out", 0); });
  return Maybe<void>::Ok();
});

}  // namespace
}  // namespace oneflow
