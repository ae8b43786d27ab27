// Functions over tensors, and a gradient as a class; test_functions.py says what they compute.
#include "oneflow/core/framework/framework.h"
#include "oneflow/core/framework/op_expr_grad_function.h"
#include "oneflow/core/functional/function_library.h"

ONEFLOW_DECLARE_FUNCTIONAL_API(LeakyGrad)

namespace oneflow {
namespace {

REGISTER_USER_OP("t_leaky")
    .Input("x")
    .Output("y")
    .Attr<float>("alpha")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis);
REGISTER_USER_OP("t_leaky_grad")
    .Input("x")
    .Input("dy")
    .Output("dx")
    .Attr<float>("alpha")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis);

class LeakyKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const double *x = ctx->Tensor4ArgNameAndIndex("x", 0)->dptr<double>();
    user_op::Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    const auto alpha = ctx->Attr<float>("alpha");
    FOR_RANGE(int64_t, i, 0, y->shape().elem_cnt()) { y->mut_dptr<double>()[i] = x[i] > 0 ? x[i] : alpha * x[i]; }
  }
};
class LeakyGradKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const double *x = ctx->Tensor4ArgNameAndIndex("x", 0)->dptr<double>();
    const double *dy = ctx->Tensor4ArgNameAndIndex("dy", 0)->dptr<double>();
    user_op::Tensor *dx = ctx->Tensor4ArgNameAndIndex("dx", 0);
    const auto alpha = ctx->Attr<float>("alpha");
    FOR_RANGE(int64_t, i, 0, dx->shape().elem_cnt()) { dx->mut_dptr<double>()[i] = x[i] > 0 ? dy[i] : alpha * dy[i]; }
  }
};
REGISTER_USER_KERNEL("t_leaky").SetCreateFn<LeakyKernel>().SetIsMatchedHob(user_op::HobDataType("y", 0) == kDouble);
REGISTER_USER_KERNEL("t_leaky_grad")
    .SetCreateFn<LeakyGradKernel>()
    .SetIsMatchedHob(user_op::HobDataType("dx", 0) == kDouble);

}  // namespace

namespace one {

struct LeakyState : public AutoGradCaptureState {
  bool requires_grad;
  float alpha;
};

class Leaky : public OpExprGradFunction<LeakyState> {
 public:
  Maybe<void> Init(const OpExpr &op) override {
    const auto *fw_op_expr = dynamic_cast<const UserOpExpr *>(&op);
    CHECK_NOTNULL_OR_RETURN(fw_op_expr);
    base_attrs_ = MakeAttrMapFromUserOpConf(fw_op_expr->proto());
    return Maybe<void>::Ok();
  }
  Maybe<void> Capture(LeakyState *ctx, const TensorTuple &inputs, const TensorTuple &outputs,
                      const AttrMap &attrs) const override {
    CHECK_EQ_OR_RETURN(inputs.size(), size_t(1));
    CHECK_EQ_OR_RETURN(outputs.size(), size_t(1));
    ctx->requires_grad = inputs.at(0)->requires_grad();
    ComposedAttrMap composed_attrs(attrs, base_attrs_);
    ctx->alpha = JUST(composed_attrs.GetAttr<float>("alpha"));
    CHECK_OR_RETURN(ctx->alpha != 7) << "seven is no slope";
    if (ctx->alpha == 8) JUST(composed_attrs.GetAttr<float>("beta"));
    ctx->SaveTensorForBackward(inputs.at(0));
    return Maybe<void>::Ok();
  }
  Maybe<void> Apply(const LeakyState *ctx, const TensorTuple &out_grads, TensorTuple *in_grads) const override {
    in_grads->resize(1);
    const auto &x = ctx->SavedTensors().at(0);
    if (ctx->requires_grad) in_grads->at(0) = JUST(functional::LeakyGrad(x, out_grads.at(0), ctx->alpha));
    return Maybe<void>::Ok();
  }

 private:
  AttrMap base_attrs_;
};
REGISTER_OP_EXPR_GRAD_FUNCTION("t_leaky", Leaky);

namespace functional {
namespace impl {

class LeakyFunctor {
 public:
  LeakyFunctor() { op_ = CHECK_JUST(one::OpBuilder("t_leaky").Input("x").Output("y").Build()); }
  Maybe<Tensor> operator()(const std::shared_ptr<one::Tensor> &x, const float &alpha) const {
    MutableAttrMap attrs;
    JUST(attrs.SetAttr<float>("alpha", alpha));
    return OpInterpUtil::Dispatch<one::Tensor>(*op_, {x}, attrs);
  }

 private:
  std::shared_ptr<OpExpr> op_;
};

class LeakyGradFunctor {
 public:
  LeakyGradFunctor() { op_ = CHECK_JUST(one::OpBuilder("t_leaky_grad").Input("x").Input("dy").Output("dx").Build()); }
  Maybe<Tensor> operator()(const std::shared_ptr<one::Tensor> &x, const std::shared_ptr<one::Tensor> &dy,
                           const float &alpha) const {
    MutableAttrMap attrs;
    JUST(attrs.SetAttr<float>("alpha", alpha));
    return OpInterpUtil::Dispatch<one::Tensor>(*op_, {x, dy}, attrs);
  }

