"""Hooks in compiled functions, graphs and checkpoints, and the cost of hooks."""

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

X = np.array([[1.0, 2.0]], np.float32)


def counted(fn):
    """A compiled function, and the number of traces of the function."""
    traces = []

    def traced(*args):
        traces.append(args)
        return fn(*args)

    return flow.compile(traced), traces


def test_forward_hooks_are_part_of_a_program():
    layer = nn.Linear(2, 2)
    run, traces = counted(lambda x: layer(x))
    plain = layer(flow.tensor(X)).detach().numpy()
    np.testing.assert_allclose(run(X).detach().numpy(), plain, rtol=1e-6)
    handle = layer.register_forward_hook(lambda module, args, y: y * 2)
    np.testing.assert_allclose(run(X).detach().numpy(), plain * 2, rtol=1e-6)
    handle.remove()
    np.testing.assert_allclose(run(X).detach().numpy(), plain, rtol=1e-6)
    layer.register_forward_pre_hook(lambda module, args: args[0] * 0)
    np.testing.assert_allclose(run(X).detach().numpy(), layer.bias.detach().numpy()[None], rtol=1e-6)
    assert len(traces) == 4


def test_other_hooks_cause_no_recompilation():
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    run, traces = counted(lambda x: layer(x))
    run(X)
    with other.register_forward_hook(print), other.weight.register_hook(print):
        run(X)
    run(X)
    assert len(traces) == 1


def test_hooks_of_leaves_in_a_program():
    w = flow.tensor([1.0, 2.0], requires_grad=True)

    def step():
        w.grad = None
        (w * w).sum().backward()
        return w.grad

    run, traces = counted(step)
    assert run().tolist() == [2, 4]
    with w.register_hook(lambda g: g * 10):
        assert run().tolist() == run().tolist() == [20, 40]
    assert run().tolist() == [2, 4]
    w.register_hook(lambda g: -g)
    assert run().tolist() == w.grad.tolist() == [-2, -4]
    assert len(traces) == 4


def test_hooks_in_graphs():
    class Step(nn.Graph):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.layer.register_forward_hook(lambda module, args, y: y * 0 + 7)

        def build(self, x):
            return self.layer(x)

    assert Step()(flow.tensor(X)).tolist() == [[7, 7]]


def test_hooks_in_checkpoints():
    seen = []

    def tenfold(g):
        seen.append(("h", g.tolist()))
        return g * 10

    def block(x):
        h = x * 2
        if h.requires_grad:
            h.register_hook(tenfold)
        return h * h

    def run(fn):
        seen.clear()
        w = flow.tensor([1.0, 2.0], requires_grad=True)
        u = w * 1
        u.register_hook(lambda g: seen.append(("u", g.tolist())))
        fn(u).sum().backward()
        return w.grad.tolist(), list(seen)

    assert run(flow.checkpoint(block)) == run(block) == ([80, 160], [("h", [4, 8]), ("u", [80, 160])])


def test_results_without_gradients_are_none_if_asked():
    class Two(flow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            assert second is None
            return first * 2

    x = flow.tensor([1.0], requires_grad=True)
    Two.apply(x)[0].sum().backward()
    assert x.grad.tolist() == [2]


def test_refused_hooks():
    with pytest.raises(TypeError, match="expected a function to call as a hook, got 3"):
        flow.tensor([1.0], requires_grad=True).register_hook(3)
    with pytest.raises(RuntimeError, match="a tensor that requires grad to hang a hook on, got tensor<1xf32>"):
        flow.tensor([1.0]).register_hook(print)
    x = flow.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match="a hook to return a gradient of type tensor<1xf32> or None"):
        (x * 2).sum().backward()


def test_global_tensors_have_no_dlpack():
    x = flow.tensor([1.0, 2.0]).to_global(flow.placement("cpu", ranks=[0]), flow.sbp.broadcast)
    for call in (x.__dlpack__, x.__dlpack_device__):
        with pytest.raises(BufferError, match=r"pass x.to_local\(\)"):
            call()
