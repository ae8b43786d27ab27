"""Operators declared in ODS: C++ classes and registrations, built into a library, and refused text."""

from typing import Any

import numpy as np
import pytest

from oneflow.dialect import dtypes as dt
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import ProgramError, read_module
from oneflow.dialect.record import REGISTRY, Absent, OperatorError, Registry
from oneflow.runtime.user_ops.library import LibraryError, load_library
from oneflow.testing.sample import Sample, t
from oneflow.testing.user_operators import check_op
from oneflow.tools import oneflow_translate
from oneflow.tools.declared_operators import declare
from oneflow.tools.ods import read_ods

DECLARED = """
#ifdef GET_ONEFLOW_DEFINITIONS
include "OneFlowBase.td"
// A leaky rectifier.
def OneFlow_OdsLeakyOp : OneFlow_BaseOp<"ods_leaky",
    [NoSideEffect, NoGrad, DeclareOpInterfaceMethods<UserOpCompatibleInterface>]> {
  let summary = "leaky";
  let input = (ins
    OneFlow_Tensor:$x
  );
  let output = (outs OneFlow_Tensor:$y);
  let attrs = (ins
    DefaultValuedAttr<F32Attr, "0.5">:$alpha
  );
  let has_check_fn = 1;
  let has_logical_tensor_desc_infer_fn = 1;
  let has_physical_tensor_desc_infer_fn = 1;
  let has_get_sbp_fn = 1;
  let has_data_type_infer_fn = 1;
}
def OneFlow_OdsManyOp : OneFlow_BaseOp<"ods_many", [NoMemoryEffect, CpuOnly, SupportNonContiguous]> {
  let input = (ins Variadic<OneFlow_Tensor>:$in, Optional<OneFlow_Tensor>:$bias);
  let output = (outs OneFlow_Tensor:$out);
  let attrs = (ins
    I32Attr:$axis, DefaultValuedAttr<StrAttr, "\\"mean\\"">:$mode, DefaultValuedAttr<SI64ArrayAttr, "{1, 2}">:$sizes,
    DefaultValuedAttr<BoolAttr, "false">:$flag, ShapeAttr:$shape, DefaultValuedAttr<F32ArrayAttr, "{}">:$weights
  );
  let has_logical_tensor_desc_infer_fn = 1;
}
#endif
"""
IMPLEMENTED = """
namespace oneflow {
Maybe<void> OdsLeakyOp::CheckAttr(const user_op::UserOpDefWrapper &, const user_op::UserOpConfWrapper &conf) {
  CHECK_GE_OR_RETURN(conf.attr<float>("alpha"), 0);
  return Maybe<void>::Ok();
}
Maybe<void> OdsLeakyOp::InferLogicalTensorDesc(user_op::InferContext *ctx) {
  ctx->SetOutputShape("y", 0, ctx->InputShape("x", 0));
  return Maybe<void>::Ok();
}
Maybe<void> OdsLeakyOp::InferPhysicalTensorDesc(user_op::InferContext *ctx) { return InferLogicalTensorDesc(ctx); }
Maybe<void> OdsLeakyOp::InferDataType(user_op::InferContext *ctx) {
  ctx->SetOutputDType("y", 0, ctx->InputDType("x", 0));
  return Maybe<void>::Ok();
}
Maybe<void> OdsLeakyOp::GetSbp(user_op::SbpContext *ctx) {
  ctx->NewBuilder().Split(ctx->inputs(), 0).Split(ctx->outputs(), 0).Build();
  return Maybe<void>::Ok();
}
Maybe<void> OdsManyOp::InferLogicalTensorDesc(user_op::InferContext *ctx) {
  ctx->SetOutputShape("out", 0, ctx->Attr<Shape>("shape"));
  return Maybe<void>::Ok();
}
template <typename T>
class LeakyKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    user_op::Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    const float alpha = ctx->Attr<float>("alpha");
    const T *from = x->dptr<T>();
    FOR_RANGE(int64_t, i, 0, x->shape().elem_cnt()) {
      y->mut_dptr<T>()[i] = from[i] > 0 ? from[i] : from[i] * alpha;
    }
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
#define REGISTER(T)                              \\
  REGISTER_USER_KERNEL("ods_leaky")              \\
      .SetCreateFn<LeakyKernel<T>>()             \\
      .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kCPU) && \\
                       (user_op::HobDataType("y", 0) == GetDataType<T>::value));
REGISTER(float)
REGISTER(double)
}
"""


