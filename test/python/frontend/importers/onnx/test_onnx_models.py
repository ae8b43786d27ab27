"""ONNX models as programs: inputs, parameters, shapes from values, control flow, functions; and bad models."""

import contextlib
import copy
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

import oneflow as flow
from oneflow.tools import oneflow_run, oneflow_translate

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(0)
W, B, V = (RNG.normal(size=s).astype(np.float32) for s in ((8, 16), (16,), (16, 2)))
X = RNG.normal(size=(4, 8)).astype(np.float32)


def model(nodes, inputs, outputs, constants=None, opset=17, **options):
    """A model of nodes; inputs and outputs are (name, type, shape)."""
    given = [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()]
    ends = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *ends, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **options)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"{op} of {inputs}", **attributes)


def perceptron():
    nodes = [node("Gemm", "x w layer/bias", "h"), node("Relu", "h", "r"), node("MatMul", "r v", "y")]
    return model(nodes, [("x", F32, ["n", 8])], [("y", F32, ["n", 2])], {"w": W, "layer/bias": B, "v": V})


def expected(x):
    return np.maximum(x @ W + B, 0) @ V


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-5)


def test_inputs_by_position_and_by_name_compiled_and_eager():
    program = flow.from_onnx(perceptron())
    assert [i.name for i in program.inputs] == ["x"] and program.outputs == ("y",)
    assert isinstance(program(X), np.ndarray) and isinstance(program(x=flow.tensor(X)), flow.Tensor)
    close(program(X), expected(X))
    close(program(x=flow.tensor(X)), expected(X))
    close(program.run({"x": X}, eager=True)[0], expected(X))
    close(program(X[:1]), expected(X[:1]))
    for args, kwargs, said in [
        ((), {}, "expected the input 'x'"),
        ((X, X), {}, "at most 1 inputs"),
        ((X,), {"z": X}, "'z' is not one of x"),
        ((X[:, :3],), {}, r"of type float32\[n, 8\], got float32\[4, 3\]"),
        ((X.astype(np.float64),), {}, r"got float64\[4, 8\]"),
    ]:
        with pytest.raises(flow.CallError, match=said):
            program(*args, **kwargs)


