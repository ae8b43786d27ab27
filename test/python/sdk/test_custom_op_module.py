"""Operators of a folder with kernels in Python, in jobs and with gradients; calls by `user_op_builder`."""

import numpy as np
import pytest

import oneflow as flow
import oneflow.typing as tp
from oneflow.runtime.executable import KernelError
from oneflow.runtime.user_ops.library import LibraryError

DEFINED = """
#include "oneflow/core/framework/framework.h"
namespace oneflow {
REGISTER_USER_OP("com_square_forward")
    .Attr<std::string>("device_sub_tag", "py")
    .Input("in")
    .Output("out")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      *ctx->Shape4ArgNameAndIndex("out", 0) = *ctx->Shape4ArgNameAndIndex("in", 0);
      *ctx->Dtype4ArgNameAndIndex("out", 0) = *ctx->Dtype4ArgNameAndIndex("in", 0);
      return Maybe<void>::Ok();
    });
REGISTER_USER_OP("com_square_backward")
    .Input("x")
    .Input("dy")
    .Output("dx")
    .Attr<std::string>("device_sub_tag", "py")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      *ctx->Shape4ArgNameAndIndex("dx", 0) = *ctx->Shape4ArgNameAndIndex("dy", 0);
      return Maybe<void>::Ok();
    });
REGISTER_USER_OP_GRAD("com_square_forward").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  const auto name = ctx->FwOp().op_name() + "_grad";
  ctx->DefineOp(name, [&ctx](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("com_square_backward")
        .InputBind("x", ctx->FwOp().input("in", 0))
        .InputBind("dy", ctx->FwOp().output_grad("out", 0))
        .Output("dx")
        .Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("in", 0),
                            [&ctx, &name]() -> const std::string & { return ctx->GetOp(name).output("dx", 0); });
});
}
"""
API = """
import oneflow as flow

def square(x):
    op = flow.user_op_builder("s").Op("com_square_forward").Input("in", [x]).Output("out").Build()
    return op.InferAndTryRun().SoleOutputBlob()
"""
KERNEL = """
def forward(args):
    (x,) = args
    assert x[0] > -90, "too small"
    return x * x

def backward(args):
    x, dy = args
    return 2 * x * dy
"""


@pytest.fixture(scope="session")
def square(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ops")
    (folder / "com_square").mkdir()
    for ending, text in {"cpp_def.cpp": DEFINED, "py_api.py": API, "py_kernel.py": KERNEL}.items():
        (folder / "com_square" / f"com_square_{ending}").write_text(text)
    op = flow.experimental.custom_op_module("com_square", str(folder))
    return op.py_api().cpp_def().py_kernel().build_load().api.square


def test_custom_operators_in_a_global_function(square):
    flow.config.gpu_device_num(1)

    @flow.global_function(type="predict")
    def job(x: tp.Numpy.Placeholder((3,), dtype=flow.float32)) -> tp.Numpy:
        with flow.scope.placement("cpu", "0:0"):
            return square(x)

    out = job(np.array([-2, 0, 3], np.float32))
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, [4, 0, 9])
    with pytest.raises(KernelError, match="com_square_forward: AssertionError: too small"):
        job(np.full(3, -99, np.float32))
    with pytest.raises(flow.CallError, match=r"expected x of type tensor<3xf32>, got tensor<4xf32>"):
        job(np.zeros(4, np.float32))


def test_gradients_by_the_backward_kernel(square):
    x = flow.tensor(np.array([-2, 0, 3], np.float32), requires_grad=True)
    square(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [-4, 0, 6])


def test_builders_of_calls():
    x = np.array([1.5, -2.5], np.float32)
    build = flow.user_op_builder("b").Op("cast").Input("in", [x]).Output("out").Attr("dtype", flow.int32).Build()
    np.testing.assert_array_equal(build.InferAndTryRun().RemoteBlobList()[0].numpy(), [1, -2])
    doubled = flow.user_op_builder("m").Op("multiply").Input("x", [x]).Input("y", [x]).Output("out").Build()
    np.testing.assert_array_equal(doubled.InferAndTryRun().SoleOutputBlob().numpy(), x * x)
    with pytest.raises(flow.CallError, match=r"expected 1 tensor of out, got 2"):
        flow.user_op_builder("b").Op("cast").Input("in", [x]).Output("out", 2)
    with pytest.raises(flow.CallError, match=r"unknown operator oneflow\.castt; did you mean oneflow\.cast"):
        flow.user_op_builder("b").Op("castt")
    with pytest.raises(flow.CallError, match=r"expected Op\(..\) before Input"):
        flow.user_op_builder("b").Input("in", [x])
    with pytest.raises(flow.CallError, match=r"oneflow\.cast has no operand 'inn'; did you mean in"):
        flow.user_op_builder("b").Op("cast").Input("inn", [x])
    with pytest.raises(flow.CallError, match="expected a list of tensors for in"):
        flow.user_op_builder("b").Op("cast").Input("in", x)  # type: ignore[arg-type]
    with pytest.raises(flow.CallError, match=r"oneflow\.cast: expected 1 tensor for in, got 2"):
        flow.user_op_builder("b").Op("cast").Input("in", [x, x])
    with pytest.raises(flow.CallError, match=r"oneflow\.cast: expected 1 tensor for in, got 2"):
        flow.user_op_builder("b").Op("cast").Input("in", [x]).Input("in", [x])
    with pytest.raises(flow.CallError, match=r"oneflow\.cast: expected Output\('out'\) once, got it twice"):
        flow.user_op_builder("b").Op("cast").Output("out").Output("out")
    with pytest.raises(flow.CallError, match=r"expected InferAndTryRun\(\) before its results"):
        flow.user_op_builder("b").Op("cast").Input("in", [x]).Build().SoleOutputBlob()