def translate(tmp_path, text, *options):
    """Runs oneflow-translate on a file with `text`; returns the status and the output."""
    source, target = tmp_path / "ops.td", tmp_path / "out.txt"
    source.write_text(text)
    target.write_text("")
    status = oneflow_translate.main([*options, str(source), "-o", str(target)])
    return status, target.read_text()


def test_a_declared_operator_becomes_a_library(build, tmp_path):
    status, header = translate(tmp_path, DECLARED, "--gen-op-schema")
    assert status == 0
    (tmp_path / "op_generated.h").write_text(header)
    status, registration = translate(tmp_path, DECLARED, f"--header={tmp_path / 'op_generated.h'}", "--import-ods")
    assert status == 0
    registry = Registry(dict(REGISTRY.operators))
    load_library(build("ods", registration + IMPLEMENTED), registry)
    assert str(registry["ods_leaky"].signature) == "ods_leaky(x, alpha: float = 0.5) -> y"
    assert isinstance(registry["ods_leaky"].grad, Absent)
    many = registry["ods_many"]
    assert many.traits == {"cpu_only"}
    assert [(a.name, a.min_count, a.max_count) for a in many.signature.inputs] == [("in", 0, None), ("bias", 0, 1)]
    defaults = {a.name: a.default for a in many.signature.attrs if not a.is_mandatory}
    assert defaults == {"mode": "mean", "sizes": (1, 2), "flag": False, "weights": ()}
    check_op(
        "ods_leaky", [Sample("ods_leaky", [t(6, 4)], {"alpha": 0.25}, dtypes=[dt.float32, dt.float64])], registry
    )
    x = np.array([-2.0, 3.0])
    leaky: Any = registry["ods_leaky"]
    np.testing.assert_array_equal(leaky.reference(x, alpha=0.25)[0], [-0.5, 3.0])


ONE = """def OneFlow_OneOp : OneFlow_BaseOp<"ods_one", [NoSideEffect]> {
  let input = (ins OneFlow_Tensor:$x, Variadic<OneFlow_Tensor>:$more);
  let output = (outs OneFlow_Tensor:$y, Optional<OneFlow_Tensor>:$z);
  let attrs = (ins DefaultValuedAttr<F32Attr, "0.5">:$alpha, DefaultValuedAttr<OneFlow_DataType, "DataType::kInt8">
      :$t, DefaultValuedAttr<SI32ArrayAttr, "{1, 2}">:$sizes, DefaultValuedAttr<ShapeAttr, "Shape({2, 3})">:$shape);
  let has_logical_tensor_desc_infer_fn = 1;
}
"""
SIGNATURE = (
    "ods_one(x, more*, alpha: float = 0.5, t: data_type = i8, sizes: list_int32 = [1, 2], shape: shape = [2, 3], "
    "z_count: int64 = 0) -> y, z?"
)
IMPLEMENTED_ONE = """#include "oneflow/core/framework/framework.h"
namespace oneflow {
REGISTER_USER_OP("ods_one").Input("x").InputWithMinimum("more", 0).Output("y").OptionalOutput("z")
    .Attr<float>("alpha", 0.5f).Attr<DataType>("t", DataType::kInt8).Attr<std::vector<int32_t>>("sizes", {1, 2})
    .Attr<Shape>("SHAPE", Shape({2, 3}))
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      ctx->SetOutputShape("y", 0, Shape({7}));
      return Maybe<void>::Ok();
    });
}
"""
PROGRAM = """func.func @main(%x: tensor<2xf32>) -> tensor<9xf32> {
  %0 = "oneflow.ods_one"(%x) {operandSegmentSizes = array<i32: 1, 0>} : (tensor<2xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
"""


