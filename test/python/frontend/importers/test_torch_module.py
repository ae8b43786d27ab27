"""`flow.from_torch`: values, gradients, names, lines and dynamic sizes of imported PyTorch models."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import oneflow as flow
from oneflow.tools import oneflow_run, oneflow_translate

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

from oneflow.frontend.importers.torch.fx_interpreter import FxInterpreter  # noqa: E402, F401  (fills the table)
from oneflow.frontend.importers.torch.table import ATEN  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return {"scores": self.head(x.mean((2, 3))), "size": x.shape[0]}


class Reader(nn.Module):
    """Attention with a mask that depends on the dynamic length."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, tokens):
        steps = torch.arange(tokens.shape[1])
        hidden = steps[None] > steps[:, None]
        return self.layer(self.table(tokens), src_mask=hidden).mean(1)


@pytest.fixture(scope="module")
def cnn():
    torch.manual_seed(0)
    model = Cnn().eval()
    return model, flow.from_torch(model, (torch.randn(2, 3, 6, 6),), dynamic_shapes=({0: Dim.AUTO},))


def test_one_program_has_the_values_of_pytorch_for_every_batch_size(cnn):
    model, program = cnn
    for count in (2, 5):
        x = torch.randn(count, 3, 6, 6)
        wanted, found = model(x), program(x)
        torch.testing.assert_close(found["scores"], wanted["scores"].detach(), rtol=1e-5, atol=1e-6)
        assert int(found["size"]) == count
        np.testing.assert_array_equal(program(x.numpy())["scores"], found["scores"].numpy())
    assert "1 program" in repr(program.program)


def test_state_is_named_and_shares_the_memory_of_pytorch(cnn):
    model, program = cnn
    text = str(program.module)
    for name in ("conv.weight", "norm.running_mean", "head.bias", "x"):
        assert f'oneflow.name = "{name}"' in text
    assert "num_batches_tracked" not in text
    assert "tensor<?x3x6x6xf32>" in text and '"oneflow.conv2d"' in text
    assert np.shares_memory(
        dict(program.named_parameters())["head.weight"].numpy(), model.head.weight.detach().numpy()
    )


def test_operations_have_the_lines_of_the_model(cnn):
    text = cnn[1].module.operation.get_asm(enable_debug_info=True)
    lines, first = inspect.getsourcelines(Cnn.forward)
    number = first + next(i for i, line in enumerate(lines) if "mean((2, 3))" in line)
    assert f'test_torch_module.py":{number}:' in text


