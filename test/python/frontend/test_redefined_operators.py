"""Operators that are defined again, as in notebooks: programs use the new definition."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect.signature import SignatureError

X = np.array([0.5, 2.0], np.float32)
CELL = """
@flow.elementwise("{signature}")
def redefined(x, **attrs):
    "A function of x."
    return {body}
"""


def run_cell(number, text):
    """Runs a cell of a notebook, which has no file."""
    exec(compile(text, f"<cell {number}>", "exec"), {"flow": flow, "np": np, "__name__": "__main__"})


def values(name, *operands):
    """The results of the operator in eager mode and in a compiled function."""
    call = getattr(flow.ops, name)
    return [np.asarray(call(*map(flow.tensor, operands)).numpy()), flow.compile(call)(*operands)]


def test_a_cell_that_runs_again():
    compiled = flow.compile(lambda x: flow.ops.rd_cell(x) + 0.0)
    for index, (body, factor) in enumerate((("x * 2.0", 2), ("x * 2.0", 2), ("x * 3.0", 3))):
        run_cell(index, CELL.format(signature="rd_cell(x) -> y", body=body))
        for got in (*values("rd_cell", X), compiled(X)):
            np.testing.assert_allclose(got, factor * X)


def test_a_cell_with_another_signature():
    run_cell(0, CELL.format(signature="rd_wider(x) -> y", body="x * 2.0"))
    values("rd_wider", X)
    run_cell(1, CELL.format(signature="rd_wider(x, y) -> z", body="x").replace("(x, **attrs)", "(x, y)"))
    for got in values("rd_wider", X, X):
        np.testing.assert_allclose(got, X)
    with pytest.raises(flow.OneFlowError, match="rd_wider"):
        flow.ops.rd_wider(flow.tensor(X))


def test_kernels_that_are_defined_again():
    compiled = flow.compile(lambda x: flow.ops.rd_kernel(x))
    for factor in (2.0, 3.0):
        kernel = flow.numpy_kernel(lambda x, factor=factor: x * np.float32(factor))
        flow.operator("rd_kernel(x) -> y")(type("Kernel", (), {"types": "x", "kernel": kernel}))
        for got in (*values("rd_kernel", X), compiled(X)):
            np.testing.assert_allclose(got, factor * X)


def test_two_definitions_in_files():
    kernel = flow.numpy_kernel(lambda x: x)
    body = type("Twice", (), {"types": "x", "kernel": kernel})
    flow.operator("rd_twice(x) -> y")(body)
    with pytest.raises(SignatureError, match=r"rd_twice is defined twice: at .*; rename one, or pass replace=True"):
        flow.operator("rd_twice(x) -> y")(body)
    with pytest.raises(SignatureError, match=r"relu is defined twice: at .*; rename the second"):
        flow.operator("relu(x) -> y", replace=True)(body)
    double = type("Double", (), {"types": "x", "kernel": flow.numpy_kernel(lambda x: x + x)})
    flow.operator("rd_twice(x) -> y", replace=True)(double)
    for got in values("rd_twice", X):
        np.testing.assert_array_equal(got, 2 * X)
