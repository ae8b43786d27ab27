"""OneFlow's registries, contexts and tensors have all their methods, with the values that hold here."""

import numpy as np
import pytest

from oneflow.dialect.dtypes import float32
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.record import OperatorError, Registry
from oneflow.runtime.user_ops import framework
from oneflow.runtime.user_ops.library import LibraryError, load_library
from oneflow.runtime.user_ops.marshal import CUDA
from oneflow.testing.checks import described, make_case
from oneflow.testing.sample import Sample, t


@pytest.fixture(scope="session")
def registry(load):
    return load("all_methods")


def test_every_method_is_called(registry):
    """The checks in the library compare the results of the methods."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(NumpyBuilder(registry).t_all_methods(x).handle, x)


def test_signatures_and_complexities(registry):
    call = described(make_case(Sample("t_all_methods", [t(4, 3)]), float32, registry))
    record = registry["t_all_methods"]
    assert "S(0) -> S(0)" in map(str, record.signatures(call))
    assert record.complexity is not None and record.complexity(call) == 12


def test_inputs_on_the_host_are_refused_on_a_device(registry):
    call = described(make_case(Sample("t_all_methods", [t(2, 2)]), float32, registry))
    rules = registry["t_all_methods"].in_place.__self__
    with pytest.raises(OperatorError, match=r"asks host memory; remove it, and copy .* by cudaMemcpyAsync"):
        framework.ask("kernel_matches", rules.encode(call, CUDA), failure=call.error)


def test_a_host_input_has_to_exist(build):
    text = """#include "oneflow/core/framework/framework.h"
    namespace oneflow {
    REGISTER_USER_OP("t_host").Input("x").Output("y")
        .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged);
    REGISTER_OP_HOST_MEMORY_INPUT("t_host", "axis", 0);
    REGISTER_OP_HOST_MEMORY_INPUT("t_nothing", "axis", 0);
    }"""
    with pytest.raises(LibraryError) as error:
        load_library(build("host_input", text), Registry())
    assert "the operator t_host has no input named axis" in str(error.value)
    assert "a host input of the operator t_nothing, which is not registered" in str(error.value)


def test_predicates_that_compare_two_values_of_a_call(build):
    text = """#include "oneflow/core/framework/framework.h"
    namespace oneflow {
    REGISTER_USER_OP("t_alike").Input("a").Input("b").Output("y")
        .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
          ctx->SetOutputShape("y", 0, ctx->InputShape("a", 0));
          ctx->SetOutputDType("y", 0, ctx->InputDType("a", 0));
          return Maybe<void>::Ok();
        });
    class Sum final : public user_op::OpKernel {
      void Compute(user_op::KernelComputeContext *ctx) const override {
        const float *a = ctx->Tensor4ArgNameAndIndex("a", 0)->dptr<float>();
        const float *b = ctx->Tensor4ArgNameAndIndex("b", 0)->dptr<float>();
        user_op::Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
        FOR_RANGE(int64_t, i, 0, y->shape().elem_cnt()) { y->mut_dptr<float>()[i] = a[i] + b[i]; }
      }
    };
    REGISTER_USER_KERNEL("t_alike").SetCreateFn<Sum>().SetIsMatchedHob(
        user_op::HobDataType("a", 0) == user_op::HobDataType("b", 0) &&
        user_op::HobInputSize("a") >= user_op::HobInputSize("b"));
    }"""
    registry = Registry()
    load_library(build("alike", text), registry)
    a = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(NumpyBuilder(registry).t_alike(a, a).handle, 2 * a)
    failed = r"data type of a\[0\] == data type of b\[0\] \(it is float32 and int64\)"
    with pytest.raises(OperatorError, match=failed):
        NumpyBuilder(registry).t_alike(a, np.arange(3))
