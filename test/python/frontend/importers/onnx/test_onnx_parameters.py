"""The constants of an ONNX model that become parameters."""

import numpy as np
import pytest

pytest.importorskip("onnx.helper")
from oneflow.frontend.importers.onnx.graph import Input, Model, Node, OnnxGraph
from oneflow.frontend.importers.onnx.program import OnnxProgram


def node(op, inputs, outputs, **attributes):
    return Node("", op, "", 13, "", inputs, outputs, attributes)


def test_operands_that_are_read_on_the_host_are_no_parameters():
    """The scales of Resize are floats, but have no gradient: an optimizer must not receive the scales."""
    nodes = (node("Mul", ("x", "w"), ("y",)), node("Resize", ("y", "", "scales"), ("z",), mode="nearest"))
    constants = {"w": np.array([2.0], np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    inputs, outputs = (Input("x", None, None),), (Input("z", None, None),)
    program = OnnxProgram(Model(OnnxGraph("g", inputs, outputs, nodes, constants), {}, {"": 13}))
    assert [name for name, _ in program.named_parameters()] == ["w"]
    x = np.ones((1, 1, 2, 2), np.float32)
    np.testing.assert_array_equal(np.asarray(program(x)), np.full((1, 1, 4, 4), 2.0))