def test_parameters_train():
    program = flow.from_onnx(perceptron())
    assert set(program.state_dict()) == {"w", "layer/bias", "v"}
    for parameter in program.parameters():
        parameter.requires_grad_()
    optimizer = flow.optim.SGD(program.parameters(), lr=1e-3)

    @flow.compile
    def step(x):
        optimizer.zero_grad()
        loss = (program(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    first = float(step(X))
    assert first == pytest.approx(float((expected(X) ** 2).mean()), rel=1e-4)
    assert float(step(X)) < first
    w, b, v = (program.state_dict()[name].numpy() for name in ("w", "layer/bias", "v"))
    close(program(X), np.maximum(X @ w + b, 0) @ v)


def test_gradients_flow_in_eager_mode_and_copies_have_their_own_parameters():
    program = flow.from_onnx(perceptron())
    other = copy.deepcopy(program)
    for parameter in program.parameters():
        parameter.requires_grad_()
    program(flow.tensor(X)).sum().backward()
    active = (X @ W + B > 0).astype(np.float32)
    close(dict(program.named_parameters())["layer/bias"].grad, (active * V.sum(1)).sum(0))
    other.load_state_dict({"w": W, "layer/bias": B, "v": 2 * V})
    close(other(X), 2 * expected(X))
    close(program(X), expected(X))


def test_specializations_by_value_are_limited():
    tile = model([node("Tile", "x t", "y")], [("x", F32, [1]), ("t", I64, [1])], [("y", F32, None)])
    program = flow.from_onnx(tile, max_programs=2)
    for count in range(1, 4):
        assert program(np.ones(1, np.float32), np.array([count])).shape == (count,)
    assert len(program._compiled) == 2


def test_shapes_from_sizes_and_from_values():
    """Shape arithmetic with a dynamic batch in one program; an input that is a shape is part of the program."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "t", axis=0), node("Reshape", "x t", "y"),
    ]  # fmt: skip
    constants = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1, 2])}
    folded = flow.from_onnx(model(nodes, [("x", F32, ["n", 6])], [("y", F32, ["n", 3, 2])], constants))
    assert "tensor<?x3x2xf32>" in str(folded.trace())
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(folded(x), x.reshape(2, 3, 2))
    by_value = model([node("Reshape", "x t", "y")], [("x", F32, [2, 6]), ("t", I64, [2])], [("y", F32, None)])
    program = flow.from_onnx(by_value)
    for shape in ([3, 4], [4, 3]):
        assert program(x, np.array(shape)).shape == tuple(shape)
    with pytest.raises(flow.OneFlowError, match="values of 't'"):
        program.trace()


def test_computed_values_that_decide_shapes_run_in_eager_mode():
    program = flow.from_onnx(
        model([node("Abs", "x", "a"), node("NonZero", "a", "y")], [("x", F32, [2, 2])], [("y", I64, [2, "k"])])
    )
    x = np.array([[1, 0], [0, -2]], np.float32)
    np.testing.assert_array_equal(program(x), np.array(np.nonzero(x)))


def test_branches_and_loops():
    def body(op):
        return model([node(op, "x x", "z")], [], [("z", F32, [2])]).graph

    branch = node("If", "c", "y", then_branch=body("Add"), else_branch=body("Mul"))
    program = flow.from_onnx(model([branch], [("c", TensorProto.BOOL, []), ("x", F32, [2])], [("y", F32, [2])]))
    x = np.array([3, 4], np.float32)
    np.testing.assert_array_equal(program(np.array(True), x), [6, 8])
    np.testing.assert_array_equal(program(np.array(False), x), [9, 16])
    inner = [node("Identity", "c", "go"), node("Add", "a x", "b"), node("Identity", "b", "scan")]
    given = [("i", I64, []), ("c", TensorProto.BOOL, []), ("a", F32, [2])]
    loop_body = model(inner, given, [("go", TensorProto.BOOL, []), ("b", F32, [2]), ("scan", F32, [2])]).graph
    loop = helper.make_node("Loop", ["n", "", "x"], ["y", "all"], body=loop_body)
    looped = flow.from_onnx(
        model([loop], [("n", I64, []), ("x", F32, [2])], [("y", F32, [2]), ("all", F32, ["n", 2])])
    )
    y, every = looped(np.array(3), x)
    np.testing.assert_array_equal(y, 4 * x)
    np.testing.assert_array_equal(every, [2 * x, 3 * x, 4 * x])


def test_branches_and_loops_of_tensors_are_operators():
    """One program serves all values of a condition, and its length does not depend on trip counts."""

    def graph(nodes, results, given=()):
        return model(nodes, given, results).graph

    kind = ("z", F32, [2])
    branches = {
        name: graph([node(op, "x x", "z")], [kind]) for name, op in (("then_branch", "Add"), ("else_branch", "Mul"))
    }
    chosen = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s zero", "p"),
        node("If", "p", "y", **branches),
    ]
    program = flow.from_onnx(model(chosen, [("x", F32, [2])], [("y", F32, [2])], {"zero": np.float32(0)}))
    assert '"oneflow.cond"' in str(program.trace())
    for x in (np.array([3, 4], np.float32), np.array([-3, -4], np.float32)):
        np.testing.assert_array_equal(program(x), x + x if x.sum() > 0 else x * x)

    given = [("i", I64, []), ("c", TensorProto.BOOL, []), ("a", F32, [2])]
    grown = [node("Add", "a a", "b"), node("ReduceSum", "b", "s", keepdims=0), node("Less", "s x", "go")]
    doubled = graph(grown, [("go", TensorProto.BOOL, []), ("b", F32, [2])], given)
    loop = helper.make_node("Loop", ["", "", "v"], ["y"], body=doubled)
    program = flow.from_onnx(model([loop], [("v", F32, [2]), ("x", F32, [])], [("y", F32, [2])]))
    assert '"oneflow.while_loop"' in str(program.trace())
    for most, last in ((30.0, [16, 16]), (1.0, [2, 2])):
        np.testing.assert_array_equal(program(np.ones(2, np.float32), np.float32(most)), last)

    counted = [node("Identity", "c", "go"), node("Add", "a v", "b"), node("Identity", "a", "scan")]
    body = graph(counted, [("go", TensorProto.BOOL, []), ("b", F32, [2]), ("scan", F32, [2])], given)
    loop = helper.make_node("Loop", ["n", "", "v"], ["y", "all"], body=body)
    results = [("y", F32, [2]), ("all", F32, [9, 2])]
    program = flow.from_onnx(model([loop], [("v", F32, [2])], results, {"n": np.array(9)}))
    assert str(program.trace()).count('"oneflow.scan"') == 1
    y, every = program(np.array([1, 2], np.float32))
    assert y.tolist() == [10, 20] and every[:, 0].tolist() == list(range(1, 10))

    sums = [node("Add", "a e", "b"), node("Identity", "b", "scan")]
    body = graph(sums, [("b", F32, [2]), ("scan", F32, [2])], [("a", F32, [2]), ("e", F32, [2])])
    turned = {"scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [1]}
    scan = helper.make_node("Scan", ["v", "x"], ["y", "all"], body=body, num_scan_inputs=1, **turned)
    given = [("v", F32, [2]), ("x", F32, [2, 8])]
    program = flow.from_onnx(model([scan], given, [("y", F32, [2]), ("all", F32, [2, 8])]))
    assert str(program.trace()).count('"oneflow.scan"') == 1
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    y, every = program(np.zeros(2, np.float32), x)
    np.testing.assert_array_equal(y, x.sum(1))
    np.testing.assert_array_equal(every, np.cumsum(x[:, ::-1], 1))


def test_local_functions_with_attributes():
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    function = helper.make_function("own", "Steep", ["a"], ["b"], [leaky], [helper.make_opsetid("", 17)], ["slope"])
    call = helper.make_node("Steep", ["x"], ["y"], domain="own", slope=0.5)
    made = model([call], [("x", F32, [2])], [("y", F32, [2])], functions=[function])
    made.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_array_equal(flow.from_onnx(made)(np.array([-2, 2], np.float32)), [-1, 2])


def test_quantized_products_are_exact():
    a, b = (RNG.integers(0, 256, s).astype(np.uint8) for s in ((3, 300), (300, 2)))
    product = model(
        [node("MatMulInteger", "a b z", "y")], [("a", 2, [3, 300]), ("b", 2, [300, 2])], [("y", 6, [3, 2])],
        {"z": np.array(7, np.uint8)},
    )  # fmt: skip
    np.testing.assert_array_equal(flow.from_onnx(product)(a, b), (a.astype(int) - 7) @ b.astype(int))


def test_layers_of_onnx_runtime():
    """A quantized LSTM of `com.microsoft`, against ONNX Runtime."""
    bytes_of = {"w": (1, 3, 16), "r": (1, 4, 16)}
    constants = {k: RNG.integers(-90, 90, s).astype(np.int8) for k, s in bytes_of.items()}
    constants |= {"ws": np.array([0.02], np.float32), "rs": np.array([0.03], np.float32)}
    constants |= {"z": np.zeros(1, np.int8), "b": RNG.normal(size=(1, 32)).astype(np.float32)}
    layer = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "", "", "", "ws", "z", "rs", "z"], ["y", "h", "c"],
        domain="com.microsoft", hidden_size=4,
    )  # fmt: skip
    outputs = [("y", F32, [5, 1, 1, 4]), ("h", F32, [1, 1, 4]), ("c", F32, [1, 1, 4])]
    made = model([layer], [("x", F32, [5, 1, 3])], outputs, constants, ir_version=10)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    x = RNG.normal(size=(5, 1, 3)).astype(np.float32)
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    program = flow.from_onnx(made)
    for a, b in zip(program(x), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    body = re.search(r"func.func private @body.*", str(program.trace()))
    assert body and "4x16xi8" in body[0] and "4x16xi32" not in body[0], "the loop reads weights as bytes"


def test_enlarged_images_of_dynamic_sizes():
    constants = {"n": np.zeros(0, np.float32), "s": np.array([1, 1, 2, 3], np.float32)}
    resize = node("Resize", "x n s", "y", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    image = ("x", F32, [1, 1, "h", "w"])
    program = flow.from_onnx(model([resize], [image], [("y", F32, [1, 1, "a", "b"])], constants))
    assert "tensor<1x1x?x?xf32>" in str(program.trace())
    compiled = flow.compile(program.forward, flow.TensorSpec((1, 1, None, None)))
    for sizes in ((2, 3), (4, 1)):
        x = RNG.normal(size=(1, 1, *sizes)).astype(np.float32)
        np.testing.assert_array_equal(compiled(x), x.repeat(2, 2).repeat(3, 3))


def identity(**options):
    return model([node("Identity", "x", "y")], [("x", F32, [2])], [("y", F32, [2])], **options)


def changed(change):
    made = perceptron()
    change(made)
    return made


def constant(**fields):
    def change(made):
        proto = made.graph.initializer[0]
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(proto, name)[:]
                getattr(proto, name).extend(value)
            else:
                setattr(proto, name, value)

    return change


BAD_MODELS = {
    "truncated": (perceptron().SerializeToString()[:-300], "no protobuf|with a graph|bytes for"),
    "no model": (b"not a model", "no protobuf|with a graph"),
    "empty": (b"", "with a graph"),
    "newer operator set": (identity(opset=999), r"from 1 to \d+, the newest that is known, got 999"),
    "unknown operator": (
        model([node("Reluu", "x", "y")], [("x", F32, [2])], [("y", F32, [2])]),
        r"node 'Reluu of x' \(Reluu, version 17\): the operator is not supported; did you mean Relu",
    ),
    "cycle": (
        model([node("Add", "x b", "a"), node("Add", "a x", "b")], [("x", F32, [2])], [("b", F32, [2])]),
        r"node 'Add of x b' \(Add, version 17\).* reads 'b', .* without a cycle",
    ),
    "two of one name": (
        model([node("Abs", "x", "y"), node("Neg", "x", "y")], [("x", F32, [2])], [("y", F32, [2])]),
        "gives 'y', which an input, constant or another node gives, too",
    ),
    "no results": (model([node("Abs", "x", "y")], [("x", F32, [2])], []), "expected a model with results"),
    "operator that is not text": (
        model([node("Abs", "x", "y")], [("x", F32, [2])], [("y", F32, [2])])
        .SerializeToString()
        .replace(b"\x22\x03Abs", b"\x22\x03\xff\xfe\xfd"),
        "expected text as the operator of a node|no protobuf",
    ),
    "no such result": (model([], [("x", F32, [2])], [("y", F32, [2])]), "returns 'y', which no input"),
    "absurd constant": (changed(constant(dims=[2**40, 2**20])), r"expected \d+ bytes for the constant 'w'"),
    "negative size": (changed(constant(dims=[-1, 4])), "sizes of at least 0 for the constant 'w'"),
    "strings": (changed(constant(data_type=8)), "the constant 'w' has elements that are strings"),
    "unknown type": (changed(constant(data_type=77)), "elements that are number 77"),
    "array elsewhere": (changed(constant(data_location=1)), "pass the path of the model"),
    "unknown attribute": (
        model([node("Relu", "x", "y", slope=1)], [("x", F32, [2])], [("y", F32, [2])]),
        r"node 'Relu of x' .*the attribute 'slope' is not supported",
    ),
    "unfit shapes": (
        model([node("MatMul", "x x", "y")], [("x", F32, [2, 3])], [("y", F32, None)]),
        r"node 'MatMul of x x' \(MatMul, version 17\)",
    ),
    "unfit state": (
        model([helper.make_node("RNN", ["x", "w", "r", "", "", "h"], ["y"], name="layer", hidden_size=2)],
              [("x", F32, [1, 1, 2])], [("y", F32, None)],
              {k: np.ones((1, n, 2), np.float32) for k, n in (("w", 2), ("r", 2), ("h", 7))}),
        r"node 'layer' .*expected a state of sizes \[1, 1, 2\]",
    ),
    "absurd padding": (
        model([node("Pad", "x p", "y", mode="reflect")], [("x", F32, [3])], [("y", F32, None)],
              {"p": np.array([0, 2**40])}),
        r"node 'Pad of x p' .*at most 67108864 elements along a padded axis",
    ),
    "absurd window": (
        model([node("LpPool", "x", "y", kernel_shape=[2**20] * 2)], [("x", F32, [1, 1, 4, 4])], [("y", F32, None)]),
        r"node 'LpPool of x' .*windows of at most 4096 elements",
    ),
    "absurd resize": (
        model([node("Resize", "x n n s", "y", mode="linear")], [("x", F32, [4])], [("y", F32, None)],
              {"n": np.zeros(0, np.float32), "s": np.array([2**40])}),
        r"node 'Resize of x n n s' .*at most 67108864 elements along a resized axis",
    ),
    "result beyond memory": (
        model([node("ConstantOfShape", "n", "y")], [("x", F32, [2])], [("y", F32, None)],
              {"n": np.array([2**40, 2**10])}),
        r"node 'ConstantOfShape of n' .*bytes, the memory of this machine, got tensor<1099511627776x1024xf32>",
    ),
    "array of the host beyond memory": (
        model([node("MelWeightMatrix", "n n r a b", "y")], [("x", F32, [2])], [("y", F32, None)],
              {"n": np.array(2**30), "r": np.array(8000), "a": np.float32(0), "b": np.float32(4000)}),
        r"node 'MelWeightMatrix of .*at most 67108864 weights",
    ),
    "too many dimensions": (
        model([node("Unsqueeze", "x n", "y")], [("x", F32, [2])], [("y", F32, None)], {"n": np.arange(99)}),
        r"node 'Unsqueeze of x n' .*at most 64 dimensions",
    ),
    "no operands": (
        model([node("Relu", "", "y")], [("x", F32, [2])], [("y", F32, [2])]),
        r"\(Relu, version 17\): expected the operands x, got 0",
    ),
    "no attribute": (
        model([node("Cast", "x", "y")], [("x", F32, [2])], [("y", F32, [2])]),
        r"node 'Cast of x' .*expected the attribute 'to'",
    ),
    "empty step": (
        model([node("Range", "n b n", "y")], [("x", F32, [2])], [("y", F32, None)],
              {"n": np.array(0), "b": np.array(9)}),
        r"node 'Range of n b n' .*expected a step other than 0",
    ),
    "labels of nothing": (
        model([node("Einsum", "x", "y", equation="i->k")], [("x", F32, [2])], [("y", F32, None)]),
        r"node 'Einsum of x' .*different labels of operands in the result of 'i->k'",
    ),
    "constant that a node gives": (
        model([node("Neg", "x", "w")], [("x", F32, [2])], [("w", F32, [2])], {"w": np.ones(2, np.float32)}),
        "gives 'w', which an input, constant or another node gives, too",
    ),
    "input that a node gives": (
        model([node("Neg", "x", "x")], [("x", F32, [2])], [("x", F32, [2])]),
        "gives 'x', which an input, constant or another node gives, too",
    ),
    "inputs of one name": (
        model([node("Neg", "x", "y")], [("x", F32, [2])] * 2, [("y", F32, [2])]),
        "different names for the inputs of the graph .*'x' twice",
    ),
    "endless loop": (
        model(
            [helper.make_node("Loop", ["n", ""], ["y"], body=model(
                [node("Identity", "c", "go"), node("Identity", "i", "k")],
                [("i", I64, []), ("c", TensorProto.BOOL, [])],
                [("go", TensorProto.BOOL, []), ("k", I64, [])],
            ).graph, name="forever")],
            [("x", F32, [2, 3])], [("y", I64, None)], {"n": np.array(2**62)},
        ),
        "'forever'.*at most 10000 iterations",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models_are_refused(name):
    made, said = BAD_MODELS[name]
    with pytest.raises(flow.OneFlowError, match=said):
        program = flow.from_onnx(made)
        program(*(np.ones([d if isinstance(d, int) else 1 for d in i.shape], np.float32) for i in program.inputs))


def test_functions_that_call_themselves_are_refused():
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    call = helper.make_node("Again", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "Again", ["a"], ["b"], [call], imports)
    start = helper.make_node("Again", ["x"], ["y"], domain="own")
    made = model([start], [("x", F32, [2])], [("y", F32, [2])], functions=[function])
    made.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(flow.OneFlowError, match="does one call itself"):
        flow.from_onnx(made)(np.ones(2, np.float32))


def test_functions_that_expand_exponentially_are_refused():
    """Each of 40 functions calls the previous function twice."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["b"], [node("Relu", "a", "b")], imports)]
    for i in range(1, 40):
        twice = [helper.make_node(f"F{i - 1}", [x], [y], domain="own") for x, y in (("a", "t"), ("t", "b"))]
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], twice, imports))
    start = helper.make_node("F39", ["x"], ["y"], domain="own")
    made = model([start], [("x", F32, [2])], [("y", F32, [2])], functions=functions)
    made.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(flow.OneFlowError, match=r"own\.F\d+.*at most 1048576 nodes in a model"):
        flow.from_onnx(made)


