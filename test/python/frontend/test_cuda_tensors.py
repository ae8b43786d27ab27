"""Tensors on a device, on a driver made of host memory: eager mode, modules, training, mixed devices."""

import sys
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.eager.tensor import BUILDER
from oneflow.runtime.cuda.array import CudaArray
from oneflow.testing.host_cuda import host_cuda


@pytest.fixture(autouse=True)
def cuda(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda(devices=2) as made:
        yield made


def floats(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_copies_between_host_and_device():
    x = flow.tensor(floats(3, 4))
    there = x.to("cuda")
    assert there.device == "cuda:0" and there.device.type == "cuda" and there.is_cuda and x.device == "cpu"
    assert there.to("cuda:0") is there and there.cpu().device == "cpu" and x.to("cpu") is x
    np.testing.assert_array_equal(there.numpy(), x.numpy())
    np.testing.assert_array_equal(there.to("cuda:1").cuda().cpu().numpy(), x.numpy())
    assert "device='cuda:0'" in repr(there) and "device" not in repr(x)


def test_the_device_of_a_traced_tensor_where_captured_tensors_are_on_the_host(cuda):
    weight = flow.ones(2)
    traced = flow.compile(lambda x: (x * weight).to((x * weight).device))
    assert traced(flow.ones(2)).device == "cpu" and traced(flow.ones(2)).tolist() == [1, 1]


def test_tensors_are_made_on_the_device():
    assert flow.tensor([1.0, 2.0], device="cuda").device == "cuda"
    assert flow.ones(2, 3, device="cuda").device == "cuda" and flow.rand(2, device="cuda:1").device == "cuda:1"
    x = flow.zeros(2, device="cuda")
    assert flow.ones_like(x).device == "cuda" and x.tolist() == [0, 0]


def test_complex_numbers():
    """Results have the shapes and the values of results on the host."""
    x = (floats(2, 3) + 1j * floats(2, 3, seed=6)).astype(np.complex64)
    there = flow.tensor(x, device="cuda")
    for function in (lambda x: x * x + 1, flow.conj_physical, flow.real, lambda x: x.abs().sum()):
        got = function(there)
        want = function(flow.tensor(x))
        assert got.is_cuda and got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-5, 1e-6)


def test_current_device_and_its_properties():
    found = flow.cuda.get_device_properties("cuda:1")
    assert (found.name, found.total_memory) == (flow.cuda.get_device_name(1), 1 << 32) == ("host memory", 1 << 32)
    assert flow.cuda.get_device_capability() == (found.major, found.minor) == (8, 0)
    try:
        flow.cuda.set_device("cuda:1")
        assert flow.cuda.current_device() == 1 and flow.ones(2, device="cuda").device == "cuda:1"
        assert flow.device("cuda", 0) == "cuda:0" and flow.nn.Linear(1, 1, device="cuda").weight.device == "cuda:1"
    finally:
        flow.cuda.set_device(0)
    x = flow.cuda.LongTensor(2, 3)
    assert x.is_cuda and isinstance(x, flow.cuda.LongTensor) and not isinstance(x, flow.LongTensor)
    assert x.type() == "oneflow.cuda.LongTensor" and x.get_device() == 0 and x.cpu().get_device() == -1
    assert x.new_zeros(1).is_cuda and "device='cuda:0', dtype=oneflow.int64" in repr(x)
    with flow.autocast("cuda"):
        y = flow.ones(2, 3, device="cuda")
        assert flow.matmul(y, y.t()).dtype == flow.float16 and flow.matmul(y.cpu(), y.cpu().t()).dtype == flow.float32


def test_elements_that_wait_on_the_host(cuda):
    x = flow.tensor(floats(3, 4), device="cuda:1", requires_grad=True)
    values: Any = x.numpy().copy()
    x.offload()
    assert x.is_offloaded() and x.device == "cpu" and x.requires_grad
    x.load()
    assert not x.is_offloaded() and x.device == "cuda:1" and x.is_leaf
    np.testing.assert_array_equal(x.numpy(), values)
    with pytest.raises(RuntimeError, match="that offload has moved"):
        x.load()
    with pytest.raises(RuntimeError, match="a leaf on a device"):
        (x * 2).offload()


def test_operators_run_on_the_device():
    x, w = floats(3, 4), floats(4, 2)
    a, b = flow.tensor(x).cuda(), flow.tensor(w).cuda()
    got = flow.softmax(a @ b * 2.0 + 1) - flow.tensor(3.0)
    assert got.device == "cuda"
    want = flow.softmax(flow.tensor(x) @ flow.tensor(w) * 2.0 + 1) - 3.0
    np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-5, 1e-6)
    assert got.sum().item() == pytest.approx(want.sum().item(), 1e-5) and float(a.max()) == x.max()


