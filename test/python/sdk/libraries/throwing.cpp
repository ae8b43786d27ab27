// One operator each of whose callbacks throws, as its attribute says; test_user_errors.py has the messages.
#include "oneflow/core/framework/framework.h"
#include "oneflow/core/framework/op_expr_grad_function.h"
#include "oneflow/core/functional/function_library.h"

namespace oneflow {
namespace {

/// Throws if it is `where` that has to.
void At(const std::string &where, const std::string &mode) {
  if (mode == where) throw std::runtime_error("thrown in " + where);
}

REGISTER_USER_OP("t_throwing")
    .Input("x")
    .Output("y")
    .Attr<std::string>("mode", "")
    .SetCheckAttrFn([](const user_op::UserOpDefWrapper &, const user_op::UserOpConfWrapper &conf) -> Maybe<void> {
      At("check", conf.attr<std::string>("mode"));
      return Maybe<void>::Ok();
    })
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      At("infer", ctx->Attr<std::string>("mode"));
      return user_op::TensorDescInferFnUtil::Unchanged(ctx);
    })
    .SetDataTypeInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      At("data_type", ctx->Attr<std::string>("mode"));
      return user_op::TensorDescInferFnUtil::UnchangedDataType(ctx);
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      At("sbp", ctx->Attr<std::string>("mode"));
      return Maybe<void>::Ok();
    })
    .SetInputArgModifyFn([](const user_op::GetInputArgModifier &, const user_op::UserOpConfWrapper &conf) {
      At("input_modify", conf.attr<std::string>("mode"));
    })
    .SetOutputArgModifyFn([](const user_op::GetOutputArgModifier &, const user_op::UserOpConfWrapper &conf) {
      At("output_modify", conf.attr<std::string>("mode"));
    });

class ThrowingKernel final : public user_op::OpKernel {
 public:
  explicit ThrowingKernel(const user_op::KernelInitContext &ctx) { At("create", ctx.Attr<std::string>("mode")); }
  std::shared_ptr<user_op::OpKernelState> CreateOpKernelState(user_op::KernelInitContext *ctx) const override {
    At("state", ctx->Attr<std::string>("mode"));
    return nullptr;
  }
  std::shared_ptr<user_op::OpKernelCache> InitOpKernelCache(user_op::KernelCacheContext *ctx) const override {
    At("cache", ctx->Attr<std::string>("mode"));
    return nullptr;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  void Compute(user_op::KernelComputeContext *ctx) const override {
    At("compute", ctx->Attr<std::string>("mode"));
    if (ctx->Attr<std::string>("mode") == "nothing") throw 3;
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    double *y = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<double>();
    FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) { y[i] = x->dptr<double>()[i] + 1; }
  }
};
REGISTER_USER_KERNEL("t_throwing")
    .SetCreateFn([](const user_op::KernelInitContext &ctx) -> user_op::OpKernel * {
      return ctx.Attr<std::string>("mode") == "null" ? nullptr : new ThrowingKernel(ctx);
    })
    .SetIsMatchedPred([](const user_op::KernelRegContext &ctx) {
      At("match", ctx.Attr<std::string>("mode"));
      return true;
    })
    .SetInferTmpSizeFn([](user_op::InferContext *ctx) -> size_t {
      At("tmp_size", ctx->Attr<std::string>("mode"));
      return ctx->Attr<std::string>("mode") == "negative" ? static_cast<size_t>(-1) : 8;
    });

REGISTER_USER_OP_GRAD("t_throwing").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  const std::string mode = ctx->FwOp().attr<std::string>("mode");
  At("gradient", mode);
  ctx->DefineOp("dx", [mode, ctx](user_op::BackwardOpBuilder &builder) {
    At("define", mode);
    return builder.OpTypeName("identity").InputBind("in", ctx->FwOp().output_grad("y", 0)).Output("out").Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0), [mode, ctx]() {
    At("bind", mode);
    return ctx->GetOp("dx").output("out", 0);
  });
});

}  // namespace

namespace one {

class Throwing : public OpExprGradFunction<AutoGradCaptureState> {
 public:
  Maybe<void> Init(const OpExpr &op) override {
    mode_ = JUST(MakeAttrMapFromUserOpConf(dynamic_cast<const UserOpExpr &>(op).proto()).GetAttr<std::string>("mode"));
    At("init", *mode_);
    return Maybe<void>::Ok();
  }
  Maybe<void> Capture(AutoGradCaptureState *, const TensorTuple &, const TensorTuple &, const AttrMap &) const override {
    At("capture", *mode_);
    return Maybe<void>::Ok();
  }
  Maybe<void> Apply(const AutoGradCaptureState *, const TensorTuple &grads, TensorTuple *in_grads) const override {
    At("apply", *mode_);
    if (*mode_ == "too_many") in_grads->resize(5);
    in_grads->at(0) = grads.at(0);
    return Maybe<void>::Ok();
  }

 private:
  std::shared_ptr<std::string> mode_;
};

}  // namespace one

namespace {

REGISTER_USER_OP("t_throwing_class")
    .Input("x")
    .Output("y")
    .Attr<std::string>("mode", "")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged);
REGISTER_USER_KERNEL("t_throwing_class").SetCreateFn([](const user_op::KernelInitContext &ctx) {
  return new ThrowingKernel(ctx);
});
REGISTER_OP_EXPR_GRAD_FUNCTION("t_throwing_class", one::Throwing);

}  // namespace
}  // namespace oneflow