def test_results_by_name_and_counts_of_operands():
    x = np.array([[1.5, -2.5]], np.float32)
    added = flow.user_op_builder("a").OpName("b").Op("add_n").InputSize("in", 2).Input("in", [x, x]).Output("out")
    found = added.CheckAndComplete().Build().InferAndTryRun().RemoteBlobDict()
    assert list(found) == ["out"]
    np.testing.assert_array_equal(found["out"][0].numpy(), 2 * x)
    one_by_one = flow.user_op_builder("a").Op("add_n").Input("in", [x]).Input("in", [2 * x, x]).Output("out").Build()
    np.testing.assert_array_equal(one_by_one.InferAndTryRun().SoleOutputBlob().numpy(), 4 * x)
    doubled = flow.user_op_builder("m").Op("multiply").Input("x", [x]).Input("y", [x]).Output("out").Build()
    assert list(doubled.InferAndTryRun().RemoteBlobDict()) == ["out"]
    with pytest.raises(flow.CallError, match=r"oneflow\.add_n: expected 3 tensors for in, got 2"):
        flow.user_op_builder("a").Op("add_n").Input("in", [x, x]).InputSize("in", 3).Build()
    with pytest.raises(flow.CallError, match=r"oneflow\.add_n has no operand 'inn'; did you mean in"):
        flow.user_op_builder("a").Op("add_n").InputSize("inn", 3)


def test_refused_custom_modules(tmp_path):
    with pytest.raises(flow.CallError, match=r"expected x to be annotated with tp\.Numpy\.Placeholder"):
        flow.global_function()(lambda x: x)
    with pytest.raises(LibraryError, match=r"expected the file .*nothing_py_api.py"):
        flow.experimental.custom_op_module("nothing", str(tmp_path)).py_api()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "broken_cpp_def.cpp").write_text("nonsense;")
    with pytest.raises(LibraryError, match=r"cannot build broken:(?s:.*)nonsense"):
        flow.experimental.custom_op_module("broken", str(tmp_path)).cpp_def().build_load()


def module_of(folder, name, kernel, registers=("forward", "backward")):
    """The module of a folder in which some operators say that their kernels are in Python."""
    ops = DEFINED.partition("REGISTER_USER_OP_GRAD")[0].replace("com_square", name)
    first, second = ops.split(f'REGISTER_USER_OP("{name}_backward")')
    (folder / name).mkdir()
    defined = first + (f'REGISTER_USER_OP("{name}_backward")' + second if "backward" in registers else "") + "}"
    if "forward" not in registers:
        defined = '#include "oneflow/core/framework/framework.h"'
    (folder / name / f"{name}_cpp_def.cpp").write_text(defined)
    (folder / name / f"{name}_py_kernel.py").write_text(kernel)
    return flow.experimental.custom_op_module(name, str(folder)).cpp_def().py_kernel()


def test_kernels_that_are_missing(tmp_path):
    backward = "def backward(args):\n    return args[1]\n"
    with pytest.raises(
        LibraryError, match=r"com_none_py_kernel\.py has no forward, the kernel of com_none_forward; add"
    ):
        module_of(tmp_path, "com_none", "forward = 3\n" + backward).build_load()
    with pytest.raises(
        LibraryError, match=r"com_half_py_kernel\.py has no backward, the kernel of com_half_backward"
    ):
        module_of(tmp_path, "com_half", backward.replace("backward", "forward")).build_load()
    with pytest.raises(
        LibraryError, match=r"com_op_py_kernel\.py: expected an operator com_op_forward for its kernel"
    ):
        module_of(tmp_path, "com_op", backward, registers=()).build_load()


def test_a_module_without_an_operator_for_backward(tmp_path):
    text = "def forward(args):\n    return args[0] + 1\n"
    module_of(tmp_path, "com_next", text, registers=("forward",)).build_load()
    np.testing.assert_array_equal(flow.ops.com_next_forward(np.ones(3, np.float32)).numpy(), [2, 2, 2])


def test_a_module_with_kernels_in_cpp(tmp_path):
    text = "def forward(args):\n    return args[0] + 1\n"
    module = module_of(tmp_path, "com_native", text, registers=("forward",))
    (tmp_path / "com_native" / "com_native_cpp_kernel.cpp").write_text("""
    #include "oneflow/core/framework/framework.h"
    namespace oneflow {
    class Kernel final : public user_op::OpKernel {
      void Compute(user_op::KernelComputeContext *ctx) const override {
        user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
        const float *in = ctx->Tensor4ArgNameAndIndex("in", 0)->dptr<float>();
        FOR_RANGE(int64_t, i, 0, out->shape().elem_cnt()) { out->mut_dptr<float>()[i] = in[i] * 5; }
      }
      bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
    };
    REGISTER_USER_KERNEL("com_native_forward").SetCreateFn<Kernel>().SetIsMatchedHob(
        user_op::HobDeviceType() == DeviceType::kCPU);
    }""")
    flow.experimental.custom_op_module("com_native", str(tmp_path)).cpp_def().cpp_kernel().build_load()
    np.testing.assert_array_equal(flow.ops.com_native_forward(np.ones(3, np.float32)).numpy(), [5, 5, 5])
    with pytest.raises(LibraryError, match="com_native_forward"):
        module.build_load()