def test_names_that_are_not_identifiers():
    """Names with spaces, quotes, line ends and nothing that is a letter, in programs too."""
    for name in ("a b", "1", 'quo"te', "new\nline", "x/y:0", "%x", "\x00", "..", "名"):
        made = model([], [(name, F32, [2])], [("y" + name, F32, [2])], {"w" + name: np.full(2, 3, np.float32)})
        made.graph.node.append(helper.make_node("Mul", [name, "w" + name], ["y" + name], name=name))
        program = flow.from_onnx(made)
        np.testing.assert_array_equal(program(np.ones(2, np.float32)), [3, 3])
        assert list(program.state_dict()) == ["w" + name] and "oneflow." in str(program.trace())


def test_an_error_of_a_run_names_the_node():
    made = model([node("Gather", "x i", "y")], [("x", F32, [2]), ("i", I64, [1])], [("y", F32, [1])])
    with pytest.raises(Exception, match=r"node 'Gather of x i' \(Gather, version 17\).*index in \[0, 2\), got 99"):
        flow.from_onnx(made)(np.ones(2, np.float32), np.array([99]))


def test_damaged_models_do_not_end_the_process():
    """Models that are cut anywhere, or have a wrong byte, run or are refused."""
    whole = perceptron().SerializeToString()
    rng = np.random.default_rng(0)
    for number in range(60):
        at = int(rng.integers(len(whole)))
        broken = whole[:at] if number % 2 else whole[:at] + bytes([int(rng.integers(256))]) + whole[at + 1 :]
        with contextlib.suppress(flow.OneFlowError):
            flow.from_onnx(broken).run({"x": X}, eager=True)


