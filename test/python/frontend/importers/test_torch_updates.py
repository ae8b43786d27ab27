"""Updates in place in imported PyTorch models: values where nothing else shares the memory, else PyTorch's work."""

import copy
from typing import Any

import pytest
from call_counts import recorded

import oneflow as flow

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
from torch import nn  # noqa: E402
from torch.export import ExportedProgram  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Function(nn.Module):
    """A module that computes a function."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *arguments):
        return self.function(self, *arguments)


def _statement(_, x):
    y = x * 2
    y.mul_(3)
    z = y.add_(x)
    y.relu_()
    return y + x, z


def _residual(self, x):
    y = nn.functional.relu(self.norm(self.layer(x)), inplace=True)
    y += x
    return y.flatten(1), y


def _promoted(_, x):
    y = x.double() * 2
    return y.sub_(x).clamp_(0.1, 0.5)


def _earlier_view(_, x):
    y = x + 1
    rows = y[0]
    y.mul_(2)
    return rows, y


def _update_of_a_view(_, x):
    y = x + 1
    y[0].mul_(2)
    return y


#: Functions, their parts, and whether PyTorch has to trace the graph again.
CASES = {
    "statements": (_statement, {}, False),
    "activations and sums": (_residual, {"norm": nn.BatchNorm2d(3), "layer": nn.Conv2d(3, 3, 1)}, False),
    "types": (_promoted, {}, False),
    "a view before the update": (_earlier_view, {}, True),
    "an update of a view": (_update_of_a_view, {}, True),
}


@pytest.mark.parametrize("name", CASES)
def test_updates_are_values(name, monkeypatch):
    function, parts, is_traced = CASES[name]
    torch.manual_seed(0)
    model, x = Function(function, **parts).eval(), torch.randn(2, 3, 4, 4)
    traced, decompose = list[Any](), ExportedProgram.run_decompositions
    monkeypatch.setattr(ExportedProgram, "run_decompositions", recorded(decompose, traced))
    found, wanted = flow.from_torch(model, (x,))(x), model(x.clone())
    for one, other in zip(*(torch.utils._pytree.tree_leaves(v) for v in (found, wanted)), strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-5, atol=1e-6)
    assert bool(traced) == is_traced


def test_statistics_are_updated():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.BatchNorm1d(3, momentum=0.5), nn.ReLU(inplace=True)), torch.randn(4, 3)
    program = flow.from_torch(copy.deepcopy(model), (x,))
    torch.testing.assert_close(program(x), model(x).detach(), rtol=1e-5, atol=1e-6)
    found = dict(program.named_buffers())["0.running_mean"].numpy()
    torch.testing.assert_close(torch.from_numpy(found), model[0].running_mean, rtol=1e-5, atol=1e-6)


def test_updated_arguments():
    model = Function(lambda _, x, y: x.add_(y) * 2)
    x, y = torch.ones(3), torch.arange(3.0)
    program = flow.from_torch(model, (torch.ones(3), y))
    torch.testing.assert_close(program(x, y), (1 + y) * 2)
    torch.testing.assert_close(x, 1 + y)
