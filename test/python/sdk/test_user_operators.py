"""Operators from a C++ library against NumPy: values, types, attributes, SBP, gradients, choice of kernels."""

import ml_dtypes
import numpy as np
import pytest

from oneflow.dialect import dtypes as dt
from oneflow.dialect.external import launch
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import Call, OperatorError, attribute_values, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.testing import checks
from oneflow.testing.gradients import check_gradient
from oneflow.testing.sample import Sample, t

SAMPLES = [
    Sample("t_scale", [t(3, 4)], {"factor": 1.5}, dtypes=[dt.float32, dt.float64, dt.float16, dt.bfloat16]),
    Sample("t_scale", [t(6, high=9)], {"factor": 3.0}, dtypes=[dt.int32]),
    Sample("t_cube", [t(4, 3)], dtypes=[dt.float64]),
    Sample("t_sum", [[t(5, 3), t(5, 3), t(5, 3)]], {"weights": [1.0, -2.0, 0.5]}, dtypes=[dt.float64]),
    Sample("t_sum", [[t(5, 3), t(5, 3)], t(5, 3)], dtypes=[dt.float64]),
    Sample("t_scale_double", [t(40, 5)], {"factor": -0.3}, dtypes=[dt.float64]),
    Sample("t_open", [t(5, 3)], {"many_count": 3, "extra_count": 1}, dtypes=[dt.float64]),
    Sample("t_halves", [[t(4), t(4), t(4)]], dtypes=[dt.float32], gradient=False, why="registered as NoGrad"),
]
CASES = [pytest.param(s, d, id=f"{s}-{d}") for s in SAMPLES for d in s.dtypes]


@pytest.mark.parametrize("sample, dtype", CASES)
def test_types_and_text(sampler, sample, dtype):
    checks.check_types(sample, dtype, sampler)
    checks.check_round_trip(sample, dtype, create_context(sampler), sampler)


@pytest.mark.parametrize("sample", [pytest.param(s, id=str(s)) for s in SAMPLES if dt.float64 in s.dtypes])
def test_sbp_and_gradient(sampler, sample):
    checks.check_sbp(sample, sampler)
    check_gradient(sample, sampler)


def test_values_of_library_operators(ops):
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 4, 5))
    for dtype, atol in ((np.float32, 0), (np.float16, 0), (ml_dtypes.bfloat16, 0)):
        x = a.astype(dtype)
        want = (x.astype(np.float32) * np.float32(1.5)).astype(dtype)
        np.testing.assert_allclose(ops.t_scale(x, factor=1.5).handle.astype(float), want.astype(float), atol=atol)
    np.testing.assert_array_equal(ops.t_cube(a).handle, a * a * a)
    got = ops.t_sum([a, b], c, weights=[2.0, -1.0]).handle
    np.testing.assert_allclose(got, c + a * 2 - b, rtol=1e-15)
    np.testing.assert_array_equal(ops.t_scale(np.arange(6)[::2].astype(np.int32)).handle, [0, 4, 8])


def test_results_of_several_types(ops):
    x = np.arange(6, dtype=np.float32)
    first, second, count = ops.t_halves([x, x, x * 10])
    assert (first.dtype, second.dtype, count.dtype) == (dt.float64, dt.float64, dt.int64)
    np.testing.assert_array_equal(first.handle, [0, 1, 2])
    np.testing.assert_array_equal(second.handle, [30, 40, 50])
    assert count.handle == 3


def test_a_call_chooses_how_many_results_there_are(ops):
    x = np.array([1.0, -2.0])
    for many, extra, more in ((1, 0, 0), (2, 1, 3), (3, 0, 2)):
        found = ops.t_open(x, many_count=many, extra_count=extra, more_count=more)
        factors = [*range(1, many + 1), *range(-1, -1 - more, -1)]
        wanted = [x * f for f in factors]
        wanted[many:many] = [x + 100] * extra
        got = found if isinstance(found, tuple) else (found,)
        np.testing.assert_array_equal([v.handle for v in got], wanted)


@pytest.mark.parametrize(
    "attrs, message",
    [
        ({"many_count": 0}, "expected at least 1 for many, got 0"),
        ({"extra_count": 2}, "expected none or 1 for extra, got 2"),
        ({"more_count": 1}, "expected none or at least 2 for more, got 1"),
        ({"many_count": -1}, "expected at least 1 for many, got -1"),
    ],
)
def test_wrong_numbers_of_results(ops, attrs, message):
    with pytest.raises(OperatorError, match=message):
        ops.t_open(np.zeros(2), **attrs)


