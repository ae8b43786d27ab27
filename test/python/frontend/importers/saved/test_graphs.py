"""Graphs in folders: OneFlow's `save`, written here byte by byte, and `flow.save`."""

import io
import os
import struct

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn
from oneflow.tools import oneflow_run, oneflow_translate

AT = 'device_name = ["@0:0"], device_tag = "cpu", hierarchy = [1], scope_symbol_id = 12 : i64'
#: relu(x @ w + steps), and whether the elements of the result are at least 2.
PROGRAM = f"""module  {{
  oneflow.job @Rows_0(%x: tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xsi8>) {{
    %in = "oneflow.input"(%x) {{{AT}, data_type = 2 : i32, nd_sbp = ["B"], op_name = "in", output_lbns = ["in/out"],
      shape = [2 : si64, 3 : si64]}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %w = "oneflow.variable"() {{{AT}, data_type = 2 : i32, op_name = "net.w", output_lbns = ["net.w/out"],
      parallel = #sbp.parallel<[] -> [[#sbp.B]]>, shape = [3 : si64, 4 : si64]}} : () -> tensor<3x4xf32>
    %n = "oneflow.variable"() {{{AT}, data_type = 6 : i32, op_name = "net.steps", output_lbns = ["net.steps/out"],
      parallel = #sbp.parallel<[] -> [#sbp.B]>, shape = []}} : () -> tensor<si64>
    %0 = "oneflow.user"(%in, %w) {{{AT}, input_sizes = [1 : i32, 1 : i32], op_name = "m", op_type_name = "matmul",
      operand_segment_sizes = array<i32: 2, 0>, output_sizes = [1 : i32], result_segment_sizes = array<i32: 1, 0>}}
      : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %1 = "oneflow.cast"(%n) {{{AT}, dtype = 2 : i32, op_name = "c"}} : (tensor<si64>) -> tensor<f32>
    %2 = "oneflow.broadcast_add"(%0, %1) {{{AT}, op_name = "a"}} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %3 = "oneflow.relu"(%2) {{{AT}, op_name = "r"}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %4 = "oneflow.scalar_logical_greater_equal"(%3) {{{AT}, has_float_operand = true, float_operand = 2.0 : f64,
      has_int_operand = false, int_operand = 0 : si64, op_name = "g"}} : (tensor<2x4xf32>) -> tensor<2x4xsi8>
    %5 = "oneflow.output"(%3) {{{AT}, data_type = 2 : i32, nd_sbp = ["B"], op_name = "o"}}
      : (tensor<2x4xf32>) -> tensor<2x4xf32>
    oneflow.return %5, %4 : tensor<2x4xf32>, tensor<2x4xsi8>
  }}
}}
"""
W = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
FILES = {
    "model.mlir": PROGRAM.encode(),
    "net.w/meta": b"shape {\n  dim: 3\n  dim: 4\n}\ndata_type: kFloat\n",
    "net.w/out": struct.pack("<12f", *W.ravel()),
    "net.steps/meta": b"shape {\n}\ndata_type: kInt64\n",
    "net.steps/out": struct.pack("<q", -1),
}


@pytest.fixture
def folder(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


def rows(x):
    y = np.maximum(x @ W - 1, 0)
    return y, y >= 2


@pytest.mark.parametrize("batch", [2, 5])
def test_a_graph_of_oneflow_runs(folder, batch):
    x = np.random.default_rng(0).normal(size=(batch, 3)).astype(np.float32)
    for run in (flow.load(folder), flow.load_graph(folder).forward, flow.compile(flow.load_graph(str(folder)))):
        y, large = run(flow.tensor(x))
        np.testing.assert_allclose(y.numpy(), rows(x)[0], rtol=1e-5)
        assert large.dtype == flow.bool and (large.numpy() == rows(x)[1]).all()


def test_variables_are_parameters_and_buffers(folder):
    graph = flow.load_graph(folder)
    assert {name: (v.dtype, tuple(v.shape)) for name, v in graph.state_dict().items()} == {
        "net.w": (flow.float32, (3, 4)), "net.steps": (flow.int64, ()),
    }  # fmt: skip
    assert [str(i) for i in graph.inputs] == ["tensor<2x3xf32>"] and "oneflow.matmul" in str(graph.module)
    (weight,) = graph.parameters()
    weight.requires_grad_()
    x = np.array([[1, 2, 3]], np.float32)
    graph(flow.tensor(x))[0].sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), x.T * (rows(x)[0] > 0), rtol=1e-6)


