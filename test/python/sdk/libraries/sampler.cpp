// Operators that use each part of the SDK once; test_user_operators.py says what they compute.
#include "oneflow/core/framework/framework.h"

namespace oneflow {
namespace {

// scale: out = x * factor; attributes by template, one kernel class for several types, gradient by itself.
REGISTER_USER_OP("t_scale")
    .Input("x")
    .Output("out")
    .Attr<float>("factor", 2.0f)
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      *ctx->OutputShape("out", 0) = ctx->InputShape("x", 0);
      *ctx->OutputDType("out", 0) = ctx->InputDType("x", 0);
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const auto &x = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0);
      FOR_RANGE(int64_t, i, 0, x.shape().NumAxes()) {
        ctx->NewBuilder().Split(ctx->inputs(), i).Split(ctx->outputs(), i).Build();
      }
      ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(user_op::OpArg("out", 0)).Build();
      return Maybe<void>::Ok();
    });

template <DeviceType device, typename T>
class ScaleKernel final : public user_op::OpKernel {
 private:
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const T factor = static_cast<T>(ctx->Attr<float>("factor"));
    FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) { out->mut_dptr<T>()[i] = x->dptr<T>()[i] * factor; }
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

#define REGISTER_SCALE(device, dtype)                                                        \
  REGISTER_USER_KERNEL("t_scale").SetCreateFn<ScaleKernel<device, dtype>>().SetIsMatchedHob( \
      (user_op::HobDeviceType() == device) && (user_op::HobDataType("out", 0) == GetDataType<dtype>::value));
REGISTER_SCALE(DeviceType::kCPU, float)
REGISTER_SCALE(DeviceType::kCPU, double)
REGISTER_SCALE(DeviceType::kCPU, int32_t)
REGISTER_SCALE(DeviceType::kCPU, float16)
REGISTER_SCALE(DeviceType::kCPU, bfloat16)

REGISTER_USER_OP_GRAD("t_scale").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) -> Maybe<void> {
  const std::string name = ctx->FwOp().op_name() + "_grad";
  ctx->DefineOp(name, [&ctx](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("t_scale")
        .InputBind("x", ctx->FwOp().output_grad("out", 0))
        .Attr("factor", ctx->FwOp().attr<float>("factor"))
        .Output("out")
        .Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0), [&]() { return ctx->GetOp(name).output("out", 0); });
  return Maybe<void>::Ok();
});

// cube: y = x^3; the gradient is built of operators that exist, by a function that returns nothing.
REGISTER_USER_OP("t_cube")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetDataTypeInferFn(user_op::TensorDescInferFnUtil::UnchangedDataType)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis);

class CubeKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const double *x = ctx->Tensor4ArgNameAndIndex("x", 0)->dptr<double>();
    double *y = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<double>();
    FOR_RANGE(int64_t, i, 0, ctx->Tensor4ArgNameAndIndex("x", 0)->shape_view().elem_cnt()) {
      y[i] = x[i] * x[i] * x[i];
    }
  }
};
REGISTER_USER_KERNEL("t_cube").SetCreateFn<CubeKernel>().SetIsMatchedHob(user_op::HobDataType("x", 0) == kDouble);

REGISTER_USER_OP_GRAD("t_cube").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  ctx->DefineOp("square", [&ctx](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("broadcast_mul")
        .InputBind("x", ctx->FwOp().input("x", 0))
        .InputBind("y", ctx->FwOp().input("x", 0))
        .Output("z")
        .Build();
  });
  ctx->DefineOp("triple", [&ctx](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("scalar_mul")
        .InputBind("in", ctx->GetOp("square").output("z", 0))
        .Attr("has_float_operand", true)
        .Attr("float_operand", static_cast<double>(ctx->FwOp().arg_tensor_desc("x", 0).shape().NumAxes() > 9 ? 0 : 3))
        .Output("out")
        .Build();
  });
  ctx->DefineOp("dx", [&ctx](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("broadcast_mul")
        .InputBind("x", ctx->GetOp("triple").output("out", 0))
        .InputBind("y", ctx->FwOp().output_grad("y", 0))
        .Output("z")
        .Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0),
                            [&ctx]() -> const std::string & { return ctx->GetOp("dx").output("z", 0); });
});

