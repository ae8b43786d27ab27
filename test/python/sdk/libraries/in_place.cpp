// Kernels whose results share the memory of operands; test_in_place.py says what they compute.
#include "oneflow/core/framework/framework.h"

namespace oneflow {
namespace {

// t_bump: x + y, written over x.
class BumpKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    CHECK(x->raw_dptr() == out->raw_dptr()) << "two places";
    const float *y = ctx->Tensor4ArgNameAndIndex("y", 0)->dptr<float>();
    FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) { out->mut_dptr<float>()[i] += y[i]; }
  }
};

Maybe<void> Propose(const user_op::InferContext &ctx, user_op::AddInplaceArgPair add) {
  const std::string mode = ctx.Attr<std::string>("mode");
  if (mode == "throws") throw std::runtime_error("thrown by the proposal");
  CHECK_NE_OR_RETURN(mode, "fails") << "no proposal today";
  JUST(add("out", 0, mode == "operand" ? "z" : "x", 0, true));
  if (mode == "size") JUST(add("small", 0, "y", 0, true));
  if (mode == "twice") JUST(add("out", 0, "y", 0, true));
  if (mode == "both") JUST(add("small", 0, "x", 0, true));
  return Maybe<void>::Ok();
}

REGISTER_USER_OP("t_bump")
    .Input("x")
    .Input("y")
    .Output("out")
    .Attr<std::string>("mode", "")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged);
REGISTER_USER_KERNEL("t_bump").SetCreateFn<BumpKernel>().SetInplaceProposalFn(Propose);

REGISTER_USER_OP("t_proposals")
    .Input("x")
    .Input("y")
    .Output("out")
    .Output("small")
    .Attr<std::string>("mode", "")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      ctx->SetOutputShape("out", 0, ctx->InputShape("x", 0));
      ctx->SetOutputShape("small", 0, ctx->Attr<std::string>("mode") == "both" ? ctx->InputShape("x", 0) : Shape({1}));
      return Maybe<void>::Ok();
    });
REGISTER_USER_KERNEL("t_proposals").SetCreateFn<BumpKernel>().SetInplaceProposalFn(Propose);

}  // namespace
}  // namespace oneflow
