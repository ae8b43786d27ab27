// Operators with layouts on meshes; test_meshes.py says what they compute.
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

// t_inferred: y has the layout of x, but is broadcast along the last axis of the mesh.
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

// t_along: rows may be split along any axis of the mesh, columns along none.
REGISTER_USER_OP("t_along")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis)
    .SetSbpSignatureInferFn([](user_op::InferSbpSignatureFnContext *ctx) -> Maybe<void> {
      CHECK_EQ_OR_RETURN(ctx->parallel_num(), 2);
      CHECK_OR_RETURN(ctx->sbp_signature_conf().bn_in_op2sbp_parallel().empty());
      SbpParallel x = ctx->SbpParallelHint4InputArgNameAndIndex("x", 0);
      if (x == SbpParallel('S', 1)) x.mutable_broadcast_parallel();
      for (const char *tensor : {"x_0", "y_0"}) {
        (*ctx->mutable_sbp_signature()->mutable_bn_in_op2sbp_parallel())[tensor] = x;
      }
      return Maybe<void>::Ok();
    });
REGISTER_KERNEL("t_along")

// t_enumerated: rows, as by the older name of the list of t_listed.
REGISTER_USER_OP("t_enumerated")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetEnumerateNdSbpSignaturesFn([](user_op::GetNdSbpSignatureListContext *ctx) -> Maybe<void> {
      NdSbpSignature rows;
      FOR_RANGE(int64_t, i, 0, ctx->parallel_hierarchy().NumAxes()) {
        for (const char *tensor : {"x_0", "y_0"}) {
          (*rows.mutable_bn_in_op2nd_sbp())[tensor].add_sbp_parallel()->mutable_split_parallel()->set_axis(0);
        }
      }
      ctx->MutNdSbpSignatureList()->push_back(rows);
      return Maybe<void>::Ok();
    });
REGISTER_KERNEL("t_enumerated")

}  // namespace
}  // namespace oneflow
