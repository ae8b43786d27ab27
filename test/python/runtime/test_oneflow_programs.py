"""Programs in OneFlow's form, and the values of OneFlow's kernels: defaults, and the meaning of operands."""

import re

import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect.dtypes import from_numpy
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import ProgramError, read_module
from oneflow.runtime.executable import compile_module


def a(*values, dtype=np.float32):
    return np.array(values, dtype)


def f16(*values):
    return a(*values, dtype=np.float16)


def i64(*values):
    return a(*values, dtype=np.int64)


#: Operator, attributes as text, operands and results.
VALUES = [
    ("softplus", "", [a(-1, 0, 25)], [a(0.31326169, 0.69314718, 25)]),
    ("softplus_grad", "", [a(-1, 0, 25), a(1, 2, 3)], [a(0.26894142, 1, 3)]),
    ("tanh_grad", "", [a(0.5, -0.25), a(2, 4)], [a(1.5, 3.75)]),
    ("celu_grad", "alpha = 2.0 : f64", [a(0.5, -1, -1.5), a(3, 4, 8)], [a(3, 2, 2)]),
    ("hardshrink_grad", "lambd = 0.5 : f64", [a(0, 0.25), a(3, 4)], [a(0, 4)]),
    ("hardtanh_grad", "min_val = -0.1 : f64, max_val = 0.3 : f64", [f16(-0.1, 0.3, 0), f16(1, 2, 3)], [f16(0, 0, 3)]),
    ("bernoulli", "dtype = 2 : i32", [a(1, 1, 1)], [a(0, 0, 0)]),
    ("rms_norm", "normalized_shape = [2 : si64]", [a([0.003, 0.004])], [a([0.63245553, 0.84327404]), a(210.81851)]),
    ("scalar_bitwise_and", "operand = 6 : si64", [a(3, 12, dtype=np.int32)], [a(2, 4, dtype=np.int32)]),
    (
        "tensor_scatter_nd_update", "",
        [i64(0, 0, 0), i64(7, 8), i64([2], [0])], [i64(8, 0, 7)],
    ),
    (
        "sgd_update", "learning_rate_scale = 0.5 : f32, operand_segment_sizes = array<i32: 1, 1, 1, 1, 0, 0>",
        [a(1, 2), a(4, -4), f16(9, 9), a(0.5)], [a(0, 3), f16(0, 3)],
    ),
    (
        "multi_tensor_momentum_update",
        "learning_rate_val = 0.5 : f32, operand_segment_sizes = array<i32: 1, 1, 1, 0, 0, 0>",
        [a(1, 2), a(4, -4), a(9, 9)], [a(-1, 4), a(4, -4)],
    ),
    (
        "multi_tensor_adam_update",
        "learning_rate_val = 1.0 : f32, operand_segment_sizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 1, 1>",
        [a(1, 2), a(0, 0), a(10, 20), a(0, 0)], [a(-899999, -1799998), a(9, 18), a(0, 0)],
    ),
]  # fmt: skip


X, CHANNEL = a([1, 2], [3, 4]), a(1, 2)
#: Programs of OneFlow that would lose information here, and the messages.
REFUSED = [
    (
        "sgd_update", "operand_segment_sizes = array<i32: 1, 1, 0, 0, 0, 0>", [CHANNEL, CHANNEL], [],
        "results: expected 1 (model_out, model_copy_out?), got 0; tensors are values: add the results model_out for",
    ),
    (
        "normalization",
        "axis = 1 : si32, training = true, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 0>,"
        " result_segment_sizes = array<i32: 1, 1, 1>",
        [X, *[CHANNEL] * 4], [X, CHANNEL, CHANNEL],
        "results: expected 5 (y, mean?, inv_variance?, moving_mean_out?, moving_variance_out?), got 3;"
        " tensors are values: add the results moving_mean_out, moving_variance_out for the updated operands",
    ),
    (
        "constant", "is_complex_value = true, complex_value = [1.0, 2.0], dtype = 2 : i32, shape = [2 : si64]",
        [], [CHANNEL], "expected a complex dtype",
    ),
    ("elementwise_maximum_backward", "", [CHANNEL] * 3, [CHANNEL], "results: expected 2 (dx, dy), got 1"),
    ("upsample_nearest_1d", "output_size = []", [X], [X], "expected the attribute data_format"),
]  # fmt: skip


def type_of(array):
    return f"tensor<{'x'.join([*map(str, array.shape), from_numpy(array.dtype).mlir])}>"


def text_of(operator, attributes, operands, results):
    """A program of one operation."""
    types = [[type_of(x) for x in arrays] for arrays in (operands, results)]
    arguments = ", ".join(f"%x{i}: {kind}" for i, kind in enumerate(types[0]))
    names = ", ".join(f"%r{i}" for i, _ in enumerate(results))
    given, made = (", ".join(t) for t in types)
    uses = ", ".join(f"%x{i}" for i, _ in enumerate(operands))
    return f"""
      func.func @main({arguments}) -> ({made}) {{
        {f"{names} = " if results else ""}"oneflow.{operator}"({uses}) {{{attributes}}} : ({given}) -> ({made})
        return {f"{names} : {made}" if results else ""}
      }}"""


@pytest.mark.parametrize(
    ("operator", "attributes", "operands", "results"), VALUES, ids=[f"{i}-{v[0]}" for i, v in enumerate(VALUES)]
)
def test_values_are_those_of_oneflow(operator, attributes, operands, results):
    module = read_module(text_of(operator, attributes, operands, results), create_context())
    got = compile_module(module)(*operands)
    for one, wanted in zip(got if isinstance(got, (list, tuple)) else [got], results, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=2e-5)


@pytest.mark.parametrize(
    ("operator", "attributes", "operands", "results", "message"), REFUSED, ids=[row[0] for row in REFUSED]
)
def test_attributes_without_counterpart_are_refused(operator, attributes, operands, results, message):
    with pytest.raises(ProgramError, match=re.escape(message)):
        read_module(text_of(operator, attributes, operands, results), create_context())