def test_gradients_flow_on_the_device_and_through_copies():
    x, w = floats(3, 4), floats(4, 2)
    here = flow.tensor(w, requires_grad=True)
    loss = (flow.tensor(x).cuda() @ here.cuda()).square().mean()
    loss.backward()
    assert loss.device == "cuda" and here.grad.device == "cpu"
    same = flow.tensor(w, requires_grad=True)
    (flow.tensor(x) @ same).square().mean().backward()
    np.testing.assert_allclose(here.grad.numpy(), same.grad.numpy(), 1e-5, 1e-6)


def test_updates_in_place_and_indexing():
    array = floats(3, 4)
    x = flow.tensor(array).cuda()
    shared = x.detach()
    x.add_(1.0)
    x[1] = 0.0
    x[:, 2] = flow.tensor(floats(3)).cuda()
    want = array + 1
    want[1], want[:, 2] = 0, floats(3)
    np.testing.assert_allclose(shared.numpy(), want, 1e-6)
    assert x[0].device == "cuda" and x.clone().device == "cuda"
    np.testing.assert_allclose(x[0, 1:].numpy(), want[0, 1:], 1e-6)
    x.copy_(flow.tensor(array))
    np.testing.assert_array_equal(shared.numpy(), array)
    x.fill_(2.0)
    assert shared.numpy().max() == 2


def positions(*numbers):
    return flow.tensor(np.array(numbers)).cuda()


ASSIGNMENTS = {
    "a row": (1, 5.0), "an element": ((2, -1), 7.0), "a slice": (slice(1, 3), floats(3)),
    "rows": (lambda: positions(0, 3, -4), floats(3, 3)), "known rows": ([3, 1, 3], floats(3, 3)),
    "a row on the device": (lambda: positions(2).reshape(()), floats(3)), "a mask": (lambda: mask().cuda(), 0.5),
    "a column": ((slice(None), 1), floats(4)), "a table": (lambda: positions(0, 3).reshape((1, 2)), floats(1, 2, 3)),
}  # fmt: skip


def mask():
    return flow.tensor(floats(4, 3) > 0)


@pytest.mark.parametrize("name", ASSIGNMENTS)
@pytest.mark.filterwarnings("error")
def test_an_assignment_writes_only_the_assigned_elements(name):
    key, value = ASSIGNMENTS[name]
    key = key() if callable(key) else key
    x, want = flow.tensor(floats(4, 3)).cuda(), floats(4, 3)
    shared, view, address = x.detach(), x[1:], x.storage.address
    x[key] = flow.tensor(value).cuda() if isinstance(value, np.ndarray) else value
    want[key.numpy() if isinstance(key, flow.Tensor) else key] = value
    assert x.storage.address == address
    for tensor, wanted in ((x, want), (shared, want), (view, want[1:])):
        np.testing.assert_array_equal(tensor.numpy(), wanted)
    kernels = [k for (_, _, over, *_), k in BUILDER.kernels.items() if over is not None]
    assert all("run.donated" in k.executable.ir("triton") for k in kernels)


def test_an_assignment_of_a_part_of_the_updated_tensor():
    x, want = flow.tensor(floats(4, 3)).cuda(), floats(4, 3)
    x[positions(3, 2, 1, 0)] = x
    np.testing.assert_array_equal(x.numpy(), want[::-1])
    x[positions(1, 2, 3)] = x[:-1]
    np.testing.assert_array_equal(x.numpy(), want[::-1][[0, 0, 1, 2]])


