"""bfloat16 in and out of PyTorch, which NumPy's DLPack and PyTorch's NumPy arrays do not accept."""

import gc

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="exchanges tensors with PyTorch, which tests do not depend on")

GIVEN = {
    "vector": lambda: torch.arange(4).bfloat16(),
    "strided": lambda: torch.arange(8).bfloat16()[1::2],
    "transposed": lambda: torch.arange(6).reshape(2, 3).bfloat16().T,
    "expanded": lambda: torch.ones(3, 1).bfloat16().expand(3, 2),
    "scalar": lambda: torch.tensor(1.5).bfloat16(),
    "empty": lambda: torch.zeros(0, 3).bfloat16(),
}


@pytest.mark.parametrize("name", GIVEN)
def test_from_pytorch(name):
    given = GIVEN[name]()
    want = given.float().numpy()
    for made in (flow.tensor(given), flow.from_numpy(given), flow.zeros(1).bfloat16() + given):
        assert made.dtype == flow.bfloat16
        np.testing.assert_array_equal(made.float().numpy(), want)
    got = flow.compile(lambda x: x * 2)(given)
    np.testing.assert_array_equal(got.astype(np.float32), want * 2)


def test_memory_is_shared_both_ways():
    given = torch.zeros(2).bfloat16()
    tensor = flow.from_numpy(given)
    given[0] = 9
    del given
    gc.collect()
    back = torch.from_dlpack(tensor)
    tensor.add_(1)
    del tensor
    gc.collect()
    assert back.dtype == torch.bfloat16 and back.tolist() == [10, 1]


def test_exports_of_strided_tensors_and_scalars():
    matrix = flow.tensor(np.arange(6, dtype=np.float32).reshape(2, 3)).bfloat16()
    assert torch.from_dlpack(matrix.T).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert torch.from_dlpack(flow.tensor(2.5, dtype=flow.bfloat16)).item() == 2.5


def test_options_of_the_protocol():
    tensor = flow.ones(2).bfloat16()
    copied = torch.from_dlpack(tensor.__dlpack__(copy=True))
    tensor.zero_()
    assert copied.tolist() == [1, 1]
    with pytest.raises(BufferError, match="expected to be asked for the host, got device"):
        tensor.__dlpack__(dl_device=(2, 0))
    fixed = np.ones(2, flow.bfloat16.numpy)
    fixed.flags.writeable = False
    with pytest.raises(BufferError, match="got a read-only one; pass a copy"):
        flow.from_numpy(fixed).__dlpack__()


@pytest.mark.parametrize("keys", ["state_dict", "named_parameters"])
def test_states_of_modules(keys):
    theirs, ours = torch.nn.Linear(2, 3).bfloat16(), flow.nn.Linear(2, 3).bfloat16()
    ours.load_state_dict(dict(getattr(theirs, keys)()))
    assert ours.weight.dtype == flow.bfloat16
    np.testing.assert_array_equal(ours.weight.detach().float().numpy(), theirs.weight.detach().float().numpy())
    theirs.load_state_dict({k: torch.from_dlpack(v.detach() * 2) for k, v in ours.state_dict().items()})
    np.testing.assert_array_equal(2 * ours.bias.detach().float().numpy(), theirs.bias.detach().float().numpy())


def test_states_of_optimizers():
    p = torch.nn.Parameter(torch.ones(2).bfloat16())
    theirs, ours = torch.optim.Adam([p]), flow.optim.Adam([flow.nn.Parameter(flow.ones(2))])
    (p * 2).sum().backward()
    theirs.step()
    ours.load_state_dict(theirs.state_dict())
    found, want = ours.state_dict()["state"][0], theirs.state_dict()["state"][0]
    np.testing.assert_array_equal(found["exp_avg"].numpy(), want["exp_avg"].float().numpy())


def test_imports_that_require_grad_are_refused():
    with pytest.raises(TypeError, match=r"use tensor.detach\(\)"):
        flow.tensor(torch.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match=r"use tensor.detach\(\)"):
        flow.tensor(torch.ones(2).bfloat16().requires_grad_())


CONSTANTS = {
    "numbers": [1.5, -2, 3e-30], "not finite": [float("nan"), float("inf"), -float("inf")], "equal": [2.5, 2.5],
    "many": [n * 1.25 - 7 for n in range(200)], "none": [],
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_of_compiled_functions(name):
    """Constant arrays of a function, as elements and, for many elements, as bits."""
    given = torch.tensor(CONSTANTS[name]).bfloat16()
    own = flow.from_numpy(given).numpy()
    got = flow.compile(lambda x: x + own)(torch.ones_like(given))
    np.testing.assert_array_equal(got.astype(np.float32), (given + 1).float().numpy())


def test_values_and_positions_set_in_compiled_functions():
    x = flow.zeros(3, dtype=flow.bfloat16)

    def f():
        x[[2, 0]] = flow.tensor([5, 6])

    flow.compile(f)()
    assert x.tolist() == [6, 0, 5]