// sum: out = sum of in[i] * weights[i] (+ bias); a repeated input, an optional one, a list, the older gradient form.
REGISTER_USER_OP("t_sum")
    .InputWithMinimum("in", 2)
    .OptionalInput("bias")
    .Output("out")
    .Attr("weights", UserOpAttrType::kAtListFloat, std::vector<float>{})
    .SetCheckAttrFn([](const user_op::UserOpDefWrapper &def, const user_op::UserOpConfWrapper &conf) -> Maybe<void> {
      CHECK_OR_RETURN(def.IsInputArgName("in") && def.IsArgOptional("bias") && !def.IsArgOptional("in"));
      const auto weights = conf.attr<std::vector<float>>("weights");
      if (weights.empty() || weights.size() == static_cast<size_t>(conf.input_size("in"))) return Maybe<void>::Ok();
      return oneflow::Error::CheckFailed()
             << "expected " << conf.input_size("in") << " weights, got " << weights.size();
    })
    .SetShapeInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const Shape *first = ctx->Shape4ArgNameAndIndex("in", 0);
      FOR_RANGE(int32_t, i, 1, ctx->input_size("in")) {
        CHECK_EQ_OR_RETURN(*first, *ctx->Shape4ArgNameAndIndex("in", i)) << "for input " << i;
      }
      *ctx->Shape4ArgNameAndIndex("out", 0) = *first;
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
      FOR_RANGE(int64_t, i, 0, rank) { ctx->NewBuilder().Split(ctx->inputs(), i).Split(ctx->outputs(), i).Build(); }
      ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
      return Maybe<void>::Ok();
    });

class SumKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const auto weights = ctx->Attr<std::vector<float>>("weights");
    const user_op::Tensor *bias = ctx->Tensor4ArgNameAndIndex("bias", 0);
    FOR_RANGE(int64_t, k, 0, out->shape().elem_cnt()) {
      double total = bias ? bias->dptr<double>()[k] : 0;
      FOR_RANGE(int32_t, i, 0, ctx->input_size("in")) {
        total += ctx->Tensor4ArgNameAndIndex("in", i)->dptr<double>()[k] * (weights.empty() ? 1 : weights[i]);
      }
      out->mut_dptr<double>()[k] = total;
    }
  }
};
REGISTER_USER_KERNEL("t_sum").SetCreateFn<SumKernel>().SetIsMatchedHob((user_op::HobDeviceTag() == "cpu") &
                                                                       (user_op::HobDataType("out", 0) ==
                                                                        DataType::kDouble) &
                                                                       (user_op::HobInputSize("in") > 1));

REGISTER_USER_OP_GRAD("t_sum").SetGenBackwardOpConfFn([](const user_op::UserOpWrapper &op, user_op::AddOpFn add) {
  const auto weights = op.attr<std::vector<float>>("weights");
  FOR_RANGE(int32_t, i, 0, op.input_size("in")) {
    if (!op.NeedGenGradTensor4OpInput("in", i)) continue;
    user_op::UserOpConfWrapperBuilder builder("weigh_" + std::to_string(i));
    const auto grad = builder.Op("t_scale_double")
                          .Input("x", op.GetGradTensorWithOpOutput("out", 0))
                          .Attr<double>("factor", weights.empty() ? 1.0 : weights[i])
                          .Output("out")
                          .Build();
    op.BindGradTensorWithOpInput(grad.output("out", 0), "in", i);
    add(grad);
  }
  if (op.has_input("bias", 0)) op.BindGradTensorWithOpInput(op.output_grad("out", 0), "bias", 0);
});

// scale_double: as scale, with the older spellings of contexts and registrations.
REGISTER_USER_OP("t_scale_double")
    .Input("x")
    .Output("out")
    .Attr("factor", UserOpAttrType::kAtDouble)
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      CHECK_GT(ctx->GetAttr<double>("factor"), -1e30) << "is too small";
      *ctx->TensorDesc4ArgNameAndIndex("out", 0) = *ctx->TensorDesc4ArgNameAndIndex("x", 0);
      return Maybe<void>::Ok();
    });

