"""The built-in classes of errors: programs for PyTorch and OneFlow catch IndexError, TypeError and RuntimeError."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.errors import OneFlowIndexError, OneFlowTypeError, TraceError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def of(value, **options):
    return flow.tensor(value, **options)


#: Calls, the classes of their errors, and a part of the message.
CALLS = [
    (lambda x: x.sum(2), (IndexError, RuntimeError), r"expected a dimension in \[-2, 2\)"),
    (lambda x: flow.chunk(x, 2, -3), (IndexError, RuntimeError), "got -3"),
    (lambda x: flow.unbind(x.sum(), 0), (IndexError, RuntimeError), "expected a tensor of at least one dimension"),
    (lambda x: flow.median(x[:, :0], 1), (IndexError, RuntimeError), "rows of at least one element"),
    (lambda x: x.sum()[0], (IndexError, RuntimeError), "too many indices"),
    (lambda x: x[5], (IndexError, RuntimeError), "out of bounds"),
    (lambda x: x.__setitem__((0, 0, 0), 1), (IndexError, RuntimeError), r"x\[\.\.\] = \.\. of tensor<2x3xf32>"),
    (lambda x: x.__setitem__(0, np.ones(2)), (ValueError, RuntimeError), "could not broadcast"),
    (lambda x: flow.batch_gather(x, x), (TypeError, RuntimeError), "expected indices of type i32, i64, got f32"),
    (lambda x: flow.dot(x[0], x[0].double()), (TypeError, RuntimeError), "of one element type"),
    (lambda x: flow._C.slice_update(x, x.double(), [0, 0], [2, 3], [1, 1]), (TypeError,), "tensor<2x3xf64>"),
    (lambda x: flow.device("xpu"), (ValueError, RuntimeError), "expected a device such as"),
    (lambda x: x.to_global(flow.placement("cpu", [0]), flow.sbp.split(2)), (ValueError, RuntimeError), "below 2"),
    (lambda x: x.to_global(flow.placement("cpu", [0]), (flow.sbp.broadcast, 0)), (TypeError, RuntimeError),
     "expected flow.sbp.split"),
    (lambda x: flow.broadcast_tensors(), (ValueError, RuntimeError), "at least one"),
    (lambda x: x.fill_(x), (ValueError, RuntimeError), "without dimensions for fill_"),
    (lambda x: flow.pixel_shuffle(x[None], 2), (ValueError, RuntimeError), "channels that 2 \\* 2 divides"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "classes", "text"), CALLS)
def test_errors_have_the_classes_that_programs_catch(call, classes, text):
    for kind in classes:
        with pytest.raises(kind, match=text):
            call(of(X))


def test_errors_of_other_kinds_are_no_index_errors():
    with pytest.raises(RuntimeError) as raised:
        of(X) @ of(X)
    assert not isinstance(raised.value, IndexError | TypeError)


def test_errors_of_traces_have_the_classes_too():
    with pytest.raises(TraceError) as raised:
        flow.compile(lambda x: x.sum(2))(X)
    assert isinstance(raised.value, OneFlowIndexError)
    with pytest.raises(TraceError) as raised:
        flow.compile(lambda x: flow.batch_gather(x, x))(X)
    assert isinstance(raised.value, OneFlowTypeError)