def test_an_assignment_to_a_value_that_a_gradient_reads_is_an_error():
    x = flow.tensor(floats(4, 3)).cuda()
    w = flow.tensor(floats(4, 3), requires_grad=True)
    loss = (w.cuda() * x).sum()
    x[positions(1)] = 0.0
    with pytest.raises(RuntimeError, match="__setitem__ has updated it in place"):
        loss.backward()


def test_an_assignment_at_a_wrong_position_changes_nothing():
    x = flow.tensor(floats(4, 3)).cuda()
    x[positions(*range(4), 4)] = 1.0
    with pytest.raises(IndexError, match=r"expected an index in \[0, 4\), got 4"):
        x.numpy()
    np.testing.assert_array_equal(x.numpy(), floats(4, 3))


def test_mixed_devices_are_refused_by_name():
    x, y = flow.tensor(floats(3)).cuda(), flow.tensor(floats(3))
    with pytest.raises(RuntimeError, match=r"broadcast_add: .*x is on cuda:0, y is on cpu.*y\.to\(\"cuda:0\"\)"):
        x + y
    with pytest.raises(RuntimeError, match="is on cuda:1"):
        x + y.to("cuda:1")
    with pytest.raises(flow.CallError, match="runs on cuda:0, argument b is on cpu"):
        flow.compile(lambda a, b: a + b)(x, y)
    with pytest.raises(flow.CallError, match="runs on cpu, argument a is on cuda:0"):
        flow.compile(lambda a: a + 1, device="cpu")(x)
    with pytest.raises(ValueError, match="expected a device such as"):
        y.to("gpu")


def test_a_compiled_function_runs_where_its_tensors_are(cuda):
    w = flow.tensor(floats(4, 2)).cuda()
    f = flow.compile(lambda x: flow.softmax(x @ w))
    x = floats(3, 4)
    got = f(x)
    assert got.device == "cuda"
    np.testing.assert_allclose(got.numpy(), flow.softmax(flow.tensor(x) @ w.cpu()).numpy(), 1e-5, 1e-6)
    w.data = w.cpu()
    assert f(x).device == "cpu"
    g = flow.compile(lambda x: x * 2.0)
    there = CudaArray.of(x, flow.tensor(x).cuda().storage.device)
    assert isinstance(g(x), np.ndarray) and isinstance(g(there), CudaArray)


def model():
    flow.manual_seed(3)
    layers = flow.nn.Linear(8, 16, bias=False), flow.nn.BatchNorm1d(16), flow.nn.ReLU(), flow.nn.Linear(16, 4)
    return flow.nn.Sequential(*layers)


def trained(device, compiled, algorithm, steps=4):
    net = model().to(device)
    optimizer = algorithm(net.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = flow.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = flow.compile(step) if compiled else step
    losses = []
    for number in range(steps):
        x, y = flow.tensor(floats(6, 8, seed=number)).to(device), flow.tensor(np.arange(6) % 4).to(device)
        losses.append(run(x, y).item())
    return losses, [p.detach().cpu().numpy() for p in (*net.parameters(), *net.buffers())]


def sgd(parameters):
    return flow.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters):
    return flow.optim.Adam(parameters, lr=0.01)


@pytest.mark.parametrize("algorithm", [sgd, adam])
@pytest.mark.parametrize("compiled", [False, True])
def test_training_equals_training_on_the_cpu(algorithm, compiled):
    got, want = trained("cuda", compiled, algorithm), trained("cpu", compiled, algorithm)
    np.testing.assert_allclose(got[0], want[0], 1e-4)
    for one, other in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(one, other, 1e-3, 1e-5)


def test_a_training_step_updates_parameters_where_they_are(cuda):
    net = model().cuda()
    optimizer = sgd(net.parameters())

    @flow.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = flow.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = flow.tensor(floats(6, 8)).cuda(), flow.tensor(np.arange(6) % 4).cuda()
    for _ in range(3):
        step(x, y)
    addresses = [p.storage.address for p in net.parameters()]
    before = len(cuda.live)
    cuda.log.clear()
    step(x, y)
    assert [p.storage.address for p in net.parameters()] == addresses and len(cuda.live) == before
    assert cuda.log == ["graph"]