class ScaleDoubleKernel final : public user_op::OpKernel {
 public:
  explicit ScaleDoubleKernel(const user_op::KernelInitContext &ctx) : factor_(ctx.Attr<double>("factor")) {}
  void Compute(user_op::KernelContext *ctx) override {
    user_op::Tensor *tmp = ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0);
    CHECK_EQ(tmp->shape().elem_cnt(), 1024);
    double *scratch = reinterpret_cast<double *>(tmp->mut_dptr<char>());
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) {
      scratch[i % 128] = x->dptr<double>()[i] * factor_;
      ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<double>()[i] = scratch[i % 128];
    }
  }

 private:
  double factor_;
};
REGISTER_USER_KERNEL("t_scale_double")
    .SetCreateFn([](const oneflow::user_op::KernelInitContext &ctx) { return new ScaleDoubleKernel(ctx); })
    .SetIsMatchedPred([](const user_op::KernelRegContext &ctx) {
      return ctx.TensorDesc4ArgNameAndIndex("x", 0)->data_type() == kDouble;
    })
    .SetInferTmpSizeFn([](const oneflow::user_op::InferContext *) { return 1024; });

REGISTER_USER_OP_GRAD("t_scale_double").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  ctx->DefineOp("dx", [&ctx](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("t_scale_double")
        .InputBind("x", ctx->FwOp().output_grad("out", 0))
        .Attr<double>("factor", ctx->FwOp().attr<double>("factor"))
        .Output("out")
        .Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0), [&ctx]() { return ctx->GetOp("dx").output("out", 0); });
});

// attributes: out = every attribute as numbers, one after another.
REGISTER_USER_OP("t_attributes")
    .Output("out")
    .Attr<int32_t>("i32", -1)
    .Attr<int64_t>("i64", int64_t(1) << 40)
    .Attr<bool>("flag", true)
    .Attr<float>("f32", 0.5f)
    .Attr<double>("f64", 0.1)
    .Attr<std::string>("text", "four")
    .Attr<Shape>("shape_attr", Shape({2, 3}))
    .Attr<DataType>("type", DataType::kInt8)
    .Attr<std::vector<int32_t>>("i32s", std::vector<int32_t>{10, 11, 12})
    .Attr<std::vector<int64_t>>("i64s", {})
    .Attr("f32s", UserOpAttrType::kAtListFloat, std::vector<float>{1.5f})
    .Attr<std::vector<DataType>>("types", {kFloat, kBool})
    .Attr<std::vector<Shape>>("shapes", {Shape({7}), Shape({8, 9})})
    .Attr("texts", UserOpAttrType::kAtListString, std::vector<std::string>{"a", "bc"})
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      ctx->SetOutputShape("out", 0, Shape({32}));
      ctx->SetOutputDType("out", 0, DataType::kDouble);
      return Maybe<void>::Ok();
    });

class AttributesKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    std::vector<double> all{static_cast<double>(ctx->Attr<int32_t>("i32")),
                            static_cast<double>(ctx->Attr<int64_t>("i64")),
                            static_cast<double>(ctx->Attr<bool>("flag")),
                            ctx->Attr<float>("f32"),
                            ctx->Attr<double>("f64"),
                            static_cast<double>(ctx->Attr<std::string>("text").size())};
    const auto add = [&all](double value) { all.push_back(value); };
    for (int64_t dim : ctx->Attr<Shape>("shape_attr")) add(static_cast<double>(dim));
    add(ctx->Attr<DataType>("type"));
    for (int32_t item : ctx->Attr<std::vector<int32_t>>("i32s")) add(item);
    for (int64_t item : ctx->Attr<std::vector<int64_t>>("i64s")) add(static_cast<double>(item));
    for (float item : ctx->Attr<std::vector<float>>("f32s")) add(item);
    for (DataType item : ctx->Attr<std::vector<DataType>>("types")) add(item);
    for (const Shape &shape : ctx->Attr<std::vector<Shape>>("shapes")) add(static_cast<double>(shape.elem_cnt()));
    for (const std::string &item : ctx->Attr<std::vector<std::string>>("texts"))
      add(static_cast<double>(item.size()));
    all.resize(32, -7);
    std::copy(all.begin(), all.end(), ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<double>());
  }
};
REGISTER_USER_KERNEL("t_attributes").SetCreateFn<AttributesKernel>();

