"""Single nodes of ONNX: values written down, for operands that other tests leave out."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import oneflow as flow

F32, F16, I64 = np.float32, np.float16, np.int64


def single(op, inputs, constants, outputs, opset, **attributes):
    """A model of one node: `inputs` and `constants` are arrays by name, in order; `outputs` are types."""
    given = {**inputs, **constants}
    ends = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()
    ]
    names = [f"y{i}" for i in range(len(outputs))]
    results = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
        for n, t in zip(names, outputs, strict=True)
    ]
    arrays = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = helper.make_graph(
        [helper.make_node(op, list(given), names, **attributes)], "graph", ends, results, arrays
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def image(*shape):
    return np.arange(np.prod(shape)).reshape(shape)


BIG = 2**62 + 1
#: By name: the operator, inputs, constants, results, attributes.
NODES: dict[str, Any] = {
    "quotient of large integers": ("Div", {}, {"a": np.array([BIG, -7]), "b": np.array([1, 2])}, [BIG, -3], {}),
    "sum over no axes": (
        "ReduceSum", {}, {"a": np.array([1, 2, 3]), "axes": np.zeros(0, I64)}, [6], {"keepdims": 1},
    ),
    "largest over no axes": (
        "ReduceMax", {}, {"a": np.array([1, 3, 2]), "axes": np.zeros(0, I64)}, [3], {"keepdims": 1},
    ),
    "activations of which one alone takes a beta": (
        "RNN", {"x": np.full((1, 1, 1), -2, F32)}, {"w": np.ones((2, 1, 1), F32), "r": np.zeros((2, 1, 1), F32)},
        np.array([[[[-0.5]], [[0.25]]]], F32),
        {"hidden_size": 1, "direction": "bidirectional", "activations": ["LeakyRelu", "HardSigmoid"],
         "activation_alpha": [0.25, 0.25], "activation_beta": [0.75]},
    ),
    "shift of the last bit": (
        "BitShift", {"x": np.array([2**63 + 4, 2**64 - 1], np.uint64), "y": np.array([1, 63], np.uint64)}, {},
        np.array([2**62 + 2, 1], np.uint64), {"direction": "RIGHT"},
    ),
    "overlapping windows of an unpooling": (
        "MaxUnpool", {"x": np.array([[[[5, 5], [5, 7]]]], F32), "i": np.array([[[[4, 4], [4, 8]]]])}, {},
        np.array([[[[0, 0, 0], [0, 5, 0], [0, 0, 7]]]], F32), {"kernel_shape": [2, 2]},
    ),
    "deformed convolution of half floats": (
        "DeformConv",
        {"x": image(1, 1, 50, 50).astype(F16), "w": np.ones((1, 1, 1, 1), F16), "o": np.zeros((1, 2, 50, 50), F16)},
        {}, image(1, 1, 50, 50).astype(F16), {},
    ),
    "deformed convolution with padding on one side": (
        "DeformConv",
        {"x": image(1, 1, 2, 2).astype(F32), "w": np.ones((1, 1, 1, 1), F32), "o": np.full((1, 2, 2, 3), 0.5, F32)},
        {}, np.array([[[[0.5, 1.5, 1], [0.5, 1.25, 0.75]]]], F32), {"pads": [0, 1, 0, 0]},
    ),
    "samples of an image of half floats": (
        "GridSample", {"x": image(1, 1, 50, 50).astype(F16), "g": np.array([[[[1, 1], [-1, 1]]]], F16)}, {},
        np.array([[[[2499, 2450]]]], F16), {"align_corners": 1},
    ),
    "samples of a line of half floats": (
        "GridSample", {"x": image(1, 1, 3000).astype(F16), "g": np.array([[[1], [0.25]]], F16)}, {},
        np.array([[[2999, 1874]]], F16), {"align_corners": 1, "mode": "nearest"},
    ),
    "aligned regions of constant boxes": (
        "RoiAlign", {"x": image(1, 1, 4, 4).astype(F32)},
        {"rois": np.array([[0, 0, 2, 2]], F32), "batch": np.zeros(1, I64)}, np.array([[[[2.5]]]], F32), {},
    ),
    "pooled regions of constant boxes": (
        "MaxRoiPool", {"x": image(1, 1, 4, 4).astype(F32)}, {"rois": np.array([[0, 0, 0, 1, 2]], F32)},
        np.array([[[[9]]]], F32), {"pooled_shape": [1, 1]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_values_of_nodes(name):
    op, inputs, constants, wanted, attributes = NODES[name]
    wanted = np.asarray(wanted)
    program = flow.from_onnx(single(op, inputs, constants, [wanted.dtype], 20, **attributes))
    for found in (program(**inputs), program.run(inputs, eager=True)[0]):
        found = np.asarray(found)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_casts_to_small_types_saturate():
    cast = single("Cast", {}, {"x": np.array([1000, -1000, 1])}, [F32], 20, to=TensorProto.FLOAT8E4M3FN)
    cast.graph.node[0].output[0] = "small"
    cast.graph.node.append(helper.make_node("Cast", ["small"], ["y0"], to=TensorProto.FLOAT))
    np.testing.assert_array_equal(flow.from_onnx(cast)(), [448, -448, 1])


@pytest.mark.parametrize(
    ("name", "saturate", "beyond"),
    [("e4m3fn", 1, 448), ("e4m3fn", 0, np.nan), ("e5m2", 1, 57344), ("e5m2", 0, np.inf)],
)
def test_casts_to_float8(name, saturate, beyond):
    """Results are tensors of 8 bits, which other operators move."""
    dtype, values = (
        np.dtype(getattr(ml_dtypes, f"float8_{name}")),
        np.array([1e6, -np.inf, np.nan, 448, 1.0625], np.float32),
    )
    kind = getattr(TensorProto, f"FLOAT8{name.upper()}")
    cast = single("Cast", {"x": values}, {}, [dtype], 20, to=kind, saturate=saturate)
    found = flow.from_onnx(cast)(x=values)
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.asarray(found, np.float32), [beyond, -beyond, np.nan, 448, 1])


def loop_of(kind, opset=20):
    """A loop that collects zero of a type, `n` times, where `n` is an input."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Identity", ["z"], ["scan"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("scan", kind, [2])],
    )  # fmt: skip
    zero = helper.make_tensor("z", kind, [2], [0, 0])
    ends = [
        helper.make_tensor_value_info("n", TensorProto.INT64, []), helper.make_tensor_value_info("y", kind, ["k", 2])
    ]  # fmt: skip
    loop = helper.make_node("Loop", ["n", ""], ["y"], body=body)
    graph = helper.make_graph([loop], "graph", ends[:1], ends[1:], [zero])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def test_loops_without_iterations_give_the_type_of_the_output():
    found = flow.from_onnx(loop_of(TensorProto.UINT8))(np.array(0))
    assert found.dtype == np.uint8 and found.shape == (0, 2)
    with pytest.raises(flow.OneFlowError, match=r"expected a type of tensors for 'scan'.*got int4"):
        flow.from_onnx(loop_of(TensorProto.INT4, 21))(np.array(0))


