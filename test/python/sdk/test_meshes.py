"""The layouts and the costs of operators of a C++ library on meshes of devices."""

import pytest

from oneflow.dialect import dtypes as dt
from oneflow.dialect.record import Call, OperatorError, Registry, attribute_values
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.passes.sbp.candidates import nd_signatures
from oneflow.passes.sbp.graph import count_multiply_adds
from oneflow.runtime.user_ops.library import LibraryError, load_library


@pytest.fixture(scope="session")
def registry(load):
    return load("meshes")


def call(registry, name, **attrs):
    record, desc = registry[name], TensorDesc((4, 6), dt.float64)
    return Call(record, {"x": desc}, attribute_values(record, attrs), {"y": desc})


@pytest.mark.parametrize(
    "name, mesh, signatures",
    [
        ("t_listed", (2, 3), {"[S(0), S(1)] -> [S(0), S(1)]", "[B, B] -> [B, B]"}),
        ("t_listed", (2,), {"S(0) -> S(0)", "B -> B"}),
        ("t_listed", (5,), {"B -> B"}),
        ("t_inferred", (2, 2), {"[S(0), B] -> [S(0), B]", "[S(1), B] -> [S(1), B]", "[B, B] -> [B, B]"}),
        ("t_inferred", (2,), {"B -> B"}),
        ("t_along", (2, 2), {f"[{a}, {b}] -> [{a}, {b}]" for a in ("S(0)", "B") for b in ("S(0)", "B")}),
        ("t_enumerated", (2,), {"S(0) -> S(0)", "B -> B"}),
    ],
)
def test_signatures_on_meshes(registry, name, mesh, signatures):
    found = nd_signatures(call(registry, name), mesh)
    assert len(found) == len(signatures) and set(map(str, found)) == signatures


def test_complexities_of_calls(registry):
    assert count_multiply_adds(call(registry, "t_listed")) == 24000
    assert count_multiply_adds(call(registry, "t_inferred")) == 24


@pytest.mark.parametrize(
    "mode, message",
    [
        ("fails", "the function of nd-SBP signatures failed: .*no list today"),
        ("throws", "thrown by the list"),
        ("axis", r"splits x\[0\] along axis 7, expected one in \[0, 2\)"),
        ("part", r"has no SBP for y\[0\] on each of the 2 axes of the mesh"),
    ],
)
def test_failing_mesh_callbacks(registry, mode, message):
    with pytest.raises(OperatorError, match=f"t_listed: (?s:.*){message}"):
        nd_signatures(call(registry, "t_listed", mode=mode), (2, 2))


def test_a_failing_complexity_function(registry):
    with pytest.raises(OperatorError, match=r"t_listed: the complexity function failed: .*too complex"):
        count_multiply_adds(call(registry, "t_listed", mode="complex"))


REFUSED = """#include "oneflow/core/framework/framework.h"
namespace oneflow {
REGISTER_USER_OP("t_refused").Input("x").Output("y")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetOutputBlobTimeShapeInferFn([](user_op::InferOutputBlobTimeShapeFnContext *ctx) -> Maybe<void> {
      *ctx->mut_output_blob_time_shape() = ctx->TimeShape4InputArgNameAndIndex("x", 0);
      return Maybe<void>::Ok();
    })
    .SetDeviceAndStreamInferFn([](user_op::DeviceAndStreamInferContext *ctx) -> Maybe<Symbol<Stream>> {
      *ctx->OutputTensorDevice4ArgNameAndIndex("y", 0) = ctx->InputTensorDevice4ArgNameAndIndex("x", 0);
      return Stream::New(ctx->InputTensorDevice4ArgNameAndIndex("x", 0), StreamType::kCompute);
    })
    .SetDumpNdSbpSignatureForOpConfFn([](const NdSbpSignature &, OperatorConf *) { return Maybe<void>::Ok(); });
}"""


def test_unsupported_mesh_functions_are_refused(build):
    with pytest.raises(LibraryError) as error:
        load_library(build("refused", REFUSED), Registry())
    refused = [
        ("SetOutputBlobTimeShapeInferFn", "tensors are not repeated in time; remove the call"),
        ("SetDeviceAndStreamInferFn", "kernels run where their program does; remove the call, and choose kernels by"),
        ("SetDumpNdSbpSignatureForOpConfFn", "programs carry their signatures as attributes; remove the call"),
    ]
    for function, advice in refused:
        assert f"the operator t_refused: {function} is not supported: {advice}" in str(error.value)
