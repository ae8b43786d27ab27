"""The module that a traced function becomes."""

from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_close, module_text, run
from reference_interpreter import interpret

import oneflow as flow
from oneflow.dialect import oneflow as dialect

X = flow.TensorSpec((2, 3), flow.float32)
Pair = namedtuple("Pair", "left right")


def test_names_of_function_arguments_and_results():
    def mlp(x, params):
        return {"logits": x @ params["w"] + params["b"], "parts": [x]}

    specs = {"w": flow.TensorSpec((3, 4)), "b": flow.TensorSpec((4,), name="offset")}
    text = module_text(mlp, X, specs)
    assert "func.func @mlp(" in text
    for name in ("x", "params.w", "offset", "logits", "parts.0"):
        assert f'{{oneflow.name = "{name}"}}' in text
    assert "func.func @other(" in str(flow.trace(mlp, X, specs, name="other"))


def test_lambda_has_a_name():
    assert "func.func @lambda(" in module_text(lambda x: x, X)


def test_dynamic_sizes():
    text = module_text(lambda x: flow.softmax(x * 2), flow.TensorSpec((None, 64)))
    assert "(tensor<?x64xf32>) -> tensor<?x64xf32>" in text


def test_named_tuples_static_values_and_defaults():
    def f(pair, scale, flag=True, *rest, **options):
        assert isinstance(pair, Pair) and flag is True and scale == 3 and options["mode"] == "up"
        return Pair(pair.left * scale, pair.right), rest[0]

    module = flow.trace(lambda p, r: f(p, 3, True, r, mode="up"), Pair(X, X), X)
    x = np.ones((2, 3), np.float32)
    results = interpret(module, x, x, x)
    np.testing.assert_array_equal(results[0], 3 * x)
    assert len(results) == 3


def test_variadic_parameters_are_named():
    text = module_text(lambda *xs: flow.cat(xs), X, X)
    assert '"xs.0"' in text and '"xs.1"' in text


def test_location_is_the_users_line():
    def f(x):
        y = flow.exp(x)
        return y

    asm = flow.trace(f, X).operation.get_asm(enable_debug_info=True)
    assert f'loc("{__file__}":{f.__code__.co_firstlineno + 1}:13)' in asm


def test_module_verifies():
    module = flow.trace(lambda x: flow.layer_norm(x @ x.T, 2), X)
    with module.context:
        assert dialect.verify(module.operation)


DTYPES = [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64,
          np.float16, ml_dtypes.bfloat16, np.float32, np.float64]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0, 2)], ids=str)
def test_captured_arrays_are_constants(dtype, shape):
    array = (np.arange(int(np.prod(shape))).reshape(shape) - 1).astype(dtype)
    text = module_text(lambda x: (x, flow.tensor(array)), X)
    assert "arith.constant" in text
    if dtype is not ml_dtypes.bfloat16:
        assert_close(run(lambda x: flow.tensor(array), np.zeros(1, np.float32))[0], array)


def test_one_array_is_one_constant():
    array = np.arange(3, dtype=np.float32)
    assert module_text(lambda x: x + array + array, X).count("arith.constant") == 1


def test_an_array_changed_while_tracing_has_its_values_at_each_use():
    array = np.zeros(3, np.float32)

    def f(x):
        first = x + array
        array[:] = 1
        return first, x + array

    first, second = run(f, np.zeros(3, np.float32))
    np.testing.assert_array_equal(first, [0, 0, 0])
    np.testing.assert_array_equal(second, [1, 1, 1])


def test_returned_arrays_are_results():
    array = np.arange(3, dtype=np.float32)
    results = run(lambda x: (x, array), array * 2)
    np.testing.assert_array_equal(results[1], array)


def test_big_endian_and_strided_arrays():
    array = np.arange(12, dtype=">f4").reshape(3, 4)[:, ::2]
    (got,) = run(lambda x: x + array, np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(got, array.astype(np.float32))


class Foreign:
    """An array of another library, known by DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_foreign_arrays_can_be_captured():
    foreign = Foreign(np.arange(3, dtype=np.float32))
    (got,) = run(lambda x: x + foreign, np.ones(3, np.float32))
    np.testing.assert_array_equal(got, [1, 2, 3])


def test_traced_tensors_have_rank_dtype_and_repr():
    def f(x):
        assert x.shape == (2, 3) and x.size() == (2, 3) and x.size(-1) == 3 and x.numel() == 6
        assert x.ndim == x.dim() == 2 and x.dtype == flow.float32 and x.is_floating_point() and len(x) == 2
        assert repr(x) == "Tensor(tensor<2x3xf32>)" and isinstance(x, flow.Tensor) and x in {x: 1}
        return x

    flow.trace(f, X)


def test_functional_aliases_are_the_same_objects():
    F = flow.nn.functional  # noqa: N806
    assert F.relu is flow.relu and F.softmax is flow.softmax
    assert "relu" in dir(flow) and "nn" in dir(flow)
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = flow.frobnicate  # type: ignore[attr-defined]