def test_state_is_saved_from_the_device_and_loaded_to_it(tmp_path):
    net = model().cuda()
    flow.save(net.state_dict(), str(tmp_path / "state"))
    other = model().cuda()
    for p in other.parameters():
        p.data = flow.zeros_like(p.detach())
    other.load_state_dict(flow.load(str(tmp_path / "state")))
    assert next(other.parameters()).device == "cuda"
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    assert next(net.cpu().parameters()).device == "cpu"


def test_devices_and_their_memory():
    assert flow.cuda.is_available() and flow.cuda.device_count() == 2
    before = flow.cuda.memory_allocated()
    x = flow.zeros(1000, device="cuda")
    assert flow.cuda.memory_allocated() == before + 4000 and flow.cuda.max_memory_allocated() >= before + 4000
    del x
    flow.cuda.synchronize()
    flow.cuda.empty_cache()
    assert flow.cuda.memory_allocated() <= before


def test_streams():
    x = flow.tensor(floats(3)).cuda()
    with flow.cuda.stream(flow.cuda.Stream()) as chosen:
        assert flow.cuda.current_stream() is chosen
        y = x * 2.0
    assert y.storage.stream is chosen and flow.cuda.current_stream() is not chosen
    np.testing.assert_array_equal((y + x).numpy(), floats(3) * 3)


def test_the_matmul_precision_is_chosen_before_compiling(cuda):
    x, w = flow.tensor(floats(64, 48)).cuda(), flow.tensor(floats(48, 96)).cuda()
    found = {}
    try:
        for precision in ("tf32", "tf32x3", "ieee"):
            flow.cuda.set_matmul_precision(precision)
            function = flow.compile(lambda x, w: x @ w)
            function(x, w)
            found[precision] = function.ir("triton").count(f'input_precision="{precision}"')
    finally:
        flow.cuda.set_matmul_precision("ieee")
    assert found == {"tf32": 1, "tf32x3": 1, "ieee": 1}
    with pytest.raises(ValueError, match="expected precision to be one of ieee, tf32, tf32x3, got 'half'"):
        flow.cuda.set_matmul_precision("half")


def test_deterministic_additions_keep_their_order(cuda):
    table, rows = floats(5, 8), np.array([1, 3, 1, 1])
    given = flow.tensor(table).cuda(), flow.tensor(rows).cuda()
    texts = []
    try:
        for deterministic in (True, False):
            flow.cuda.set_deterministic(deterministic)
            function = flow.compile(flow.grad(lambda t, i: (flow.nn.functional.embedding(i, t) * 2.0).sum()))
            got = function(*given)
            np.testing.assert_allclose(got.numpy(), np.bincount(rows, minlength=5)[:, None] * np.full((5, 8), 2.0))
            texts.append("tl.atomic_add" in function.ir("triton"))
    finally:
        flow.cuda.set_deterministic(False)
    assert texts == [False, True]


def test_a_replayed_step_calls_few_functions_on_the_host(cuda):
    """The cost is counted in calls of Python functions; driver calls are for the graph and the context only."""
    net = model().cuda()
    optimizer = sgd(net.parameters())

    @flow.compile
    def step(x, y):
        loss = flow.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x, y = flow.tensor(floats(6, 8)).cuda(), flow.tensor(np.arange(6) % 4).cuda()
    for _ in range(3):
        step(x, y)
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        step(x, y)
    finally:
        sys.setprofile(None)
    inside = called[: called.index("cuGraphLaunch")] if "cuGraphLaunch" in called else []
    assert inside and len(inside) < 60, "\n".join(inside)


@pytest.mark.parametrize("joined", [flow.stack, flow.cat], ids=["stack", "cat"])
@pytest.mark.parametrize("count", [1, 2])
def test_cat_of_filled_tensors(joined, count):
    def join(x):
        return joined([*[flow.full((2, 3), float(i)) for i in range(count)], x], -1)

    x = floats(2, 3)
    got = flow.compile(join)(flow.tensor(x).to("cuda")).cpu().numpy()
    np.testing.assert_array_equal(got, join(flow.tensor(x)).numpy())
