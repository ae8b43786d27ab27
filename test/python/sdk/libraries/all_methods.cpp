// test_sdk_methods.py: every method of the registries, contexts and tensors of OneFlow, called once.
#include "oneflow/core/framework/framework.h"
#include "oneflow/core/framework/op_expr_grad_function.h"
#include "oneflow/core/functional/functional.h"

namespace oneflow {

namespace {

void Infer(user_op::InferContext *ctx) {
  const user_op::TensorDesc &in = ctx->InputTensorDesc("in", 0);
  user_op::TensorDesc *out = ctx->MutOutputTensorDesc("out", 0);
  CHECK(ctx->LogicalTensorDesc4ArgNameAndIndex("in", 0) != nullptr);
  CHECK(ctx->OutputTensorDesc("out", 0) == out);
  out->set_shape(in.shape());
  out->set_stride(in.stride());
  out->set_memory_format(in.memory_format());
  out->set_is_dynamic(in.is_dynamic());
  out->set_data_type(in.data_type());
  ctx->SetOutputShape("out", 0, ctx->InputShape("in", 0));
  ctx->SetShape4ArgNameAndIndex("out", 0, ctx->Shape4ArgNameAndIndex("in", 0)[0]);
  ctx->SetOutputStride("out", 0, ctx->InputStride("in", 0));
  ctx->SetStride4ArgNameAndIndex("out", 0, ctx->Stride4ArgNameAndIndex("in", 0));
  ctx->OutputStride("out", 0);
  ctx->SetOutputDType("out", 0, ctx->InputDType("in", 0));
  ctx->SetDtype4ArgNameAndIndex("out", 0, *ctx->Dtype4ArgNameAndIndex("in", 0));
  ctx->SetOutputMemoryFormat("out", 0, ctx->InputMemoryFormat("in", 0));
  ctx->SetMemoryFormat4ArgNameAndIndex("out", 0, ctx->MemoryFormat4ArgNameAndIndex("in", 0));
  ctx->OutputMemoryFormat("out", 0);
  ctx->SetOutputIsDynamic("out", 0, ctx->InputIsDynamic("in", 0));
  ctx->SetIsDynamic4ArgNameAndIndex("out", 0, *ctx->IsDynamic4ArgNameAndIndex("in", 0));
  CHECK(ctx->has_input("in", 0) && ctx->has_output("out", 0));
  CHECK_EQ(ctx->input_size("in"), 1);
  CHECK_EQ(ctx->output_size("out"), 1);
  CHECK_EQ(ctx->inputs().size(), 1);
  CHECK_EQ(ctx->outputs().size(), 1);
  CHECK(!ctx->input("in", 0).empty() && !ctx->output("out", 0).empty());
  CHECK(!ctx->op_name().empty() && !ctx->op_type_name().empty() && !ctx->op_loc().empty());
  CHECK_EQ(ctx->parallel_ctx().parallel_num(), ctx->parallel_num());
  CHECK_EQ(ctx->parallel_desc().parallel_num(), 1);
  CHECK(ctx->parallel_desc().device_type() == kCPU || true);
  static_cast<void>(ctx->job_desc());
  CHECK(ctx->SbpParallel4ArgNameAndIndex("in", 0).has_broadcast_parallel());
  CHECK_EQ(ctx->NdSbp4ArgNameAndIndex("in", 0).sbp_parallel_size(), 1);
  CHECK(ctx->GetAttr<Shape>("older") == Shape({2, 3}));
  CHECK_EQ(ctx->Attr<int32_t>("size"), ctx->user_op_conf().attr<int32_t>("size"));
}

class Kernel final : public user_op::OpKernel {
 public:
  std::shared_ptr<user_op::OpKernelState> CreateOpKernelState(user_op::KernelInitContext *ctx) const override {
    CHECK(ctx->LogicalTensorDesc4ArgNameAndIndex("in", 0) != nullptr);
    CHECK(ctx->SbpParallel4ArgNameAndIndex("in", 0).has_broadcast_parallel());
    CHECK_EQ(ctx->NdSbp4ArgNameAndIndex("in", 0).sbp_parallel_size(), 1);
    CHECK_EQ(ctx->parallel_desc().parallel_num(), 1);
    CHECK_EQ(ctx->attr<int32_t>("size"), 2);
    static_cast<void>(ctx->op_conf());
    return nullptr;
  }
  void InitOpKernelCacheWithFlags(user_op::KernelCacheContext *, int8_t flag,
                                  std::shared_ptr<user_op::OpKernelCache> *) const override {
    CHECK_EQ(flag, user_op::OpKernelCache::kAllMayChanged);
    CHECK(has_state_or_cache() && user_op::OpKernelCache::kShapeNotChanged != user_op::OpKernelCache::kAttrNotChanged);
  }
  void InferShape(user_op::KernelInferContext *ctx) const override {
    static_cast<void>(ctx->ShapeView4ArgNameAndIndex("in", 0));
    static_cast<void>(ctx->MutShapeView4ArgNameAndIndex("out", 0));
    static_cast<void>(ctx->MutOpInferContext());
    static_cast<void>(ctx->GetOpInferFn());
  }