// halves: a fixed number of inputs and of results; the results have a type of their own.
REGISTER_NO_GRAD_CPU_ONLY_USER_OP("t_halves")
    .Input("in", 3)
    .Output("parts", 2)
    .Output("count")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const int64_t n = ctx->InputShape("in", 0).elem_cnt();
      CHECK_EQ_OR_RETURN(n % 2, 0) << "elements";
      FOR_RANGE(int32_t, i, 0, ctx->output_size("parts")) { ctx->SetOutputShape("parts", i, Shape({n / 2})); }
      ctx->SetOutputShape("count", 0, Shape({}));
      return Maybe<void>::Ok();
    })
    .SetDataTypeInferFn([](user_op::InferContext *ctx) {
      *ctx->Dtype4ArgNameAndIndex("parts", 0) = DataType::kDouble;
      *ctx->Dtype4ArgNameAndIndex("parts", 1) = DataType::kDouble;
      *ctx->Dtype4ArgNameAndIndex("count", 0) = DataType::kInt64;
      return Maybe<void>::Ok();
    });

class HalvesKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const float *a = ctx->Tensor4ArgNameAndIndex("in", 0)->dptr<float>();
    const float *c = ctx->Tensor4ArgNameAndIndex("in", 2)->dptr<float>();
    user_op::Tensor *first = ctx->Tensor4ArgNameAndIndex("parts", 0),
                    *second = ctx->Tensor4ArgNameAndIndex("parts", 1);
    const int64_t n = first->shape().elem_cnt();
    FOR_RANGE(int64_t, i, 0, n) {
      first->mut_dptr<double>()[i] = a[i];
      second->mut_dptr<double>()[i] = c[n + i];
    }
    *ctx->Tensor4ArgNameAndIndex("count", 0)->mut_dptr<int64_t>() = n;
  }
};
REGISTER_USER_KERNEL("t_halves").SetCreateFn<HalvesKernel>().SetIsMatchedHob(user_op::HobTrue());

// which: writes the number of the kernel that was chosen.
REGISTER_USER_OP("t_which")
    .Input("x")
    .Output("out")
    .Attr<std::string>("mode", "plain")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      ctx->SetOutputShape("out", 0, Shape({}));
      ctx->SetOutputDType("out", 0, kInt64);
      return Maybe<void>::Ok();
    });

template <int number>
class WhichKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    *ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<int64_t>() = number;
  }
};
REGISTER_USER_KERNEL("t_which").SetCreateFn<WhichKernel<1>>().SetIsMatchedHob(
    user_op::HobAttr<std::string>("mode") == "plain" || user_op::HobAttr<std::string>("mode") == "low");
REGISTER_USER_KERNEL("t_which")
    .SetCreateFn<WhichKernel<2>>()
    .SetPriority(user_op::kKernelPriorityOptimized)
    .SetIsMatchedHob(!(user_op::HobAttr<std::string>("mode") == "low") && (user_op::HobDataType("x", 0) == kFloat));
REGISTER_USER_KERNEL("t_which")
    .SetCreateFn<WhichKernel<3>>()
    .SetPriority(user_op::kKernelPriorityFallback)
    .SetIsMatchedHob(hob::make_custom("the mode is not odd",
                                      [](const user_op::KernelRegContext &ctx) {
                                        return ctx.Attr<std::string>("mode") != "odd";
                                      }) |
                     user_op::HobFalse());