def external(tmp_path, location, **entries):
    """A model whose first constant is in another file."""
    made = perceptron()
    proto = made.graph.initializer[0]
    proto.ClearField("raw_data")
    proto.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        proto.external_data.add(key=key, value=str(value))
    (tmp_path / "folder").mkdir(exist_ok=True)
    path = tmp_path / "folder" / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data_of_a_model(tmp_path):
    path = external(tmp_path, "weights.bin", offset=8)
    (path.parent / "weights.bin").write_bytes(bytes(8) + W.tobytes())
    close(flow.from_onnx(path)(X), expected(X))


@pytest.mark.parametrize(
    ("location", "entries", "said"),
    [
        ("../secret.bin", {}, r"in the model's folder .*, got '\.\./secret\.bin'"),
        ("/etc/passwd", {}, "in the model's folder"),
        ("link.bin", {}, "in the model's folder"),
        ("missing.bin", {}, "there is no such file"),
        ("short.bin", {}, "expected 512 bytes for the constant 'w'"),
        ("short.bin", {"offset": -4}, "at -4"),
        ("short.bin", {"offset": "many"}, "a number as offset"),
    ],
)
def test_external_data_outside_of_the_folder_is_refused(tmp_path, location, entries, said):
    path = external(tmp_path, location, **entries)
    (tmp_path / "secret.bin").write_bytes(W.tobytes())
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    (path.parent / "short.bin").write_bytes(bytes(4))
    with pytest.raises(flow.OneFlowError, match=said):
        flow.from_onnx(path)


def test_commands_run_models(tmp_path, capsys):
    source, program, arrays = tmp_path / "m.onnx", tmp_path / "m.mlir", tmp_path / "x.npy"
    onnx.save(perceptron(), source)
    np.save(arrays, X)
    assert oneflow_translate.main(["--import-onnx", str(source), "-o", str(program)]) == 0
    np.testing.assert_array_equal(load_file(tmp_path / "m.safetensors")["layer/bias"], B)
    given = ["--input", f"x={arrays}", "--output", str(tmp_path / "y.npy")]
    for words in ([str(source)], [str(program), "--input", str(tmp_path / "m.safetensors")]):
        assert oneflow_run.main([*words, *given]) == 0
        close(np.load(tmp_path / "y.npy"), expected(X))
    source.write_bytes(b"nothing")
    assert oneflow_run.main([str(source), *given]) == 1
    assert "expected an ONNX model" in capsys.readouterr().err


def test_onnx_is_imported_when_it_is_needed():
    check = "import sys, oneflow as flow; flow.add; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)
