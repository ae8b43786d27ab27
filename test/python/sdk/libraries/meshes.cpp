// Operators that say how they lie on meshes; test_meshes.py says what they compute.
#include "oneflow/core/framework/framework.h"

namespace oneflow {
namespace {

class NegateKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    double *y = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<double>();
    FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) { y[i] = -x->dptr<double>()[i]; }
  }
};
#define REGISTER_KERNEL(name) REGISTER_USER_KERNEL(name).SetCreateFn<NegateKernel>();

// t_listed: rows are split along the first axis of the mesh, columns along the second; nothing else.
REGISTER_USER_OP("t_listed")
    .Input("x")
    .Output("y")
    .Attr<std::string>("mode", "")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis)
    .SetGetNdSbpSignatureListFn([](user_op::GetNdSbpSignatureListContext *ctx) -> Maybe<void> {
      CHECK_NE_OR_RETURN(ctx->Attr<std::string>("mode"), "fails") << "no list today";
      if (ctx->Attr<std::string>("mode") == "throws") throw std::runtime_error("thrown by the list");
      CHECK_EQ_OR_RETURN(ctx->BlobShape4InputArgNameAndIndex("x", 0).NumAxes(), 2);
      NdSbp nd;
      FOR_RANGE(int64_t, i, 0, ctx->parallel_hierarchy().NumAxes()) {
        nd.add_sbp_parallel()->mutable_split_parallel()->set_axis(ctx->Attr<std::string>("mode") == "axis" ? 7 : i);
      }
      NdSbpSignature signature;
      (*signature.mutable_bn_in_op2nd_sbp())[GenRepeatedBn("x", 0)] = nd;
      if (ctx->Attr<std::string>("mode") == "part") nd.clear_sbp_parallel();
      (*signature.mutable_bn_in_op2nd_sbp())[GenRepeatedBn("y", 0)] = nd;
      ctx->AddNdSbpSignature(signature);
      return Maybe<void>::Ok();
    })
    .SetComputeComplexityFn([](user_op::ComputeComplexityFnContext *ctx) -> Maybe<double> {
      CHECK_NE_OR_RETURN(ctx->Attr<std::string>("mode"), "complex") << "too complex";
      return 1000.0 * ctx->Shape4ArgNameAndIndex("x", 0).elem_cnt();
    });
REGISTER_KERNEL("t_listed")

// t_inferred: y lies as x does, but whole along the last axis of the mesh.
REGISTER_USER_OP("t_inferred")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis)
    .SetNdSbpInferFn([](user_op::InferNdSbpFnContext *ctx) -> Maybe<void> {
      NdSbp nd = ctx->NdSbpHint4InputArgNameAndIndex("x", 0);
      CHECK_EQ_OR_RETURN(ctx->parallel_num(), ctx->parallel_hierarchy().elem_cnt());
      nd.mutable_sbp_parallel(nd.sbp_parallel_size() - 1)->mutable_broadcast_parallel();
      *ctx->NdSbp4ArgNameAndIndex("x", 0) = nd;
      *ctx->NdSbp4ArgNameAndIndex("y", 0) = nd;
      return Maybe<void>::Ok();
    });
REGISTER_KERNEL("t_inferred")

}  // namespace
}  // namespace oneflow
