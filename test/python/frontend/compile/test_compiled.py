"""`flow.compile`: forms of the decorator, signatures, arrays in and out, stages."""

import threading

import numpy as np
import pytest
from test_trace import Foreign

import oneflow as flow

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_forms_of_the_decorator():
    @flow.compile
    def plain(x):
        """Doubles."""
        return x * 2

    @flow.compile()
    def empty(x):
        return x * 2

    @flow.compile(specs=[flow.TensorSpec((None, 3), flow.float32)], device="cpu")
    def given(x):
        return x * 2

    for function in (plain, empty, given, flow.compile(lambda x: x * 2)):
        np.testing.assert_array_equal(function(X), X * 2)
        assert isinstance(function, flow.CompiledFunction)
    assert plain.__name__ == "plain" and plain.__doc__ == "Doubles."


def counting():
    calls = []

    @flow.compile
    def f(x, scale=2, mode=None):
        calls.append((x.shape, x.dtype, scale, mode))
        return x * scale

    return f, calls


def test_one_trace_per_signature():
    f, calls = counting()
    for _ in range(2):
        f(X)
        f(X[:1])
        f(X.astype(np.float64))
        f(X, 3)
        f(X, scale=3)
        f(X, 3.0)
        f(X, True)
        f(X, mode="up")
    assert len(calls) == 7


def test_negative_zero_is_another_signature():
    f, calls = counting()
    assert not np.signbit(f(np.ones(1, np.float32), 0.0))
    assert np.signbit(f(np.ones(1, np.float32), -0.0))
    assert len(calls) == 2


def test_specs_make_one_trace_for_all_sizes():
    calls = []

    @flow.compile(specs={"x": flow.TensorSpec((None, 3), flow.float32)})
    def f(x, scale=2):
        calls.append(x.desc.shape)
        return x.sum(0) * scale

    for rows in (0, 1, 2, 7):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(f(x), x.sum(0) * 2)
    np.testing.assert_array_equal(f(X, 3), X.sum(0) * 3)
    assert calls == [(None, 3), (None, 3)]


def test_nested_structures_of_arguments_and_results():
    @flow.compile
    def f(params, pair, rest=None):
        x, y = pair
        return {"sum": x + y + params["b"], "both": [x, (y, None, 7)]}

    result = f({"b": np.float32(1)}, (X, X * 2))
    np.testing.assert_array_equal(result["sum"], X * 3 + 1)
    np.testing.assert_array_equal(result["both"][1][0], X * 2)
    assert result["both"][1][1:] == (None, 7)


def test_named_tuple_result():
    result = flow.compile(lambda x: x.max(1))(X)
    np.testing.assert_array_equal(result.values, [2, 5])
    np.testing.assert_array_equal(result.indices, [2, 2])


def test_captured_arrays_are_copied():
    small, large = np.ones(3, np.float32), np.ones((400, 3), np.float32)
    f = flow.compile(lambda x: (x @ large.T).sum(1) + (x + small).sum(1))
    want = f(X)
    small[:], large[:] = 5, 5
    np.testing.assert_array_equal(f(X), want)
    np.testing.assert_array_equal(want, 400 * X.sum(1) + (X + 1).sum(1))


def test_large_captured_arrays_are_inputs_of_the_program():
    large = np.ones((400, 3), np.float32)
    f = flow.compile(lambda x: x @ large.T)
    f(X)
    assert 'tensor<3x400xf32> {oneflow.name = "captured.0"}' in f.ir()
    assert "arith.constant" not in f.ir()
    assert "arith.constant" in str(f.trace(flow.TensorSpec((2, 3))))


def test_byte_orders_and_strides_of_arrays():
    f = flow.compile(lambda x: x + 1)
    for x in (Foreign(X), X.astype(">f4"), np.asfortranarray(X), X[:, ::-1]):
        want = np.asarray(x.array if isinstance(x, Foreign) else x) + 1
        np.testing.assert_array_equal(f(x), want)
    frozen = X.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(f(frozen), X + 1)
    assert f(np.float64(2)).dtype == np.float64