def test_a_declared_operator_is_verified_and_implemented_later(build):
    registry = Registry(dict(REGISTRY.operators))
    declare(read_ods(ONE, "one.td"), registry)
    record = declare(read_ods(ONE, "one.td"), registry)[0]
    assert str(record.signature) == SIGNATURE and registry["ods_one"] is record
    read_module(PROGRAM, create_context(registry), "p.mlir", registry)
    with pytest.raises(ProgramError, match="unknown attribute 'beta'"):
        read_module(PROGRAM.replace("{operand", "{beta = 1 : i32, operand"), create_context(registry), "p", registry)
    with pytest.raises(
        OperatorError, match=r"ods_one: it is only declared, at one\.td:1; load a library that implem"
    ):
        NumpyBuilder(registry).ods_one(np.zeros(2, np.float32))
    other = build("ods_other", IMPLEMENTED_ONE)
    with pytest.raises(LibraryError, match=r"ods_one is declared at one.td:1 as ods_one.* and registered at .*SHAPE"):
        load_library(other, registry)
    assert registry["ods_one"] is record
    load_library(build("ods_one", IMPLEMENTED_ONE.replace("SHAPE", "shape")), registry)
    assert registry["ods_one"].signature == record.signature and not registry["ods_one"].traits
    with pytest.raises(ProgramError, match="expected result 0 of type tensor<7xf32>, got tensor<9xf32>"):
        read_module(PROGRAM, create_context(registry), "p.mlir", registry)


HEAD = 'def OneFlow_XOp : OneFlow_BaseOp<"x_op", ['


@pytest.mark.parametrize(
    "text, message",
    [
        (HEAD + "NoGradd]> {}", "ops.td:1: unknown trait NoGradd; did you mean NoGrad?"),
        (HEAD + "]> {\n let has_chek_fn = 1; }", "ops.td:1: OneFlow_XOp has the unknown field has_chek_fn; did you"),
        ('def OneFlow_X : OneFlow_BaseOp<"x-op">;', "ops.td:1: expected the name of an operator of lower-case"),
        (HEAD + "]> {\n let has_device_and_stream_infer_fn = 1; }", "is not supported in C++: kernels run where"),
        (HEAD + "]> {\n let has_output_blob_time_shape_infer_fn = 1; }", "is not supported in C++: tensors are not"),
        (HEAD + "]> { let attrs = (ins BytesAttr:$a); }", "x_op: $a: BytesAttr is not supported in C++"),
        (HEAD + "]> { let attrs = (ins F33Attr:$a); }", "unknown attribute type F33Attr; did you mean F32Attr"),
        (HEAD + "]> { let input = (ins Tensor:$a); }", "expected $a to be OneFlow_Tensor"),
        (HEAD + "]> {\n let input = (outs OneFlow_Tensor:$a); }", "expected input of OneFlow_XOp to be (ins ..)"),
        (HEAD + "]> {\n let input = (ins OneFlow_Tensor:$a)", "ops.td:2: expected ;, got the end of the file"),
        (HEAD + "]> {\n let input (", "ops.td:2: expected =, got ("),
        ("def X : OneFlow_BasOp<\"x\">;", "X is of the unknown class OneFlow_BasOp; did you mean OneFlow_BaseOp?"),
        ("def OneFlow_X : OneFlow_BaseOp<\"relu\">;", "operator relu is defined already at"),
        (2 * "def OneFlow_X : OneFlow_BaseOp<\"x_op\">;\n", "ops.td:2: operator x_op is defined already at"),
        ("\n\n?", "ops.td:3: unexpected character '?'"),
        ("multiclass A;", "expected include or class or def, got multiclass"),
    ],
)  # fmt: skip
def test_refused_declarations(tmp_path, capsys, text, message):
    status, out = translate(tmp_path, text, "--gen-op-schema")
    assert status == 1 and out == ""
    error = capsys.readouterr().err
    assert error.startswith("oneflow-translate: error: ") and message in error


@pytest.mark.parametrize(
    "attr, message",
    [
        (
            'DefaultValuedAttr<F32Attr, "high">:$a',
            "ops.td:1: the default of $a: ODS: default: expected a constant after =",
        ),
        ('DefaultValuedAttr<I32Attr, "0.5">:$a', "ops.td:1: the default of $a: expected an integer"),
    ],
)
def test_defaults_that_are_refused(tmp_path, capsys, attr, message):
    assert translate(tmp_path, HEAD + f"]> {{ let attrs = (ins {attr}); }}", "--import-ods")[0] == 1
    assert message in capsys.readouterr().err


def test_the_command_line_is_checked(capsys):
    assert oneflow_translate.main(["--import-ods"]) == 1
    assert "expected one argument; see --help" in capsys.readouterr().err
    assert oneflow_translate.main(["--gen-op-schema", "missing.td"]) == 1
    assert "cannot read missing.td" in capsys.readouterr().err