def test_attributes_arrive(ops):
    defaults = [-1, 2**40, 1, 0.5, 0.1, 4, 2, 3, 4, 10, 11, 12, 1.5, 2, 12, 7, 72, 1, 2]
    got = ops.t_attributes().handle
    np.testing.assert_array_equal(got[: len(defaults)], defaults)
    assert (got[len(defaults) :] == -7).all()
    given = ops.t_attributes(
        i32=7, i64=-8, flag=False, f32=0.1, f64=1e300, text="ä", shape_attr=(), type=dt.bool_, i32s=[], i64s=[1, 2],
        f32s=[3.0], types=[], shapes=[(), (2, 2)], texts=[""],
    )  # fmt: skip
    want = [7, -8, 0, np.float32(0.1), 1e300, 2, 12, 1, 2, 3, 1, 4, 0]
    np.testing.assert_array_equal(given.handle[: len(want)], want)


@pytest.mark.parametrize(
    "mode, dtype, number",
    [("plain", np.float32, 2), ("plain", np.int32, 1), ("low", np.float32, 1), ("other", np.int32, 3)],
)
def test_priority_chooses_the_kernel(ops, mode, dtype, number):
    assert ops.t_which(np.zeros(2, dtype), mode=mode).handle == number


def test_state_lives_with_the_kernel(sampler):
    record = sampler["t_count"]
    desc = TensorDesc((3,), dt.int64)
    call = Call(record, {"x": desc}, {}, {"out": desc})
    kernel = record.kernel(call)
    x, out = np.zeros(3, np.int64), np.zeros(3, np.int64)
    for runs in (101, 102, 103):
        launch(kernel, [x, out], call)
        assert (out == runs + 6000).all()
    launch(record.kernel(call), [x, out], call)
    assert out[0] == 101 + 6000


def test_empty_and_scalar_tensors(ops):
    assert ops.t_scale(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert ops.t_scale(np.float32(4)).handle == 8


def test_dynamic_sizes(sampler):
    def results(name, *shapes, dtype=dt.float64, **attrs):
        record = sampler[name]
        descs = tuple(TensorDesc(s, dtype) for s in shapes)
        operand = {"x": descs[0]} if name != "t_sum" else {"in": descs, "bias": None}
        return infer(record, Call(record, operand, attribute_values(record, attrs)))[0].shape

    assert results("t_scale", (None, 4)) == (None, 4)
    assert results("t_scale", (None, None)) == (None, None)
    assert results("t_sum", (None, 4), (3, None)) == (3, 4)
    assert results("t_which", (None,)) == ()


def test_gradient_is_built_as_needed(sampler):
    """Only the operations that a wanted gradient needs are built, and once."""
    sample = Sample("t_sum", [[t(2), t(2), t(2)]], dtypes=[dt.float64])
    built = []

    class Watching(NumpyBuilder):
        def emit(self, op, results):
            built.append(op.record.name)
            return super().emit(op, results)

    ops = Watching(sampler)
    call = checks.make_case(sample, dt.float64, sampler)
    call.inputs["in"] = tuple(map(ops.wrap, call.inputs["in"]))
    call.outputs = {"out": ops.t_sum(call.inputs["in"])}
    built.clear()
    grads = sampler["t_sum"].grad(ops, call, ops.wrap(np.ones(2)))
    assert built == []
    grads["in"][1]()
    assert built == ["t_scale_double"]


def test_operands_without_gradient(sampler):
    ops = NumpyBuilder(sampler)
    x = ops.wrap(np.zeros(2, np.int64))
    call = Call(sampler["t_count"], {"x": x}, {}, {"out": ops.t_count(x)})
    assert sampler["t_count"].grad(ops, call, None) == {}


OTHER_NAMES = """#include "oneflow/core/framework/framework.h"
namespace oneflow { namespace {
REGISTER_USER_OP("t_other_names").Input("in").Output("out")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged);
class Kernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    double *out = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<double>();
    FOR_RANGE(int64_t, i, 0, in->shape().elem_cnt()) { out[i] = in->dptr<double>()[i] * in->dptr<double>()[i] / 2; }
  }
};
REGISTER_USER_KERNEL("t_other_names").SetCreateFn<Kernel>();
REGISTER_USER_OP_GRAD("t_other_names").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  CHECK(ctx->FwOp().arg_tensor_desc("x", 0).shape() == ctx->FwOp().arg_tensor_desc("y", 0).shape());
  ctx->DefineOp("grad", [&](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("broadcast_mul").InputBind("x", ctx->FwOp().input("x", 0))
        .InputBind("y", ctx->FwOp().output_grad("y", 0)).Output("z").Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0), [&]() { return ctx->GetOp("grad").output("z", 0); });
});
}}"""


def test_gradients_may_call_the_one_input_x_and_the_one_output_y(load):
    registry = load("other_names", OTHER_NAMES)
    with pytest.warns(UserWarning, match='t_other_names: in its gradient function "[xy]" is taken for "(in|out)"'):
        check_gradient(Sample("t_other_names", [t(4, 3)], dtypes=[dt.float64]), registry)
