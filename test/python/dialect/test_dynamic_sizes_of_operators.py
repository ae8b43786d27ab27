"""Operators with sizes that are unknown until run time, and positions that are out of range."""

import numpy as np
import pytest
from each_case import by_operator, each
from samples import SAMPLES

from oneflow.dialect import dtypes, meaning, ops  # noqa: F401
from oneflow.dialect.evaluate import evaluate
from oneflow.dialect.numpy_builder import NumpyBuilder, run_reference
from oneflow.dialect.record import REGISTRY, Call, OperatorError, distribute, flatten, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.testing import checks
from oneflow.testing.sample import Sample

HAS_STAGES = {r.name for r in REGISTRY if r.meaning in ("scalar", "compute")}
#: Stages compute with reals; complex numbers have become pairs of reals before.
REAL = [s for s in SAMPLES if not s.dtypes[-1].is_complex]
COMPUTED = by_operator(s for s in REAL if s.op in HAS_STAGES and any(o is not None for o in s.operands))


def with_unknown_sizes(call, number, axis):
    """`call` with one dimension unknown, or with all of one operand's where `axis` is None.

    Sizes of 1 stay known: an unknown size is never broadcast.
    """
    flat = list(call.operands)
    shape = flat[number].shape
    flat[number] = TensorDesc(
        tuple(None if axis in (None, i) and d != 1 else d for i, d in enumerate(shape)), flat[number].dtype
    )
    sizes = [len(x) if isinstance(x, tuple) else int(x is not None) for x in call.inputs.values()]
    return Call(call.record, distribute(call.record.signature.inputs, flat, sizes), call.attrs)


def loosened(call):
    """`call` with dimensions unknown in every way that its operator allows, results inferred."""
    for index, operand in enumerate(call.operands):
        for axis in [*range(operand.rank), *([None] if operand.rank > 1 else [])]:
            loose = with_unknown_sizes(call, index, axis)
            try:
                results = infer(loose.record, loose)
            except OperatorError:
                continue
            loose.outputs = distribute(loose.record.signature.outputs, list(results), None)
            yield loose


@pytest.mark.parametrize("name", COMPUTED)
def test_evaluation_with_dynamic_sizes(name):
    each([(s,) for s in COMPUTED[name]], check_meaning)


def check_meaning(sample):
    dtype = sample.dtypes[-1]
    op = checks.make_case(sample, dtype, REGISTRY)
    want = run_reference(op)
    for call in loosened(checks.described(op)):
        stages = meaning.stages(meaning.input_stages(call), call.results)
        got = evaluate(stages, flatten(op.inputs.values()))
        for a, b in zip(got, want, strict=True):
            checks.assert_close(np.asarray(a), np.asarray(b), sample.tolerance(dtype), f"{sample} as {call.operands}")


X = np.arange(12.0).reshape(3, 4)
READS = [
    ("gather", lambda i: [X, i], {}),
    ("gather", lambda i: [X.T, i], {"axis": 1}),
    ("batch_gather", lambda i: [X.T, np.stack([i] * 4)], {}),
    ("dim_gather", lambda i: [X, i.reshape(1, 2)], {}),
    ("gather_nd", lambda i: [X, i[:, None]], {}),
    ("embedding", lambda i: [X, i], {}),
    ("unsorted_segment_sum", lambda i: [X[:2], i], {"num_segments": 3}),
    ("unsorted_segment_sum_like", lambda i: [X[:2], i, X], {}),
    ("unsorted_batch_segment_sum", lambda i: [X[:1, :2], i.reshape(1, 2)], {"num_segments": 3}),
    ("dim_scatter_add", lambda i: [X, i.reshape(1, 2), X[:1]], {}),
    ("dim_scatter_add_like", lambda i: [X, i.reshape(1, 2), X[:1]], {}),
    ("scatter_nd", lambda i: [i[:, None], X[:2]], {"shape": (3, 4)}),
    ("scatter_nd_like", lambda i: [X, i[:, None], X[:2]], {}),
    ("embedding_grad", lambda i: [X[:2], X, i], {}),
]


@pytest.mark.parametrize("bad", [-1, 3])
@pytest.mark.parametrize("name,operands,attrs", READS)
def test_wrong_positions_are_errors(name, operands, attrs, bad):
    """In the reference and in the meaning; the message names operator, position and size."""
    message = rf"oneflow\.{name}: .*index {bad} is out of range for size 3"
    arrays = operands(np.array([1, bad]))
    with pytest.raises(IndexError, match=message):
        NumpyBuilder().call(name, *arrays, **attrs)
    sample = Sample(name, attrs=attrs)
    op = checks.make_call(sample, arrays, sample.attributes(dtypes.float64), REGISTRY)
    with pytest.raises(IndexError, match=message):
        checks.run_meaning(op)


def test_errors_show_operands_as_types():
    record = REGISTRY["tensor_buffer_to_list_of_tensors"]
    attrs = {"out_shape": [3], "out_dtype": dtypes.float32, "dynamic_out": False}
    call = Call(record, {"in": TensorDesc((None, 3), dtypes.float32)}, attrs)
    with pytest.raises(OperatorError, match=r"expected a static shape of in, got tensor<\?x3xf32>"):
        infer(record, call)