 private:
  using user_op::OpKernel::Compute;
  void Compute(user_op::KernelComputeContext *ctx, user_op::OpKernelState *,
               const user_op::OpKernelCache *) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    CHECK(ctx->TensorDesc4ArgNameAndIndex("in", 0)->data_type() == in->data_type());
    CHECK(ctx->stream() != nullptr && ctx->stream()->device_type() == ctx->device_type());
    CHECK(in->shape_view() == out->mut_shape_view());
    CHECK(in->memory_format() == out->memory_format());
    CHECK(in->stride() == out->stride());
    CHECK(in->mem_case().device_type() == kCPU);
    CHECK(ctx->has_input("in", 0) && ctx->has_output("out", 0) && ctx->input_size("in") == ctx->output_size("out"));
    std::memcpy(out->mut_raw_dptr(), in->raw_dptr(), in->shape_view().elem_cnt() * sizeof(float));
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  bool IsKernelLaunchSynchronized() const override { return false; }
};

Maybe<void> Check(const user_op::UserOpDefWrapper &def, const user_op::UserOpConfWrapper &conf) {
  CHECK_OR_RETURN(def.IsInputArgName("in") && def.IsOutputArgName("out") && def.IsAttrName("size"));
  CHECK_OR_RETURN(!def.IsArgOptional("in") && def.AttrHasDefaultVal("size"));
  CHECK_EQ_OR_RETURN(def.GetAttrDefaultVal<int32_t>("size"), 2);
  CHECK_OR_RETURN(def.GetAttrType("size") == AttrType::kAtInt32);
  CHECK_OR_RETURN(def.name() == conf.op_type_name());
  CHECK_EQ_OR_RETURN(conf.attr_or_default<int32_t>("size", 5), 2);
  return Maybe<void>::Ok();
}

}  // namespace

REGISTER_NO_GRAD_CPU_ONLY_USER_OP("t_all_methods")
    .Name("t_all_methods")
    .Input("in")
    .Output("out")
    .Attr<int32_t>("size", 2)
    .Attr<std::vector<Shape>>("shapes", {})
    .Attr("older", UserOpAttrType::kAtShape, Shape({2, 3}))
    .SupportCpuOnly()
    .SupportNonContiguous()
    .SetOutputBufferNum(1)
    .SetCheckAttrFn(Check)
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      Infer(ctx);
      return Maybe<void>::Ok();
    })
    .SetDataTypeInferFn(user_op::TensorDescInferFnUtil::UnchangedDataType)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      CHECK_EQ_OR_RETURN(ctx->hierarchy_value(), ctx->parallel_num());
      static_cast<void>(ctx->device_type());
      static_cast<void>(ctx->user_op_conf());
      ctx->NewBuilder().Split(ctx->inputs(), 0).Split(std::vector<user_op::OpArg>{{"out", 0}}, 0).Build();
      return Maybe<void>::Ok();
    })
    .SetInputArgModifyFn([](const user_op::GetInputArgModifier &get, const user_op::UserOpConfWrapper &) -> Maybe<void> {
      user_op::InputArgModifier *in = get("in", 0);
      CHECK_NOTNULL_OR_RETURN(in);
      in->set_requires_grad(false);
      in->set_is_mutable(false);
      return Maybe<void>::Ok();
    })
    .SetOutputArgModifyFn([](const user_op::GetOutputArgModifier &get, const user_op::UserOpConfWrapper &) -> Maybe<void> {
      user_op::OutputArgModifier *out = get("out", 0);
      CHECK_NOTNULL_OR_RETURN(out);
      out->set_is_mutable(false);
      out->set_requires_grad(false);
      out->set_header_infered_before_compute(true);
      out->set_mutable_inplace_ibn("in_0");
      out->set_const_inplace_ibn("in_0");
      return Maybe<void>::Ok();
    })
    .SetEnumerateNdSbpSignaturesFn([](user_op::GetNdSbpSignatureListContext *ctx) -> Maybe<void> {
      static_cast<void>(ctx->BlobShape4InputArgNameAndIndex("in", 0));
      static_cast<void>(ctx->Attr<int32_t>("size"));
      static_cast<void>(ctx->parallel_hierarchy());
      return Maybe<void>::Ok();
    })
    .SetComputeComplexityFn([](user_op::ComputeComplexityFnContext *ctx) -> Maybe<double> {
      static_cast<void>(ctx->GetNdSbpSignature());
      static_cast<void>(ctx->parallel_desc());
      CHECK(!ctx->IsDynamic4ArgNameAndIndex("in", 0));
      return static_cast<double>(ctx->Shape4ArgNameAndIndex("in", 0).elem_cnt());
    })
    .Finish();