def test_results_own_their_memory():
    f = flow.compile(lambda x: (x, x + 0))
    x = X.copy()
    same, other = f(x)
    x[:] = 9
    np.testing.assert_array_equal(same, X)
    np.testing.assert_array_equal(other, X)


def test_compiled_functions_inside_functions():
    @flow.compile
    def inner(x):
        return x * 2

    @flow.compile
    def outer(x):
        return inner(x) + inner(x + 1)

    np.testing.assert_array_equal(outer(X), X * 4 + 2)
    assert outer.ir().count("func.func") == 1


def test_stages():
    f = flow.compile(lambda x: flow.relu(x) + 1, specs=[flow.TensorSpec((None, 3), flow.float32)])
    assert '"oneflow.relu"(%arg0) : (tensor<?x3xf32>)' in f.ir("oneflow")
    assert "func.func" in str(f.module)
    for stage in ("linalg", "kernels", "llvm"):
        assert isinstance(f.ir(stage), str)
    assert "linalg.generic" in f.ir("linalg")


def test_several_threads():
    f = flow.compile(lambda x, n: x * n)
    wrong = []

    def work(n):
        for _ in range(5):
            if not np.array_equal(f(X, n % 3), X * (n % 3)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


SPEC = [flow.TensorSpec((None, 3), flow.float32)]
BAD = [
    (lambda f: f(np.zeros((2, 4), np.float32)), "expected x of type tensor<?x3xf32>, got tensor<2x4xf32>"),
    (lambda f: f(np.zeros((2, 3))), "expected x of type tensor<?x3xf32>, got tensor<2x3xf64>"),
    (lambda f: f(3.0), "expected x of type tensor<?x3xf32>, got 3.0"),
    (lambda f: f([X]), "expected arguments nested as in specs, x: tensor<?x3xf32>"),
    (lambda f: f(np.zeros(3, "M8[s]")), "argument x: expected one of bool, uint8"),
    (lambda f: f(object()), "or a list, tuple, dict or dataclass of these, got object"),
    (lambda f: f(np.array(["a"])), "argument x: expected one of bool, uint8"),
]


@pytest.mark.parametrize("call,text", BAD)
def test_bad_arguments(call, text):
    with pytest.raises(flow.CallError) as info:
        call(flow.compile(lambda x: x + 1, specs=SPEC))
    assert text in str(info.value)


def test_missing_and_extra_arguments():
    f = flow.compile(lambda x: x)
    for call in (lambda: f(), lambda: f(X, X)):
        with pytest.raises(flow.CallError, match="argument"):
            call()


def test_array_where_specs_have_a_number():
    f = flow.compile(lambda x, n: x * n, specs=[*SPEC, 2])
    with pytest.raises(flow.CallError, match="expected n to be no array"):
        f(X, X)


def test_no_stage_before_the_first_call():
    with pytest.raises(flow.CallError, match="has no program: call the function"):
        flow.compile(lambda x: x).ir()


def test_unknown_device():
    with pytest.raises(ValueError, match=r"expected a device such as .*, got 'tpu'"):
        flow.compile(lambda x: x, device="tpu")


def test_an_error_of_the_function_is_not_remembered():
    f = flow.compile(lambda x: x @ x)
    for _ in range(2):
        with pytest.raises(flow.TraceError, match=r"oneflow\.matmul"):
            f(X)
    np.testing.assert_array_equal(f(X[:, :2]), X[:, :2] @ X[:, :2])


@pytest.mark.parametrize("sizes", [(4, 6), (2, 1, 6), (2, 3, 6), (6,)])
def test_products_of_constant_tensors_and_matrices(sizes):
    w = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)

    def product(x):
        return flow.matmul(flow.ones(*sizes) * x, w), flow.matmul(w.T, flow.ones(6, 3) * x)

    for got, want in zip(flow.compile(product)(np.float32(3)), product(flow.tensor(np.float32(3))), strict=True):
        np.testing.assert_allclose(got, want.numpy(), 1e-5)
