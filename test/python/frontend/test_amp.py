"""Autocast, scaling of gradients, and options of graphs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import oneflow as flow
from oneflow import amp, nn
from oneflow.nn import functional as F  # noqa: N812

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def test_autocast_chooses_types_by_the_function():
    layer, x = nn.Linear(3, 2), flow.tensor(X)
    with flow.autocast("cpu"):
        product = layer(x)
        assert (product.dtype, F.softmax(product).dtype, (product + product).dtype) == (
            flow.bfloat16, flow.float32, flow.bfloat16)  # fmt: skip
        assert (x * 2).dtype == flow.float32 and flow.matmul(x.double(), x.double().T).dtype == flow.float64
        with flow.autocast("cpu", enabled=False):
            assert layer(x).dtype == flow.float32 and not flow.is_autocast_enabled()
        with flow.autocast("cuda"):
            assert layer(x).dtype == flow.float32
        product.float().sum().backward()
    assert layer.weight.grad.dtype == flow.float32
    np.testing.assert_allclose(product.numpy().astype(np.float32), layer(x).numpy(), rtol=0.02, atol=0.02)
    half = flow.autocast("cpu", dtype=flow.float16)(lambda: layer(x))()
    assert half.dtype == flow.float16
    with pytest.raises(ValueError, match=r"float16 or flow\.bfloat16"):
        flow.autocast("cpu", dtype=flow.float32)


def test_a_checkpoint_is_computed_again_with_its_autocast():
    layer, x = nn.Linear(3, 3), flow.tensor(X)
    found = []
    for call in (lambda x: layer(layer(x)), flow.checkpoint(lambda x: layer(layer(x)))):
        layer.zero_grad()
        with flow.autocast("cpu"):
            result = call(x)
        result.float().sum().backward()
        found.append(layer.weight.grad.numpy().copy())
    np.testing.assert_array_equal(*found)


def test_a_compiled_function_has_a_program_for_each_autocast():
    compiled = flow.compile(lambda x: flow.matmul(x, x.t()))
    x = flow.tensor(X)
    assert compiled(x).dtype == flow.float32
    with flow.autocast("cpu"):
        assert compiled(x).dtype == flow.bfloat16
    with flow.autocast("cuda"):
        assert compiled(x).dtype == flow.float32
    assert compiled(x).dtype == flow.float32


def test_threads_share_an_autocast():
    meeting = threading.Barrier(2, timeout=20)
    x = flow.tensor(X)

    @flow.autocast("cpu")
    def product(waits):
        for _ in range(waits):
            meeting.wait()
        return flow.matmul(x, x.t()).dtype

    def called(waits):
        found = product(waits)
        if waits == 1:
            meeting.wait()
        return found, flow.is_autocast_enabled()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(called, (1, 2))) == [(flow.bfloat16, False)] * 2


def test_operands_of_two_types_take_the_widest():
    x, low, at = flow.zeros(2, 2), flow.ones(2, 2, dtype=flow.bfloat16), flow.tensor([[0, 1], [0, 1]])
    grid = flow.zeros(1, 1, 1, 2)
    with flow.autocast("cpu"):
        for found in (
            flow.scatter_add(x, 0, at, low), flow.scatter(x, 0, at, low), flow.index_add(x, 0, at[0], low),
            F.grid_sample(low.reshape(1, 1, 2, 2), grid, align_corners=False),
        ):  # fmt: skip
            assert found.dtype == flow.float32 and found.sum().item() in (1, 2, 4)


def test_gradients_of_16_bits_are_divided_in_32():
    x = flow.tensor([1.0], dtype=flow.float16, requires_grad=True)
    optimizer, scaler = flow.optim.SGD([x], lr=1.0), amp.GradScaler(init_scale=2.0**26)
    x.grad = flow.tensor([2.0**15], dtype=flow.float16)
    scaler.unscale_(optimizer)
    assert x.grad.dtype == flow.float16 and x.grad.tolist() == [2.0**-11]


def test_scaled_gradients_are_divided_and_steps_that_are_not_finite_are_left_out():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    optimizer = flow.optim.SGD([x], lr=1.0)
    scaler = amp.GradScaler(init_scale=8.0, growth_interval=2)
    for factor, scale in ((1.0, 8.0), (np.inf, 4.0), (1.0, 4.0), (1.0, 8.0)):
        optimizer.zero_grad()
        scaler.scale((x * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
    assert x.tolist() == [-2, -1]
    again = amp.GradScaler()
    again.load_state_dict(scaler.state_dict())
    assert again.get_scale() == 8
    with pytest.raises(ValueError, match="before update"):
        scaler.update()


class Step(nn.Graph):
    def __init__(self, scaler=None, dtype=None):
        super().__init__()
        self.layer = nn.Linear(3, 1, bias=False)
        nn.init.ones_(self.layer.weight)
        self.add_optimizer(flow.optim.SGD(self.layer.parameters(), lr=0.5))
        if scaler is not None:
            self.set_grad_scaler(scaler)
        self.config.enable_amp(dtype is not None, dtype=dtype or flow.float16)

    def build(self, x, factor):
        result = self.layer(x)
        (result.float() * factor).mean().backward()
        return result


@pytest.mark.parametrize("scaler", [None, amp.StaticGradScaler(64.0), amp.GradScaler(init_scale=64.0)])
def test_graphs_with_scaled_losses(scaler):
    step = Step(scaler)
    for _ in range(2):
        step(flow.tensor(X), flow.tensor(1.0))
    np.testing.assert_allclose(step.layer.weight.numpy(), 1 - X.mean(0, keepdims=True), rtol=1e-5)
    if isinstance(scaler, amp.GradScaler):
        before = step.layer.weight.numpy().copy()
        step(flow.tensor(X), flow.tensor(np.inf, dtype=flow.float32))
        np.testing.assert_array_equal(step.layer.weight.numpy(), before)
        assert scaler.get_scale() == 32


def test_a_scaler_that_is_not_enabled_leaves_out_no_step():
    step = Step(amp.GradScaler(enabled=False))
    step(flow.tensor(X), flow.tensor(np.inf, dtype=flow.float32))
    assert not np.isfinite(step.layer.weight.numpy()).any()


def test_options_of_graphs():
    step = Step(dtype=flow.bfloat16)
    assert step(flow.tensor(X), flow.tensor(1.0)).dtype == flow.bfloat16
    assert step.name.startswith("Step_") and list(step.state_dict()) == ["layer", "optimizer_0"]
    other = Step()
    other.load_state_dict(step.state_dict())
    np.testing.assert_array_equal(other.layer.weight.numpy(), step.layer.weight.numpy())
    step.config.allow_fuse_cast_scale(True)  # type: ignore[attr-defined]
    assert nn.Graph.trace(lambda x: x * 2)(flow.tensor([1.0, 2.0])).tolist() == [2, 4]
    with pytest.raises(ValueError, match="expected a number of steps"):
        step.config.set_gradient_accumulation_steps(0)
    with pytest.raises(TypeError, match="GradScaler"):
        step.set_grad_scaler(2.0)


@pytest.mark.parametrize("scale", [None, 128.0])
def test_gradients_of_micro_batches_are_accumulated(scale):
    """The step is that of the mean of the losses of the parts; results of the parts are joined."""

    class Train(nn.Graph):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1, bias=False)
            nn.init.constant_(self.layer.weight, 1.0)
            self.add_optimizer(flow.optim.SGD(self.layer.parameters(), lr=0.5))
            if scale is not None:
                self.set_grad_scaler(flow.amp.StaticGradScaler(scale))
            self.config.set_gradient_accumulation_steps(2)

        def build(self, x, factor):
            y = self.layer(x) * factor
            loss = y.square().sum()
            loss.backward()
            return y, {"loss": loss}

    graph, x = Train(), np.array([[1, 2], [0, 1], [3, -1], [1, 1]], np.float32)
    y, losses = graph(flow.tensor(x), flow.tensor(2.0))
    wanted = 2 * x.sum(1, keepdims=True)
    np.testing.assert_array_equal(y.numpy(), wanted)
    np.testing.assert_array_equal(losses["loss"].numpy(), (wanted**2).reshape(2, 2).sum(1))
    gradient = (2 * wanted * 2 * x).sum(0) / 2
    np.testing.assert_allclose(graph.layer.weight.numpy()[0], 1 - 0.5 * gradient, 1e-6)
    with pytest.raises(flow.OneFlowError, match="first dimension that 2 steps"):
        graph(flow.tensor(x[:3]), flow.tensor(2.0))


def test_modules_that_are_computed_again():
    layer, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), flow.tensor(X)
    layer(x).sum().backward()
    wanted = layer[0].weight.grad.numpy().copy()
    layer.zero_grad()
    options = layer.to(nn.graph.GraphModule)
    options.activation_checkpointing = True
    assert options.activation_checkpointing
    layer(x).sum().backward()
    np.testing.assert_allclose(layer[0].weight.grad.numpy(), wanted, rtol=1e-6)
    options.activation_checkpointing = False
    assert not layer.to(nn.graph.GraphModule).activation_checkpointing


def test_finfo_and_iinfo():
    assert (flow.finfo(flow.float16).max, flow.finfo().bits, flow.iinfo(flow.int8).min) == (65504.0, 32, -128)
    assert repr(flow.iinfo(flow.int8)) == "iinfo(min=-128, max=127, dtype=oneflow.int8, bits=8)"
    assert flow.finfo(flow.bfloat16).eps == 2.0**-7
    with pytest.raises(TypeError, match="iinfo"):
        flow.finfo(flow.int32)
