"""The names of element types: in Python as in OneFlow, in programs as in MLIR."""

import copy
import pickle

from oneflow.dialect import dtypes
from oneflow.dialect.tensor_desc import TensorDesc


def test_names_of_dtypes():
    assert [str(dtypes.int8), repr(dtypes.bool_), f"{dtypes.complex64}"] == [
        "oneflow.int8", "oneflow.bool", "oneflow.complex64"
    ]  # fmt: skip
    assert [str(TensorDesc((2,), d)) for d in (dtypes.uint8, dtypes.float8_e5m2)] == [
        "tensor<2xui8>", "tensor<2xf8E5M2>"
    ]  # fmt: skip


def test_copies_are_the_same_object():
    """Types are compared by identity."""
    for dtype in (*dtypes.DTYPES, dtypes.index):
        assert copy.deepcopy(dtype) is dtype
        assert pickle.loads(pickle.dumps(dtype)) is dtype
