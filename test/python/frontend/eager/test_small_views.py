"""Views with few elements are copied by NumPy: no kernel is compiled, and the elements are those of large views."""

import numpy as np
import pytest
from samples import SAMPLES

import oneflow as flow
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import REGISTRY
from oneflow.frontend.eager import builder, views
from oneflow.frontend.eager.kernel_cache import KernelCache
from oneflow.testing.checks import described, make_case

VIEWS = {
    "view": lambda x: x.view(-1, 2),
    "transposed": lambda x: x.transpose(0, 1),
    "narrowed": lambda x: x.narrow(1, 1, 2),
    "expanded": lambda x: x.unsqueeze(1).expand(-1, 2, -1),
    "diagonal": lambda x: flow.diagonal(x, offset=1),
    "strided": lambda x: flow.as_strided(x, (2, 3), (1, 2), 1),
    "unfolded": lambda x: x.unfold(0, 3, 1),
}


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("kind", VIEWS)
def test_small_views_need_no_kernel(monkeypatch, kind, dtype):
    values = np.arange(17 * 4, dtype=np.float64).reshape(17, 4)
    x = flow.tensor(values).to(getattr(flow, dtype))
    with monkeypatch.context() as patch:
        patch.setattr(views, "MAX_COPIED_ELEMENTS", 0)
        compiled = VIEWS[kind](flow.tensor(values)).numpy()
    monkeypatch.setattr(builder, "compile_call", lambda *_: pytest.fail("a kernel was compiled"))
    monkeypatch.setattr(x.builder, "kernels", KernelCache())
    result = VIEWS[kind](x)
    assert result.shape == compiled.shape
    np.testing.assert_array_equal(np.array(result.tolist()), compiled)
    assert result.is_view()


@pytest.mark.parametrize("dim", [0, 1, (0, 1), -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_gradients_of_sums_follow_the_dimension(dim, keepdim):
    """The gradient of a sum is repeated along the summed dimensions, also where all dimensions have one size."""
    x = flow.ones(3, 3, requires_grad=True)
    total = x.sum(dim, keepdim)
    weight = np.arange(1, total.numel() + 1, dtype=np.float32).reshape(total.shape)
    (total * flow.tensor(weight)).sum().backward()
    shape = [1 if axis in np.atleast_1d(dim) % 2 else 3 for axis in range(2)]
    np.testing.assert_array_equal(x.grad.numpy(), np.broadcast_to(weight.reshape(shape), (3, 3)))


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.op in views.VIEW_FUNCTIONS], ids=str)
def test_copies_equal_the_references(sample):
    """Gradients call view operators with all their attributes, also where no function of tensors does."""
    for dtype in sample.dtypes:
        op = make_case(sample, dtype, REGISTRY)
        call = described(op)
        copy = views.copy_of_view(call, call.results[0], lambda: pytest.fail("a kernel was compiled"))
        assert copy is not None
        (result,), (expected,) = copy.run(op.operands), run_reference(op)
        assert result.flags.c_contiguous and result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