def test_commands_take_a_folder(folder, tmp_path, capsys):
    x = np.ones((2, 3), np.float32)
    np.save(tmp_path / "x.npy", x)
    given = ["--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path / "y.npz")]
    program = str(tmp_path / "rows.mlir")
    assert oneflow_run.main([str(folder), *given]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["out0"], rows(x)[0], rtol=1e-6)
    (tmp_path / "y.npz").unlink()
    assert oneflow_translate.main(["--import-oneflow", str(folder), "-o", program]) == 0
    given[1] = f"arg0={tmp_path / 'x.npy'}"
    assert oneflow_run.main([program, *given, "--input", str(tmp_path / "rows.safetensors")]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["out0"], rows(x)[0], rtol=1e-6)
    (folder / "net.w/out").write_bytes(b"")
    assert oneflow_run.main([str(folder), *given]) == 1
    assert "expected 48 bytes" in capsys.readouterr().err


def test_ranks_take_a_folder(folder):
    """The variables of the graph are sharded over the ranks as the program states."""
    text = PROGRAM.replace("hierarchy = [1]", "hierarchy = [2]").replace('nd_sbp = ["B"]', 'nd_sbp = ["S(0)"]')
    (folder / "model.mlir").write_text(text.replace("-> [[#sbp.B]]", "-> [[#sbp.S<1>]]"))
    x = np.random.default_rng(2).normal(size=(2, 3)).astype(np.float32)
    np.save(folder / "x.npy", x)
    given = ["--input", f"x={folder / 'x.npy'}", "--output", str(folder / "y.npz"), "--simulate"]
    assert oneflow_run.main([str(folder), *given]) == 0
    np.testing.assert_allclose(np.load(folder / "y.npz")["out0"], rows(x)[0], rtol=1e-5)


NORM = """oneflow.job @Norm(%x: tensor<4x1xf32>) -> tensor<4x1xf32> {
  %m = "oneflow.variable"() {device_tag = "cpu", op_name = "mean"} : () -> tensor<1xf32>
  %v = "oneflow.variable"() {device_tag = "cpu", op_name = "variance"} : () -> tensor<1xf32>
  %p = "oneflow.variable"() {device_tag = "cpu", op_name = "p"} : () -> tensor<1xf32>
  %0:3 = "oneflow.normalization"(%x, %m, %v, %p, %p) {axis = 1 : si32, device_tag = "cpu", epsilon = 1.0e-05 : f32,
    momentum = 0.5 : f32, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 0>, result_segment_sizes =
    array<i32: 1, 1, 1>, training = true} : (tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>,
    tensor<1xf32>) -> (tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>)
  oneflow.return %0#0 : tensor<4x1xf32>
}"""


def test_variables_that_a_graph_updates_are_updated(tmp_path):
    (tmp_path / "model.mlir").write_text(NORM)
    for name in ("mean", "variance", "p"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta").write_text("shape {\n  dim: 1\n}\ndata_type: kFloat\n")
        (tmp_path / name / "out").write_bytes(struct.pack("<f", 1))
    graph, x = flow.load(tmp_path), np.array([[1], [2], [3], [6]], np.float32)
    mean = 1.0
    for _ in range(2):
        np.testing.assert_allclose(graph(x).numpy(), (x - 3) / np.sqrt(3.5 + 1e-5) + 1, rtol=1e-5)
        mean = 0.5 * mean + 0.5 * 3
        assert graph.state_dict()["mean"].item() == mean
    np.testing.assert_allclose(graph.state_dict()["variance"].item(), 0.25 + 0.75 * 14 / 3, rtol=1e-6)


#: Files that are changed, and the messages.
MALFORMED = {
    "no variable": ("net.w/meta", None, "expected .*net.w to be a variable, a folder with the files meta and out"),
    "short": ("net.w/out", b"\0" * 47, r"expected 48 bytes in .*out for float32\[3, 4\], got 47"),
    "long": ("net.w/out", b"\0" * 49, "expected 48 bytes"),
    "huge": ("net.w/meta", b"shape { dim: 999999999999 dim: 4 } data_type: kFloat", "expected 15999999999984 bytes"),
    "negative": ("net.w/meta", b"shape { dim: -3 } data_type: kFloat", "expected a shape and a data type of kBool"),
    "type": ("net.w/meta", b"shape { dim: 12 } data_type: kOFRecord", "expected a data type of kBool, .*kOFRecord"),
    "binary": ("net.w/meta", b"\xff\xfe", "expected a shape and a data type"),
    "other type": (
        "net.w/meta", b"shape { dim: 12 }\ndata_type: kFloat", r"expected the variable net.w to be tensor<3x4",
    ),
    "outside": (
        "model.mlir", PROGRAM.replace('"net.w"', '"../net.w"').encode(), r"what is in the folder, got '\.\./",
    ),
    "absolute": (
        "model.mlir", PROGRAM.replace('"net.w"', '"/etc"').encode(), "names of what is in the folder, got '/etc'",
    ),
    "text": ("model.mlir", b"oneflow.job @f(", r"model.mlir:1:15: error"),
    "bytes": ("model.mlir", b"\xff", "to be a program in UTF-8"),
    "jobs": (
        "model.mlir", b"func.func @f() { return } func.func @g() { return }",
        "expected one job in .*, got func.func, func.func",
    ),
    "operator": (
        "model.mlir", b"oneflow.job @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        b"  %0 = arith.negf %x : tensor<2xf32>\n  oneflow.return %0 : tensor<2xf32>\n}",
        "expected operators of the dialect oneflow, got arith.negf",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name, data, message", MALFORMED.values(), ids=MALFORMED)
def test_malformed_folders_are_refused(folder, name, data, message):
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)
    with pytest.raises(flow.OneFlowError, match=message):
        flow.load(folder)(np.ones(2, np.float32))


def test_variables_outside_of_the_folder_are_refused(folder, tmp_path_factory):
    (folder / "net.w").rename(tmp_path_factory.mktemp("other") / "w")
    os.symlink(next(tmp_path_factory.getbasetemp().glob("other*")) / "w", folder / "net.w")
    with pytest.raises(flow.OneFlowError, match=r"expected names of what is in the folder, got 'net\.w'"):
        flow.load(folder)


def test_calls_are_checked(folder):
    graph = flow.load(folder)
    with pytest.raises(flow.OneFlowError, match="expected 1 inputs, tensor<2x3xf32>, got 2"):
        graph(np.ones((2, 3), np.float32), 1)
    with pytest.raises(flow.OneFlowError, match=r"model\.mlir:9: oneflow\.matmul: expected"):
        graph(np.ones((2, 4), np.float32))


class Classifier(nn.Graph):
    def __init__(self):
        super().__init__()
        flow.manual_seed(3)
        self.net = nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.GELU(), nn.Flatten(), nn.Linear(12, 2)
        ).eval()
        self.scale = flow.tensor(np.arange(2, dtype=np.float64))

    def build(self, x, shift):
        y = self.net(x)
        picked = flow.cat([y, flow.tensor([[2.5], [-1.0]])], 1)
        return picked + shift, picked > 0, flow.topk(y, 1)[1], y.to(flow.bfloat16), self.scale * 2


def test_a_graph_is_saved_and_loaded(tmp_path):
    graph = Classifier()
    with pytest.raises(flow.OneFlowError, match="has no program"):
        flow.save(graph, tmp_path / "graph")
    x, shift = np.random.default_rng(1).normal(size=(2, 2, 4, 4)).astype(np.float32), np.ones((), np.float32)
    wanted = graph(x, shift)
    flow.save(graph, tmp_path / "graph")
    loaded = flow.load(tmp_path / "graph")
    assert {"net.0.weight", "net.1.running_var", "net.4.bias"} <= loaded.state_dict().keys()
    for got, want in zip(loaded(x, shift), wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.float().numpy(), want.float().numpy())
    meta = (tmp_path / "graph/net.4.bias/meta").read_text()
    assert meta == "shape {\n  dim: 2\n}\ndata_type: kFloat\n"
    assert (tmp_path / "graph/net.4.bias/out").read_bytes() == graph.net[4].bias.numpy().tobytes()
    text = (tmp_path / "graph/model.mlir").read_text()
    assert "oneflow.job @Classifier_" in text and "axis = 1 : si64" in text and "xsi64>" in text


class Step(nn.Graph):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.add_optimizer(flow.optim.SGD(self.layer.parameters(), 0.1))

    def build(self, x):
        loss = self.layer(x).sum()
        loss.backward()
        return loss


def test_a_graph_that_trains_is_not_saved(tmp_path):
    graph = Step()
    graph(np.ones((1, 2), np.float32))
    with pytest.raises(flow.OneFlowError, match="expected a graph that updates nothing, got one that trains"):
        flow.save(graph, tmp_path / "graph")
    assert not (tmp_path / "graph").exists()
    with pytest.raises(TypeError, match="expected tensors and plain values to save, got BytesIO"):
        flow.save(io.BytesIO(), tmp_path / "graph")