 private:
  std::shared_ptr<OpExpr> op_;
};

// Two functors under one name: a number or a tensor times a tensor.
class TimesNumberFunctor {
 public:
  TimesNumberFunctor() {
    op_ = CHECK_JUST(
        one::OpBuilder("scalar_mul").Input("in").Output("out").Attr<bool>("has_float_operand", true).Build());
  }
  Maybe<Tensor> operator()(const std::shared_ptr<Tensor> &x, const Scalar &number) const {
    MutableAttrMap attrs;
    JUST(attrs.SetAttr<double>("float_operand", number.As<double>()));
    return OpInterpUtil::Dispatch<Tensor>(*op_, {x}, attrs);
  }

 private:
  std::shared_ptr<OpExpr> op_;
};
class TimesTensorFunctor {
 public:
  TimesTensorFunctor() {
    op_ = CHECK_JUST(one::OpBuilder("broadcast_mul").Input("x").Input("y").Output("z").Build());
  }
  Maybe<Tensor> operator()(const std::shared_ptr<Tensor> &x, const std::shared_ptr<Tensor> &y) const {
    return OpInterpUtil::Dispatch<Tensor>(*op_, {x, y});
  }

 private:
  std::shared_ptr<OpExpr> op_;
};

// Every kind of argument: the sum of the values of the arguments, times each of the tensors.
class EverythingFunctor {
 public:
  Maybe<TensorTuple> operator()(const TensorTuple &xs, const Optional<Tensor> &scale, const Optional<int64_t> &extra,
                                const std::vector<int32_t> &list, const std::vector<float> &floats, const Shape &dims,
                                const std::string &text, const bool &flag, const DataType &type,
                                const double &number) const {
    CHECK_OR_RETURN(flag) << "the flag is off";
    double total = extra.has_value() ? JUST(extra.value()) : 0;
    for (int32_t item : list) total += item;
    for (float item : floats) total += item;
    total += number + dims.elem_cnt() + text.size() + (type == kInt8 ? 1000 : 0);
    TensorTuple results;
    for (const auto &x : xs) {
      const auto y = scale.has_value() ? JUST(Call<Tensor>("Times", x, JUST(scale.value()))) : x;
      results.push_back(JUST(Call<Tensor>("Times", y, total)));
    }
    return results;
  }
};

// Lists of numbers that attributes do not have: x times their sum; whole numbers count tenfold, and true twice.
class ListsFunctor {
 public:
  Maybe<Tensor> operator()(const std::shared_ptr<Tensor> &x, const std::vector<double> &doubles,
                           const std::vector<bool> &bools, const std::vector<Scalar> &scalars,
                           const Optional<std::vector<double>> &more) const {
    double total = 0;
    for (double item : doubles) total += item;
    for (bool item : bools) total += item ? 2 : 0;
    for (const Scalar &item : scalars) total += item.As<double>() * (item.IsIntegral() ? 10 : 1);
    if (more.has_value()) {
      for (double item : *JUST(more.value())) total += item;
    }
    return Call<Tensor>("Times", x, total);
  }
};

// The same, called from C++.
class ListsAgainFunctor {
 public:
  Maybe<Tensor> operator()(const std::shared_ptr<Tensor> &x) const {
    return Call<Tensor>("Lists", x, std::vector<double>{0.1, 0.2}, std::vector<bool>{true, false, true},
                        std::vector<Scalar>{Scalar(1), Scalar(0.5)}, Optional<std::vector<double>>());
  }
};

// Failures, by number.
class FailFunctor {
 public:
  Maybe<Tensor> operator()(const std::shared_ptr<Tensor> &x, const int64_t &how) const {
    if (how == 1) throw std::runtime_error("thrown by the functor");
    if (how == 2) return Call<Tensor>("NoSuchFunction", x);
    if (how == 3) return Call<Tensor>("Leaky", x);
    if (how == 4) return Call<Tensor>("Leaky", x, "steep");
    const auto op = JUST(OpBuilder(how == 5 ? "t_no_such_op" : "matmul").Input("a").Input("b").Output("out").Build());
    if (how == 6) return OpInterpUtil::Dispatch<Tensor>(*op, {x, x});
    if (how == 7) return OpInterpUtil::Dispatch<Tensor>(*op, {x, x, x});
    if (how == 8) CHECK_EQ_OR_RETURN(x->shape()->At(0), 2);
    return OpInterpUtil::Dispatch<Tensor>(*op, {x});
  }
};

}  // namespace impl

ONEFLOW_FUNCTION_LIBRARY(m) {
  m.add_functor<impl::LeakyFunctor>("Leaky");
  m.add_functor<impl::LeakyGradFunctor>("LeakyGrad");
  m.add_functor<impl::TimesNumberFunctor, impl::TimesTensorFunctor>("Times");
  m.add_functor<impl::EverythingFunctor>("Everything");
  m.add_functor<impl::ListsFunctor>("Lists");
  m.add_functor<impl::ListsAgainFunctor>("ListsAgain");
  m.add_functor<impl::FailFunctor>("Fail");
}

}  // namespace functional
}  // namespace one
}  // namespace oneflow
