"""Modules: names, state, modes, conversion, and compiled modules."""

import copy
import inspect
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

X = np.random.default_rng(1).uniform(-1, 1, (5, 3)).astype(np.float32)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2, bias=False))
        self.register_buffer("scale", flow.tensor([2.0, 3.0]))
        self.register_buffer("hidden", flow.tensor(0.0), persistent=False)
        self.plain = 7

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale


def test_names_of_parameters_and_buffers():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["first.weight", "first.bias", "rest.2.weight"]
    assert [n for n, _ in net.named_buffers()] == ["scale", "hidden"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1", "rest.2"]
    assert list(net.state_dict()) == ["scale", "first.weight", "first.bias", "rest.2.weight"]
    assert all(p.requires_grad and p.is_leaf for p in net.parameters())
    assert "(first): Linear(in_features=3, out_features=4, bias=True)" in repr(net)


def test_shared_parameters_are_listed_once():
    net = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    state = {n: np.full(t.shape, i, np.float32) for i, (n, t) in enumerate(net.state_dict().items())}
    net.load_state_dict(state)
    assert net[0].weight is net[1].weight and net[0].weight.detach().tolist()[0] == [2, 2, 2]


def test_attributes():
    net: Any = Net()
    net.first = nn.Identity()
    assert [n for n, _ in net.named_parameters()] == ["rest.2.weight"]
    net.scale = None
    assert "scale" not in net.state_dict()
    del net.plain
    with pytest.raises(AttributeError, match="Net has no attribute 'plain'"):
        _ = net.plain

    class Forgets(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"expected Forgets\.__init__ to call super\(\)\.__init__\(\) first"):
        Forgets()


def test_state_is_copied_and_checked():
    net, other = Net(), Net()
    pointer = net.first.weight.detach()
    assert net.load_state_dict(other.state_dict()) == ([], [])
    np.testing.assert_array_equal(pointer.numpy(), other.first.weight.detach().numpy())
    state = {**other.state_dict(), "more": flow.tensor(1.0), "first.bias": np.zeros(3)}
    del state["scale"]
    with pytest.raises(RuntimeError, match=r"first.bias is \[4\], given \[3\]; missing scale; unexpected more"):
        net.load_state_dict(state)
    del state["first.bias"]
    unmatched = net.load_state_dict(state, strict=False)
    assert (unmatched.missing_keys, unmatched.unexpected_keys) == (["scale", "first.bias"], ["more"])


def test_state_is_assigned():
    net, optimizer_holds = Net(), []
    optimizer_holds.append(net.first.weight)
    net.first.bias.requires_grad_(False)
    state = {name: v.to(flow.float64) for name, v in Net().state_dict().items()} | {
        "first.bias": np.zeros(4, np.int32)
    }
    assert net.load_state_dict(state, assign=True) == ([], [])
    weight = net.first.weight
    assert weight is optimizer_holds[0] and weight.dtype == flow.float64 and weight.requires_grad
    state["first.weight"].fill_(3)
    assert weight.detach().tolist() == [[3] * 3] * 4
    assert net.first.bias.dtype == flow.int32 and not net.first.bias.requires_grad
    assert net.scale.dtype == flow.float64 and not net.scale.requires_grad
    with pytest.raises(RuntimeError, match=r"first.bias is \[4\], given \[3\]"):
        net.load_state_dict(state | {"first.bias": np.zeros(3)}, assign=True)


CONTAINERS = {
    "pools": (lambda _: nn.Sequential(nn.MaxPool2d(3, padding=1), nn.AvgPool1d(2, 1)), """Sequential(
  (0): MaxPool2d(kernel_size=(3, 3), stride=(3, 3), padding=(1, 1), dilation=(1, 1))
  (1): AvgPool1d(kernel_size=(2,), stride=(1,), padding=(0,), ceil_mode=False)
)"""),
    "list": (lambda p: nn.ParameterList([p(2, 3), p(1)]), """ParameterList(
  (0): Parameter containing: [<class 'oneflow.nn.Parameter'> of size 2x3]
  (1): Parameter containing: [<class 'oneflow.nn.Parameter'> of size 1]
)"""),
    "dict": (lambda p: nn.ParameterDict({"a": p(0, 1)}), (
        "ParameterDict((a): Parameter containing: [<class 'oneflow.nn.Parameter'> of size 0x1])"
    )),
    "modules": (lambda p: nn.ModuleDict({"x": nn.ReLU(), "l": nn.ParameterList([p(2), p(3)])}), """ModuleDict(
  (x): ReLU()
  (l): ParameterList(
    (0): Parameter containing: [<class 'oneflow.nn.Parameter'> of size 2]
    (1): Parameter containing: [<class 'oneflow.nn.Parameter'> of size 3]
  )
)"""),
    "nothing": (lambda p: nn.ParameterList(), "ParameterList()"),
    "layers": (lambda p: nn.ModuleList([nn.ReLU()]), "ModuleList(\n  (0): ReLU()\n)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_repr_of_containers(name):
    make, text = CONTAINERS[name]
    assert repr(make(lambda *sizes: nn.Parameter(np.zeros(sizes, np.float32)))) == text


def test_repr_of_modules():
    class Scaled(nn.Sequential):
        def extra_repr(self):
            return "scale=2"

    assert repr(Scaled(nn.ReLU())) == "Scaled(\n  scale=2\n  (0): ReLU()\n)"


def test_train_and_eval_modes():
    net = Net().eval()
    assert not net.training and not net.rest[1].training
    np.testing.assert_array_equal(net(flow.tensor(X)).detach().numpy(), net(flow.tensor(X)).detach().numpy())
    assert net.train() is net and net.rest[1].training


def test_compiled_programs_follow_the_mode_and_the_parameters():
    flow.manual_seed(0)
    net = Net().eval()
    compiled = flow.compile(net)
    first = compiled(X)
    np.testing.assert_allclose(first.detach().numpy(), net(flow.tensor(X)).detach().numpy(), 1e-5, 1e-6)
    with flow.no_grad():
        net.scale.mul_(2)
    np.testing.assert_allclose(compiled(X).detach().numpy(), 2 * first.detach().numpy(), 1e-6)
    net.train()
    assert (compiled(X).detach().numpy() != compiled(X).detach().numpy()).any()
    net.eval()
    np.testing.assert_allclose(compiled(X).detach().numpy(), 2 * first.detach().numpy(), 1e-6)
    assert sorted(len(v) for v in compiled._specializations.values()) == [2]


def test_modules_are_arguments():
    nets = [nn.Linear(3, 2), nn.Linear(3, 2)]
    compiled = flow.compile(lambda net, x: net(x).sum())
    for net in nets:
        np.testing.assert_allclose(float(compiled(net, X)), float(net(flow.tensor(X)).sum()), 1e-5)


def test_conversion():
    net = Net().double()
    assert {p.dtype for p in net.parameters()} == {flow.float64} and net.scale.dtype == flow.float64
    parameter = net.first.weight
    net(flow.tensor(X.astype(np.float64))).sum().backward()
    assert parameter.grad.dtype == flow.float64
    with pytest.raises(TypeError, match="expected a type of floats"):
        net.to(flow.int32)


def test_gradients_and_apply():
    net = Net().eval()
    net(flow.tensor(X)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert all((p.grad.numpy() == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.first.requires_grad_(False)
    net(flow.tensor(X)).sum().backward()
    assert net.first.weight.grad is None and net.rest[2].weight.grad is not None
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Dropout", "Linear", "Sequential", "Net"]


def test_deepcopies_of_modules():
    net = Net()
    other = copy.deepcopy(net)
    with flow.no_grad():
        other.first.weight.zero_()
    assert isinstance(other.first.weight, nn.Parameter) and net.first.weight.detach().numpy().any()


def test_containers():
    layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    assert len(layers) == 3 and len(layers[:2]) == 2 and isinstance(layers[-1], nn.Linear)
    named = nn.Sequential({"a": nn.Tanh(), "b": nn.Sigmoid()})
    assert [n for n, _ in named.named_children()] == ["a", "b"]
    table = nn.ModuleDict({"x": nn.Tanh()})
    table["y"] = nn.ReLU()
    assert list(table.keys()) == ["x", "y"] and "y" in table and len(table) == 2
    layers[1] = nn.ReLU()
    assert isinstance(layers[1], nn.ReLU)


def test_saving(tmp_path):
    net, other = Net(), Net()
    flow.save(net.state_dict(), tmp_path / "net.safetensors")
    other.load_state_dict(flow.load(tmp_path / "net.safetensors"))
    np.testing.assert_array_equal(other.first.weight.detach().numpy(), net.first.weight.detach().numpy())
    nested = {"model": net.state_dict(), "step": 3, "more": [(1.5, None), {"a": flow.tensor([1, 2])}], 5: "five"}
    flow.save(nested, tmp_path / "all")
    loaded = flow.load(tmp_path / "all")
    assert loaded["step"] == 3 and loaded["more"][0] == (1.5, None) and loaded[5] == "five"
    assert loaded["more"][1]["a"].tolist() == [1, 2] and list(loaded["model"]) == list(net.state_dict())
    half = {"h": flow.tensor([1.5], dtype=flow.bfloat16), "s": flow.tensor(2.0)}
    flow.save(half, tmp_path / "half")
    assert flow.load(tmp_path / "half")["h"].dtype == flow.bfloat16 and flow.load(tmp_path / "half")["s"].item() == 2
    with pytest.raises(TypeError, match=r"expected tensors and plain values to save, got object at a\.0"):
        flow.save({"a": [object()]}, tmp_path / "bad")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all", "half", "net.safetensors"]


def test_modules_and_parameters_by_dotted_names():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    assert net.get_submodule("1.1") is net[1][1] and net.get_submodule("") is net
    assert net.get_parameter("1.1.bias") is net[1][1].bias
    for get, name in ((net.get_submodule, "1.2"), (net.get_submodule, "0.weight"), (net.get_parameter, "0.scale")):
        with pytest.raises(AttributeError):
            get(name)


def test_clipping_refuses_gradients_that_are_not_finite():
    w = flow.tensor([1.0, 2.0], requires_grad=True)
    w.grad = flow.tensor([np.nan, 1.0])
    with pytest.raises(RuntimeError, match="a finite norm, got nan"):
        nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)


def test_signatures_of_modules():
    """A layer's class has the signature of its `__init__`, an instance the signature of `forward`."""
    assert list(inspect.signature(nn.ReLU).parameters) == ["inplace"]
    assert inspect.signature(nn.Linear(2, 3)) == inspect.signature(nn.Linear(2, 3).forward)
    for name, layer in vars(nn).items():
        if isinstance(layer, type) and issubclass(layer, nn.Module):
            assert "self" not in inspect.signature(layer).parameters, name


def test_conversion_to_the_class_of_a_tensor_or_module_changes_nothing():
    tensor, module = flow.ones(2), nn.Linear(1, 1)
    assert tensor.to(flow.Tensor) is tensor and module.to(nn.Module) is module
    with pytest.raises(flow.OneFlowError, match="expected an element type"):
        tensor.to(flow.LongTensor)