REGISTER_USER_KERNEL("t_all_methods")
    .Name("t_all_methods")
    .SetCreateFn([]() -> const user_op::OpKernel * { return new Kernel; })
    .SetInferTmpSizeFn(user_op::TmpSizeInferFnUtil::ZeroTmpSize)
    .SetInplaceProposalFn([](const user_op::InferContext &, user_op::AddInplaceArgPair add) -> Maybe<void> {
      OF_RETURN_IF_ERROR(add("out", 0, "in", 0, true));
      return Maybe<void>::Ok();
    })
    .SetPriority(user_op::kKernelPriorityOptimized)
    .SetIsMatchedHob(user_op::HobTrue() && !user_op::HobFalse() && user_op::HobInputSize("in") == 1 &&
                     user_op::HobAttr<int32_t>("size") > 1 && user_op::HobAttr<int32_t>("size") <= 2 &&
                     user_op::HobDataType("in", 0) == user_op::HobDataType("out", 0) &&
                     user_op::HobDeviceSubTag() == "" && !user_op::HobEnvBool("T_SURFACE", false) &&
                     hob::make_custom("even", [](const user_op::KernelRegContext &ctx) {
                       static_cast<void>(ctx.parallel_ctx());
                       return ctx.inputs().size() == ctx.outputs().size();
                     }))
    .Finish();

REGISTER_OP_HOST_MEMORY_INPUT("t_all_methods", "in", 0);

REGISTER_USER_OP("t_inferring").Input("in").Output("out").SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetSbpSignatureInferFn([](user_op::InferSbpSignatureFnContext *ctx) -> Maybe<void> {
      const SbpParallel &hint = ctx->SbpParallelHint4InputArgNameAndIndex("in", 0);
      SbpSignature *signature = ctx->mutable_sbp_signature();
      (*signature->mutable_bn_in_op2sbp_parallel())["in_0"] = hint;
      (*signature->mutable_bn_in_op2sbp_parallel())["out_0"] = hint;
      static_cast<void>(ctx->sbp_signature_conf());
      return Maybe<void>::Ok();
    });

}  // namespace oneflow