// count: how often the kernel has run; state, cache, and a kernel that runs though its result is empty.
REGISTER_USER_OP("t_count")
    .Input("x")
    .Output("out")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::InOutCorrespond)
    .SetInputArgModifyFn([](const user_op::GetInputArgModifier &modifier, const user_op::UserOpConfWrapper &) {
      modifier("x", 0)->set_requires_grad(false);
    });

class Doubled final : public user_op::OpKernelCache {
 public:
  explicit Doubled(int64_t count) : count(count) {}
  const int64_t count;
};

class CountKernel final : public user_op::OpKernel {
  std::shared_ptr<user_op::OpKernelState> CreateOpKernelState(user_op::KernelInitContext *ctx) const override {
    return std::make_shared<user_op::OpKernelStateWrapper<int64_t>>(100);
  }
  std::shared_ptr<user_op::OpKernelCache> InitOpKernelCache(user_op::KernelCacheContext *ctx) const override {
    return std::make_shared<Doubled>(2 * ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape().elem_cnt());
  }
  void Compute(user_op::KernelComputeContext *ctx, user_op::OpKernelState *state,
               const user_op::OpKernelCache *cache) const override {
    int64_t *runs = dynamic_cast<user_op::OpKernelStateWrapper<int64_t> *>(state)->Mutable();
    ++*runs;
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const int64_t doubled = dynamic_cast<const Doubled *>(cache)->count;
    FOR_RANGE(int64_t, i, 0, out->shape().elem_cnt()) { out->mut_dptr<int64_t>()[i] = *runs + 1000 * doubled; }
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return true; }
};
REGISTER_USER_KERNEL("t_count").SetCreateFn<CountKernel>().SetIsMatchedHob(user_op::HobDataType("x", 0) == kInt64);
REGISTER_USER_OP_GRAD("t_count").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0), [&ctx]() { return ctx->FwOp().output_grad("out", 0); });
});

// open: results whose numbers the call chooses; each "many" is x times its number, "extra" is x + 100.
REGISTER_USER_OP("t_open")
    .Input("x")
    .OutputWithMinimum("many", 1)
    .OptionalOutput("extra")
    .OptionalOutputWithMininum("more", 2)
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      for (const auto &out : ctx->outputs()) {
        ctx->SetOutputShape(out.first, out.second, ctx->InputShape("x", 0));
      }
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis);

class OpenKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    for (const auto &out : ctx->outputs()) {
      double *y = ctx->Tensor4ArgNameAndIndex(out.first, out.second)->mut_dptr<double>();
      const double factor = out.first == "many" ? out.second + 1 : out.first == "more" ? -out.second - 1 : 1;
      FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) {
        y[i] = x->dptr<double>()[i] * factor + (out.first == "extra" ? 100 : 0);
      }
    }
    CHECK_EQ(ctx->has_output("extra", 0), ctx->Tensor4ArgNameAndIndex("extra", 0) != nullptr);
  }
};
REGISTER_USER_KERNEL("t_open").SetCreateFn<OpenKernel>().SetIsMatchedHob(user_op::HobDataType("x", 0) == kDouble);
REGISTER_USER_OP_GRAD("t_open").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  ctx->DefineOp("sum", [&ctx](user_op::BackwardOpBuilder &builder) {
    builder.OpTypeName("add_n").Output("out");
    FOR_RANGE(int32_t, i, 0, ctx->FwOp().output_size("many")) {
      ctx->DefineOp("part" + std::to_string(i), [&ctx, i](user_op::BackwardOpBuilder &part) {
        return part.OpTypeName("t_scale_double")
            .InputBind("x", ctx->FwOp().output_grad("many", i))
            .Attr<double>("factor", i + 1)
            .Output("out")
            .Build();
      });
      builder.InputBind("in", ctx->GetOp("part" + std::to_string(i)).output("out", 0));
    }
    FOR_RANGE(int32_t, i, 0, ctx->FwOp().output_size("extra")) {
      builder.InputBind("in", ctx->FwOp().output_grad("extra", i));
    }
    return builder.Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0), [&ctx]() { return ctx->GetOp("sum").output("out", 0); });
});

}  // namespace
}  // namespace oneflow