def counted_loop(trips, *, condition, collects):
    """A loop that adds x to x. The condition of the loop stays true: each iteration returns the condition, or a
    constant.
    """
    ends = [helper.make_tensor_value_info(n, k, d) for n, k, d in (
        ("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("a", TensorProto.FLOAT, [2]),
        ("go", TensorProto.BOOL, []), ("b", TensorProto.FLOAT, [2]), ("scan", TensorProto.FLOAT, [2]),
        ("x", TensorProto.FLOAT, [2]), ("y", TensorProto.FLOAT, [2]), ("all", TensorProto.FLOAT, [None, 2]),
    )]  # fmt: skip
    nodes = [
        helper.make_node("Identity", ["c" if condition else "true"], ["go"]),
        helper.make_node("Add", ["a", "x"], ["b"]),
        helper.make_node("Identity", ["b"], ["scan"]),
    ]
    true = helper.make_tensor("true", TensorProto.BOOL, [], [1])
    body = helper.make_graph(nodes, "body", ends[:3], ends[3 : 5 + collects], [true])
    results = ["y", "all"][: 1 + collects]
    loop = helper.make_node("Loop", ["n", "t" if condition else "", "x"], results, body=body, name="counted")
    constants = [helper.make_tensor("n", TensorProto.INT64, [], [trips])]
    constants += [helper.make_tensor("t", TensorProto.BOOL, [], [1])] * condition
    graph = helper.make_graph([loop], "graph", [ends[6]], ends[7 : 8 + collects], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("condition", [False, True])
def test_the_trip_count_decides_what_a_loop_becomes(condition):
    x = np.array([1, 2], np.float32)
    for trips, collects, operator in ((3, True, "stack"), (20_000, True, "scan"), (2**60, False, "while_loop")):
        text = str(flow.from_onnx(counted_loop(trips, condition=condition, collects=collects)).trace())
        assert text.count(f'"oneflow.{operator}"') == 1 and len(text) < 10_000
    last, every = flow.from_onnx(counted_loop(20_000, condition=condition, collects=True))(x)
    np.testing.assert_array_equal(last, 20_001 * x)
    np.testing.assert_array_equal(every[:, 0], np.arange(2, 20_002))
    with pytest.raises(flow.OneFlowError, match=rf"'counted'.*at most 10000 iterations, .* got {2**60} iterations"):
        flow.from_onnx(counted_loop(2**60, condition=condition, collects=True))(x)
