"""Large expanded tensors in eager mode: views without memory, of which operators copy what they read."""

import itertools

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.eager import builder, views
from oneflow.frontend.eager.kernel_cache import KernelCache
from oneflow.passes.base import PassError

HUGE = 2**40


@pytest.fixture
def expanded():
    """A column, and the column expanded to 8 TiB."""
    column = flow.tensor([[1.0], [2.0]])
    return column, column.expand(2, HUGE)


def test_views_of_huge_expansions_have_no_memory(expanded):
    _, huge = expanded
    assert huge.shape == (2, HUGE) and huge.stride() == (1, 0) and huge.is_view() and not huge.is_contiguous()
    for view in (huge.t(), huge[:, 5:], huge.unsqueeze(0).expand(3, -1, -1), huge.detach(), huge.unsqueeze(1)):
        assert view.numel() >= 2 * HUGE - 10 and view.is_view() and 0 in view.stride()
    assert huge[1, 12345].item() == 2 and huge[:, 5:8].tolist() == [[1] * 3, [2] * 3]
    assert huge.t()[7].tolist() == [1, 2]
    assert flow.broadcast_to(flow.ones(1, dtype=flow.bfloat16), (HUGE,))[:2].tolist() == [1, 1]
    assert str(huge).startswith("tensor([[1., 1., 1.,  ..., 1., 1., 1.],\n        [2., 2., 2.,  ..., 2., 2., 2.]]")
    assert "..." in str(flow.ones(1).bfloat16().expand(HUGE))


def test_huge_expansions_follow_updates(expanded):
    column, huge = expanded
    part = huge[:, 3:]
    column[0, 0] = 7.0
    assert huge[:, :2].tolist() == part[:, :2].tolist() == [[7, 7], [2, 2]]
    with pytest.raises(RuntimeError, match="would update an expanded tensor"):
        huge[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        huge.numpy()[0, 0] = 1.0


READS = {
    "add": lambda x: x + 1,
    "sum": lambda x: x.sum(),
    "cat": lambda x: flow.cat([x, x]),
    "clone": lambda x: x.clone(),
    "reshape": lambda x: x.reshape(-1),
    "compiled": flow.compile(lambda x: x[:, :3] * 2),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_errors_of_operators_that_read_all_elements_state_the_memory(expanded, read):
    with pytest.raises(MemoryError, match=r"expected memory .* \(8796093022208 bytes\)|allocate 8.00 TiB"):
        read(expanded[1])


def test_sizes_beyond_addresses_are_refused():
    with pytest.raises(flow.OneFlowError, match=r"more than 2\^63 - 1 bytes"):
        flow.ones(1).expand(2**62)


def test_operators_on_views_of_expansions_have_the_values_of_numpy(monkeypatch):
    """Every chain of two views after an expansion, and operators on the views."""
    monkeypatch.setattr(views, "MAX_EXPANDED_BYTES", 16)
    chains = {
        "slice": (lambda x: x[1:, :, 2:5], lambda a: a[1:, :, 2:5]),
        "transpose": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
        "expand": (lambda x: x.unsqueeze(1).expand(3, 2, 3, 7)[:, 1], lambda a: a),
        "reshape": (lambda x: x.reshape(3, -1, 1), lambda a: a.reshape(3, -1, 1)),
        "diagonal": (lambda x: flow.diagonal(x, dim1=0, dim2=1)[None], lambda a: np.diagonal(a)[None]),
    }
    for dtype in (np.float32, np.complex64):
        base = (np.arange(9) + 1).reshape(3, 3, 1).astype(dtype)
        for first, second in itertools.product(chains, chains):
            if second == "expand" and first != "expand":
                continue
            x, a = flow.tensor(base).expand(3, 3, 7), np.broadcast_to(base, (3, 3, 7))
            for name in (first, second):
                x, a = chains[name][0](x), chains[name][1](a)
            np.testing.assert_array_equal(x.numpy(), a, f"{first}, {second}")
            np.testing.assert_array_equal((x * 2).numpy(), a * 2, f"{first}, {second}")


@pytest.fixture
def threshold(monkeypatch):
    """Makes expanded tensors of more than 16 bytes large."""
    monkeypatch.setattr(views, "MAX_EXPANDED_BYTES", 16)
    monkeypatch.setattr(views, "MAX_COPIED_ELEMENTS", 0)
    monkeypatch.setattr(flow.ones(1).builder, "kernels", KernelCache())


COPIES = {
    "repeat": lambda x: x.repeat(1, 8),
    "tile": lambda x: flow.tile(x, (1, 8)),
    "repeat_interleave": lambda x: flow.repeat_interleave(x, 8, 1),
    "parameter": lambda x: flow.nn.Parameter(x.expand(1, 8)),
    "gradient": lambda x: gradient(x),
}


def gradient(x):
    """The gradient after two backward passes, each with an expanded gradient of the result."""
    leaf = flow.zeros(1, 8, requires_grad=True)
    for _ in range(2):
        leaf.reshape(8).backward((x / 2)[0].expand(8))
    return leaf.grad


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_tensors_that_are_not_views_are_updated(threshold, copy):
    x = flow.full((1, 1), 3.0)
    y = copy(x)
    with flow.no_grad():
        y[0, 0] = 5.0
        y.add_(1)
    assert y.tolist() == [[6, *[4] * 7]] and x.item() == 3


def test_gradients_flow_through_copies_of_expansions(threshold):
    x = flow.full((1, 1), 3.0, requires_grad=True)
    y = x.repeat(1, 8)
    (y * flow.arange(8)).sum().backward()
    assert x.grad.item() == 28 and not y.is_view()


def test_an_expanded_gradient_within_a_hook_is_not_updated(threshold):
    """The gradient of a computed value is expanded, as an expanded tensor is."""
    x = flow.zeros(8, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: grad.mul_(3))
    with pytest.raises(RuntimeError, match="mul_ would update an expanded tensor"):
        y.reshape(2, 4).backward(flow.ones(1, 1).expand(2, 4))


def test_compile_errors_of_large_views_name_the_line(threshold, monkeypatch):
    def refuse(*_):
        raise PassError("expected less")

    view = flow.ones(2, 8)
    monkeypatch.setattr(builder, "compile_call", refuse)
    with pytest.raises(flow.OneFlowError, match=r"test_large_expansions.py:\d+.*expected less"):
        view.transpose(0, 1)