def test_a_transformer_layer_with_two_dynamic_sizes():
    torch.manual_seed(0)
    model = Reader().eval()
    tokens = torch.randint(0, 20, (2, 4))
    program = flow.from_torch(model, (tokens,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    for shape in ((2, 4), (3, 7)):
        tokens = torch.randint(0, 20, shape)
        torch.testing.assert_close(program(tokens), model(tokens).detach(), rtol=1e-5, atol=1e-6)


def test_an_imported_model_trains():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
    program = flow.from_torch(model, (torch.randn(3, 4),))
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    (model(torch.from_numpy(x)) ** 2).sum().backward()

    @flow.compile
    def step(x):
        (program(x) ** 2).sum().backward()

    step(x)
    for name, parameter in program.named_parameters():
        wanted = model.get_parameter(name).grad.numpy()
        np.testing.assert_allclose(parameter.grad.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_an_exported_file_becomes_a_program_and_its_weights(tmp_path, capsys):
    torch.manual_seed(0)
    model = nn.Linear(3, 2).eval()
    file, program = tmp_path / "model.pt2", tmp_path / "model.mlir"
    torch.export.save(torch.export.export(model, (torch.ones(2, 3),)), file)
    assert oneflow_translate.main(["--import-torch", str(file), "-o", str(program)]) == 0
    np.save(tmp_path / "x.npy", x := np.ones((2, 3), np.float32))
    inputs = [f"input={tmp_path / 'x.npy'}", str(tmp_path / "model.safetensors")]
    command = [str(program), "--entry-point", "main", "--output", str(tmp_path / "y.npy")]
    assert oneflow_run.main([*command, *(a for given in inputs for a in ("--input", given))]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(torch.from_numpy(x)).detach(), rtol=1e-6)
    (tmp_path / "broken.pt2").write_text("no archive")
    assert oneflow_translate.main(["--import-torch", str(tmp_path / "broken.pt2")]) == 1
    assert "expected a file of torch.export.save, got another kind of file" in capsys.readouterr().err


class Sorted(nn.Module):
    def forward(self, x):
        return torch.linalg.cholesky(x) + torch.special.i0(x)


def test_operators_without_counterpart_are_named_together():
    with pytest.raises(flow.OneFlowError, match=r"i0\.default; linalg_cholesky_ex\.default"):
        flow.from_torch(Sorted(), (torch.eye(3),))


class Composed(nn.Module):
    """Operators that are not in the table, and which PyTorch decomposes."""

    def forward(self, x, labels):
        scores = torch.hstack([x.tile(1, 2), x.std(1, keepdim=True)])
        loss = nn.functional.cross_entropy(scores, labels, label_smoothing=0.1)
        return loss, nn.functional.cosine_similarity(x, x.flip(0)), x.clamp(-1, 1).add_(1), torch.cdist(x, -x)


def test_other_operators_are_decomposed():
    x, labels = torch.randn(3, 4), torch.tensor([1, 8, 0])
    program = flow.from_torch(Composed(), (x, labels))
    for found, wanted in zip(program(x, labels), Composed()(x, labels), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


class Arranged(nn.Module):
    """Composed operators of devices, grids and transposes, which models have outside of their layers."""

    def forward(self, x, y):
        rows, columns = torch.meshgrid(x[:, 0], x[0], indexing="ij")
        across, down = torch.meshgrid(x[:, 0], x[0], indexing="xy")
        wide, tall = torch.broadcast_tensors(x[:1], y[:, :1])
        same = [x.to("cpu"), x.to("cpu", torch.float64), x.to(y), y.reshape_as(x)]
        return rows, columns, across, down, wide, tall, x.T, y.mT, *same


def test_composed_operators_of_the_table_are_not_decomposed(monkeypatch):
    """PyTorch's decomposition traces the whole graph again."""
    x, y = torch.randn(3, 4), torch.arange(12.0).reshape(3, 4).double()
    rows = {0: torch.export.Dim("rows", min=2)}
    exported = torch.export.export(Arranged(), (x, y), dynamic_shapes=(rows, rows))
    monkeypatch.delattr(torch.export.ExportedProgram, "run_decompositions")
    program = flow.from_torch(exported)
    for given in ((x, y), (torch.randn(5, 4), torch.randn(5, 4).double())):
        for found, wanted in zip(program(*given), Arranged()(*given), strict=True):
            torch.testing.assert_close(found, wanted)


def test_arguments_that_do_not_fit_are_refused(cnn):
    program = cnn[1]
    with pytest.raises(flow.CallError, match=r"expected x of type tensor<\?x3x6x6xf32>"):
        program(torch.ones(2, 3, 5, 6))
    with pytest.raises(flow.CallError, match=r"expected arguments as in the export, \(x\), got \(Tensor, int\)"):
        program(torch.ones(2, 3, 6, 6), 1)
    with pytest.raises(flow.CallError, match=r"expected a torch\.nn\.Module or .*, got int"):
        flow.from_torch(3)


def test_importing_the_package_does_not_import_pytorch():
    check = "import sys, oneflow as flow; flow.from_torch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


class Chosen(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,))


class Counted(nn.Module):
    def forward(self, i, x):
        step = lambda i, x: (i + 1, x * 2)  # noqa: E731
        return torch._higher_order_ops.while_loop(lambda i, x: i < 4, step, (i, x))


class Scanned(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3) / 2)

    def forward(self, h, xs):
        step = lambda h, x: ((h @ self.weight + x).tanh(), h * 3)  # noqa: E731
        return torch._higher_order_ops.scan(step, h, xs)


X = torch.arange(24.0).reshape(4, 2, 3) / 24
HIGHER_ORDER = {
    "cond": (Chosen(), (X,), "oneflow.cond"),
    "cond not": (Chosen(), (-X,), "oneflow.cond"),
    "while_loop": (Counted(), (torch.tensor(0), X), "oneflow.while_loop"),
    "scan": (Scanned(), (torch.ones(2, 3), X), "oneflow.scan"),
    "lstm": (nn.LSTM(3, 4), (X,), "oneflow.scan"),
    "gru backwards too": (nn.GRU(3, 4, bidirectional=True, batch_first=True), (X,), "oneflow.scan"),
}


@pytest.mark.parametrize("name", HIGHER_ORDER)
def test_control_flow_is_one_operator(name):
    """The functions of PyTorch's higher-order operators, and the steps of recurrent layers, become bodies."""
    model, inputs, operator = HIGHER_ORDER[name]
    program = flow.from_torch(torch.export.export(model, inputs))
    wanted, found = (torch.utils._pytree.tree_leaves(f(*inputs)) for f in (model, program))
    assert len(found) == len(wanted) and f'"{operator}"' in str(program.module)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-5, atol=1e-6)


def test_functions_that_are_builders_have_the_parameters_of_pytorch_in_order():
    """A common parameter name has one position, and the function accepts all parameters of an overload."""
    wrong = []
    for name, row in ATEN.items():
        operator, _, overload = name.rpartition(".")
        packet = getattr(torch.ops.aten, operator, None)
        if not row.build.__module__.startswith("oneflow.frontend.functional") or not hasattr(packet, overload):
            continue
        passed = [a.name for a in getattr(packet, overload)._schema.arguments if not a.kwarg_only]
        parameters = list(inspect.signature(row.build).parameters.values())
        own = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        takes_all = len(own) >= len(passed) or any(p.kind is p.VAR_POSITIONAL for p in parameters)
        moved = [n for n in passed if n in own and n != "self" and own.index(n) != passed.index(n)]
        if moved or not takes_all:
            wrong.append((name, passed, own))
    assert len(ATEN) > 500 and not wrong


def test_pooling_that_rounds_sizes_up():
    model = nn.Sequential(nn.MaxPool2d(3, 2, ceil_mode=True), nn.AvgPool2d(2, 2, ceil_mode=True))
    x = torch.randn(2, 1, 8, 9)
    torch.testing.assert_close(flow.from_torch(model, (x,))(x), model(x))


def test_an_imported_model_becomes_an_onnx_model():
    """The inputs of the written model are the inputs of the export, and nothing else is written."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is an extra")

    class Model(nn.Module):
        def forward(self, images, *, scale):
            return {"sum": sum(x * scale for x in images.unbind(1))}

    batch = torch.export.Dim.AUTO
    program = flow.from_torch(
        Model(),
        (torch.ones(2, 3, 4),),
        {"scale": torch.ones(4)},
        dynamic_shapes={"images": {0: batch}, "scale": None},
    )
    model = flow.to_onnx(program)
    read = {name for node in model.graph.node for name in node.input}
    assert {x.name for x in model.graph.initializer} <= read
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x, scale = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32), np.full(4, 2, np.float32)
    (result,) = session.run(None, {"images": x, "scale": scale})
    np.testing.assert_allclose(result, x.sum(1) * 2, rtol=1e-6)


def test_calls_with_only_tensors_flatten_no_pytree(monkeypatch):
    model = torch.nn.Linear(3, 2)
    module = flow.from_torch(model, torch.ones(4, 3))
    x = torch.arange(12.0).reshape(4, 3)
    with torch.no_grad():
        expected = model(x)
    module(x)
    monkeypatch.setattr(type(module), "_flat", lambda *_: pytest.fail("the arguments were flattened"))
    torch.testing.assert_close(module(x), expected)
    torch.testing.assert_close(module(x[:, [2, 0, 1]].T.contiguous().T), model(x[:, [2, 0, 1]]).detach())
    tensor = module(flow.tensor(x.numpy()))
    np.testing.assert_allclose(tensor.numpy(), expected.numpy(), rtol=1e-6)
    assert tensor.requires_grad
    with pytest.raises(flow.OneFlowError, match="expected"):
        module(x[0])
