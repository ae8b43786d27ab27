"""How operators of a C++ library lie on meshes of devices, and what they cost there."""

import pytest

from oneflow.dialect import dtypes as dt
from oneflow.dialect.record import Call, OperatorError, Registry, attribute_values
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.passes.sbp.candidates import nd_signatures
from oneflow.passes.sbp.graph import work_of
from oneflow.runtime.user_ops.library import LibraryError, load_library


@pytest.fixture(scope="module")
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
    ],
)
def test_signatures_on_meshes(registry, name, mesh, signatures):
    found = nd_signatures(call(registry, name), mesh)
    assert len(found) == len(signatures) and set(map(str, found)) == signatures


def test_the_work_of_a_call(registry):
    assert work_of(call(registry, "t_listed")) == 24000
    assert work_of(call(registry, "t_inferred")) == 24


@pytest.mark.parametrize(
    "mode, message",
    [
        ("fails", "the function of nd-SBP signatures failed: .*no list today"),
        ("throws", "thrown by the list"),
        ("axis", r"splits x\[0\] along axis 7, expected one in \[0, 2\)"),
        ("part", r"says nothing of y\[0\] along each of the 2 axes of the mesh"),
    ],
)
def test_failures(registry, mode, message):
    with pytest.raises(OperatorError, match=f"t_listed: (?s:.*){message}"):
        nd_signatures(call(registry, "t_listed", mode=mode), (2, 2))


def test_a_failing_complexity_function(registry):
    with pytest.raises(OperatorError, match=r"t_listed: the complexity function failed: .*too complex"):
        work_of(call(registry, "t_listed", mode="complex"))


@pytest.mark.parametrize(
    "function, advice",
    [
        ("SetSbpSignatureInferFn", "list every signature in SetGetSbpFn"),
        ("SetEnumerateNdSbpSignaturesFn", "list them in SetGetNdSbpSignatureListFn"),
        ("SetDumpNdSbpSignatureForOpConfFn", "programs carry their signatures"),
        ("SetOutputBlobTimeShapeInferFn", "tensors are not repeated in time"),
        ("SetDeviceAndStreamInferFn", "choose them by HobDeviceType"),
    ],
)
def test_functions_without_meaning_are_refused(build, function, advice):
    text = f"""#include "oneflow/core/framework/framework.h"
    namespace oneflow {{
    REGISTER_USER_OP("t_refused").Input("x").Output("y")
        .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
        .{function}([](int) {{ return 0; }});
    }}"""
    with pytest.raises(LibraryError, match=f"the operator t_refused: {function} is not supported: .*{advice}"):
        load_library(build(f"refused_{function}", text), Registry())
