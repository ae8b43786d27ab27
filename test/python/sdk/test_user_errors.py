"""A failure in a library of operators is an error of the operator with a message, never a crash."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.record import Call, OperatorError, attribute_values
from oneflow.runtime.user_ops.bounds_checks import check_bounds
from oneflow.testing.checks import described, make_case
from oneflow.testing.sample import Sample, t

X = np.ones((2, 3), np.float32)


@pytest.fixture
def ops(failing):
    return NumpyBuilder(failing)


@pytest.fixture
def guarded():
    check_bounds(True)
    yield
    check_bounds(False)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("refused", "the check of attributes failed: .*failing_operator.cpp:.*refused.* is never allowed"),
        ("infer_throws", "the infer function failed: thrown by infer"),
        ("infer_throws_int", "an exception that is not a std::exception"),
        ("infer_check", r"failing_operator.cpp:\d+: Check failed: .*NumAxes\(\) == 9 \(2 vs 9\) axes"),
        ("infer_maybe", r"there is no number\n  in .*failing_operator.cpp:\d+: Number"),
        ("bad_name", "no input or output named y; it has many, pair, x"),
        ("bad_index", "the input or output x has 1 tensors, number 3 was asked for"),
        ("bad_axis", r"expected an axis in \[0, 2\), got axis 5 of the shape \(2,3\)"),
        ("bad_attr", "the attribute mode of t_failing is of the kind string, it was asked for as int32"),
        ("no_attr", "has no attribute named depth; it has mode"),
        (
            "infer_writes",
            r"wrote its input x\[0\]: it was float32\(2,3\) and became float32\(7,3\); write a copy, such as",
        ),
        ("infer_retypes", r"wrote its input x\[0\]: it was float32\(2,3\) and became float64\(2,3\)"),
        ("no_shape", r"gave no shape for out\[0\]; assign \*ctx->Shape4ArgNameAndIndex"),
        ("bad_shape", r"gave out\[0\] the shape \(-3\)"),
        ("mutable", r"writes the input x\[0\] \(set_is_mutable\)"),
        ("kernel_throws", "thrown by the kernel"),
        ("wrong_type", r"the tensor out\[0\] has elements of float32, it was read as float64"),
        ("no_kernel", r"no kernel matches on cpu for (?s:.*)attribute mode != no_kernel \(it is no_kernel\)"),
    ],
)
def test_failures_are_errors(ops, mode, message):
    with pytest.raises(OperatorError, match=message) as error:
        ops.t_failing(X, mode=mode)
    assert str(error.value).startswith("oneflow.t_failing: ")
    assert "oneflow/core" not in str(error.value), "expected no location in the SDK's own headers"


def test_no_kernel_lists_candidates(ops):
    with pytest.raises(OperatorError) as error:
        ops.t_failing(X.astype(np.int8))
    text = str(error.value)
    assert "x[0]: int8(2,3)" in text
    assert text.count("failing_operator.cpp:") == 2
    assert "data type of x[0] == float32 (it is int8)" in text
    assert "device == cuda (it is cpu)" in text
    assert 'add one: REGISTER_USER_KERNEL("t_failing")' in text


@pytest.mark.parametrize(
    "operands, message",
    [
        ((X, [X]), "expected none or 2 for pair, got 1"),
        ((X, [X] * 3), "expected none or 2 for pair, got 3"),
        ((X, None, [X]), "expected none or at least 2 for many, got 1"),
        ((), "x"),
        ((X, None, None, X), "at most 3 operands"),
    ],
)
def test_wrong_counts_of_operands_are_errors(ops, operands, message):
    with pytest.raises(OperatorError, match=message):
        ops.t_failing(*operands)


def test_right_counts_of_operands_are_accepted(ops):
    for operands in ((X, [X, X]), (X, None, [X, X, X])):
        np.testing.assert_array_equal(ops.t_failing(*operands).handle, X)


@pytest.mark.parametrize(
    "attrs, message",
    [
        ({"mode": 3}, "attribute mode: expected a string, got 3"),
        ({"mode": "a\0b"}, r"attribute mode: expected a string without NUL characters .*, got 'a\\x00b'"),
        ({"mood": "x"}, "unknown attribute 'mood'.*mode"),
    ],
)
def test_wrong_attributes_are_errors(ops, attrs, message):
    with pytest.raises(OperatorError, match=message):
        ops.t_failing(X, **attrs)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("overrun", r"wrote out of bounds: 8 bytes after the end of out\[0\], which has 24 bytes"),
        ("underrun", r"wrote out of bounds: \d bytes before the start of out\[0\]"),
        ("overrun_far", r"wrote out of bounds: 80000 bytes after the end of out\[0\], which has 24 bytes"),
        ("overrun_same", r"wrote out of bounds: \d bytes after the end of out\[0\]"),
        ("writes_input", r"wrote its input x\[0\]"),
        ("nothing", r"did not write all of out\[0\]: not 24 of its 24 bytes, the first of them at byte 0"),
        ("half", r"did not write all of out\[0\]: not 8 of its 24 bytes, the first of them at byte 16"),
    ],
)
def test_guards_find_bad_writes(ops, guarded, mode, message):
    with pytest.raises(OperatorError, match=message):
        ops.t_failing(X, mode=mode)
    np.testing.assert_array_equal(ops.t_failing(X).handle, X)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("sbp_axis", r"splits x\[0\] along axis 4, expected one in \[0, 2\)"),
        ("sbp_part", r"has no SBP for out\[0\]"),
        ("sbp_stranger", r"has an SBP for zz\[0\], which the call does not have"),
        ("sbp_maybe", "the SBP function failed: no signatures today"),
    ],
)
def test_sbp_failures(failing, mode, message):
    call = described(make_case(Sample("t_failing", [t(2, 3)], {"mode": mode}), flow.float32, failing))
    with pytest.raises(OperatorError, match=message):
        failing["t_failing"].signatures(call)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("grad_maybe", r"the gradient function \(.*failing_operator.cpp:\d+\) failed: cannot differentiate"),
        ("grad_op", "gradient function: unknown operator oneflow.t_no_such_op"),
        ("grad_operand", "gradient function: oneflow.identity: no operand is called 'x', expected in"),
        ("grad_tensor", "uses the tensor 'nowhere/out_0', which no operation defines"),
        ("grad_self", r'the operation dx is made of itself: making it asks for GetOp\("dx"\); give one of'),
        ("grad_circle", "the gradient function's operations need their own results: dx -> dx; bind a tensor"),
        ("grad_undefined", "the operation dy is not defined; call DefineOp first"),
        ("grad_input", "no input named y; it has many, pair, x"),
    ],
)
def test_gradient_failures(failing, mode, message):
    ops = NumpyBuilder(failing)
    record, x = failing["t_failing"], ops.wrap(X)
    attrs = attribute_values(record, {"mode": mode})
    call = Call(record, {"x": x, "pair": (), "many": ()}, attrs, {"out": ops.t_failing(x, mode=mode)})
    with pytest.raises(OperatorError, match=message):
        record.grad(ops, call, x)["x"]()


@pytest.fixture(scope="session")
def throwing(load):
    return load("throwing")


def result_of(registry, name, mode):
    ops, record = NumpyBuilder(registry), registry[name]
    x = ops.wrap(X.astype(np.float64))
    attrs = attribute_values(record, {"mode": mode})
    return ops, Call(record, {"x": x}, attrs, {"y": getattr(ops, name)(x, mode=mode)})


CALLBACKS = [
    "check", "infer", "data_type", "input_modify", "output_modify", "match", "tmp_size", "create", "state", "cache",
    "compute",
]  # fmt: skip


@pytest.mark.parametrize("mode", CALLBACKS)
def test_exceptions_of_callbacks(throwing, mode):
    for _ in range(2):
        with pytest.raises(OperatorError, match=f"^oneflow.t_throwing: (?s:.*)thrown in {mode}$"):
            result_of(throwing, "t_throwing", mode)
    np.testing.assert_array_equal(result_of(throwing, "t_throwing", "")[1].y.handle, X + 1)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("null", r"the function that makes the kernel \(.*throwing.cpp:\d+\) gave none, expected a kernel"),
        ("nothing", "an exception that is not a std::exception"),
        ("negative", r"SetInferTmpSizeFn \(.*throwing.cpp:\d+\) gave -1 bytes for tmp_buffer, expected 0 or more"),
    ],
)
def test_callbacks_that_return_no_kernel(throwing, mode, message):
    with pytest.raises(OperatorError, match=f"t_throwing: .*{message}"):
        result_of(throwing, "t_throwing", mode)


@pytest.mark.parametrize("mode", ["gradient", "define", "bind"])
def test_exceptions_of_gradient_functions(throwing, mode):
    ops, call = result_of(throwing, "t_throwing", mode)
    with pytest.raises(OperatorError, match=rf"t_throwing: the gradient function .* failed: thrown in {mode}"):
        throwing["t_throwing"].grad(ops, call, call.y)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("init", "thrown in init"),
        ("capture", "thrown in capture"),
        ("apply", "thrown in apply"),
        (
            "too_many",
            r"the gradient function .*throwing.cpp:\d+\) failed: expected at most 1 gradients, .*, got 5",
        ),
    ],
)
def test_exceptions_of_gradient_classes(throwing, mode, message):
    ops, call = result_of(throwing, "t_throwing_class", mode)
    with pytest.raises(OperatorError, match=f"t_throwing_class: .*{message}"):
        throwing["t_throwing_class"].grad(ops, call, call.y)


def test_exceptions_of_sbp_functions(throwing):
    call = described(make_case(Sample("t_throwing", [t(2, 3)], {"mode": "sbp"}), flow.float64, throwing))
    with pytest.raises(OperatorError, match="t_throwing: the SBP function failed: thrown in sbp"):
        throwing["t_throwing"].signatures(call)


def test_errors_belong_to_their_thread(throwing, failing):
    """Calls, failures and messages belong to one thread."""

    def work(number):
        registry, name = (throwing, "t_throwing") if number % 2 else (failing, "t_failing")
        ops = NumpyBuilder(registry)
        for run in range(20):
            x = np.full((2, 3), number + run, np.float64 if number % 2 else np.float32)
            got = getattr(ops, name)(x).handle
            np.testing.assert_array_equal(got, x + number % 2)
            with pytest.raises(OperatorError, match="thrown in compute" if number % 2 else "thrown by the kernel"):
                getattr(ops, name)(x, mode="compute" if number % 2 else "kernel_throws")
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))
