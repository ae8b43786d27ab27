"""Mistakes in operators that users define in Python: errors name the operator, the slot and the line."""

import itertools
import linecache
import re
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect import compute as c
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.dialect.sbp import Factors
from oneflow.dialect.signature import SignatureError

KERNEL = flow.numpy_kernel(lambda x: x)
X = np.ones((2, 3), np.float32)
NUMBERS = itertools.count()
#: Ways to call a function of a tensor.
MODES = [lambda f: f(X), lambda f: flow.compile(lambda x: f(x))(X)]


def defined(**slots):
    """The function of a new operator with these slots."""
    name = f"tslip_{next(NUMBERS)}"
    meaning = {} if {"decompose", "compute"} & slots.keys() else {"kernel": KERNEL}
    flow.operator(f"{name}(x) -> y")(type("Slip", (), {"types": "x"} | meaning | slots))
    return getattr(flow.ops, name)


def refused(slot, message):
    """An error of the slot of one of these operators, in this file."""
    return pytest.raises(
        Exception, match=rf"oneflow.tslip_\d+: (decomposition: )?its slot {slot} \(.*slots.py:\d+\): {message}"
    )


def at_line_of(caught, text):
    """Checks that an error names a line of this file that has the text."""
    named = [int(n) for n in re.findall(re.escape(__file__) + r":(\d+)", str(caught.value))]
    assert any(text in linecache.getline(__file__, line) for line in named), str(caught.value)


@pytest.mark.parametrize(
    "rule, message",
    [
        (lambda op: None, "expected a TensorDesc for each result, got None"),
        (lambda op: op.z, "AttributeError: .*has no operand, attribute or result named 'z'"),
        (lambda op: (op.x, op.x), "expected something for each of the results y, got"),
        (lambda op: flow.TensorDesc((2, "a"), op.x.dtype), r"expected sizes from 0 on, or None.* got \(2, 'a'\)"),  # type: ignore[arg-type]
        (lambda op: flow.TensorDesc((-2,), op.x.dtype), r"expected sizes from 0 on, or None.* got \(-2,\)"),
        (lambda op: flow.TensorDesc((2,), "f32"), r"expected sizes from 0 on, or None, and an element type"),  # type: ignore[arg-type]
    ],
)
def test_type_slots(rule, message):
    with refused("types", message):
        defined(types=rule)(X)


def test_sizes_of_numpy_are_sizes():
    function = defined(types=lambda op: flow.TensorDesc(tuple(np.array(op.x.shape)), op.x.dtype))
    np.testing.assert_array_equal(function(X).numpy(), X)


@pytest.mark.parametrize(
    "rule, message",
    [
        (lambda ops, op, dy: dy, "expected a dict of gradients by the names of operands, got"),
        (lambda ops, op, dy: {"x": 3.0}, "expected a value that `ops` built as the gradient of x, got 3.0"),
        (lambda ops, op, dy: {"x": [dy]}, r"expected a value that `ops` built as the gradient of x, got \["),
        (lambda ops, op, dy: {"x": lambda: 1 / 0}, "ZeroDivisionError"),
        (lambda ops, op, dy: {"x": 1 / 0}, "ZeroDivisionError: division by zero"),
        (lambda ops, op: {}, "TypeError: .* takes 2 positional arguments but 3 were given"),
        (lambda ops, op, dy: {"x": ops.nosuch(dy)}, "unknown operator oneflow.nosuch"),
        (lambda ops, op, dy: {"z": dy}, r"expected gradients by operands \(x\), got one by 'z'"),
        (
            lambda ops, op, dy: {"x": ops.reduce_sum(dy, axis=(0,))},
            "expected a gradient of x of type tensor<2x3xf32>, got tensor<3xf32>",
        ),
        (
            lambda ops, op, dy: {"x": lambda: ops.cast(dy, dtype=flow.float64)},
            "expected a gradient of x of type tensor<2x3xf32>, got tensor<2x3xf64>",
        ),
    ],
)
def test_gradient_slots(rule, message):
    function, leaf = defined(grad=rule), flow.tensor(X, requires_grad=True)
    with refused("grad", message) as caught:
        function(leaf).sum().backward()
    at_line_of(caught, "function(leaf).sum().backward()")
    with refused("grad", message) as caught:
        flow.compile(flow.grad(lambda x: function(x).sum()))(X)
    at_line_of(caught, "flow.compile(flow.grad(")


def test_gradients_of_a_repeated_operand():
    name = f"tslip_{next(NUMBERS)}"
    slots = {"types": lambda op: op.xs[0], "kernel": flow.numpy_kernel(sum), "grad": lambda ops, op, dy: {"xs": [dy]}}
    flow.operator(f"{name}(xs+) -> y")(type("Slip", (), slots))
    leaf = flow.tensor(X, requires_grad=True)
    with refused("grad", r"expected 2 gradients of xs, got \["):
        getattr(flow.ops, name)([leaf, leaf]).sum().backward()


@pytest.mark.parametrize(
    "rule, message",
    [
        (lambda ops, op: 3, "expected values that `ops` built, got 3"),
        (lambda ops, op: 1 / 0, "ZeroDivisionError"),
        (lambda ops, op: (op.x, op.x), "expected something for each of the results y"),
        (lambda ops, op: ops.nosuch(op.x), "unknown operator oneflow.nosuch"),
        (
            lambda ops, op: ops.reduce_sum(op.x, axis=(0,)),
            "expected a result of type tensor<2x3xf32>, got tensor<3xf32>",
        ),
    ],
)
def test_decompose_slots(rule, message):
    with refused("decompose", message):
        defined(decompose=rule)(X)


@pytest.mark.parametrize(
    "rule, message",
    [
        (lambda op: 3, "expected a stage of oneflow.dialect.compute for each result, got 3"),
        (lambda op: [op.x, op.x], "expected something for each of the results y, got"),
        (lambda op: 1 / 0, "ZeroDivisionError"),
        (lambda op: op.z, "AttributeError: .*no operand, attribute or result named 'z'"),
        (lambda op: c.element_wise(op.x.shape, lambda i, j: 1 / 0, op.x.dtype), "ZeroDivisionError"),  # type: ignore[arg-type, return-value]
        (lambda op: c.element_wise(op.x.shape, lambda i: op.x[i, i], op.x.dtype), "TypeError: .* takes 1 positional"),
    ],
)
@pytest.mark.parametrize("run", MODES, ids=["eager", "compiled"])
def test_compute_slots(rule, message, run):
    function = defined(compute=rule)
    with refused("compute", message) as caught:
        run(function)
    assert "did not foresee" not in str(caught.value)


@pytest.mark.parametrize(
    "rule, told",
    [
        (lambda op: c.element_wise(op.x.shape[:1], lambda i: op.x[i, 0], op.x.dtype), "f32 of rank 1"),
        (lambda op: c.element_wise(op.x.shape, lambda i, j: op.x[i, j], flow.float64), "f64 of rank 2"),
    ],
)
def test_a_computation_of_another_type(rule, told):
    message = rf"oneflow.tslip_\d+: expected tensor<2x3xf32> from its slot compute, got {told}"
    with pytest.raises(flow.OneFlowError, match=message):
        defined(compute=rule)(X)


@pytest.mark.parametrize(
    "body, message",
    [
        (lambda x: x if x > 0 else -x, "BodyError: a body cannot branch"),
        (np.sin, "TypeError"),
        (lambda x: None, "expected an expression of flow.scalar, got None"),
    ],
)
def test_scalar_bodies(body, message):
    name = f"tslip_{next(NUMBERS)}"
    flow.elementwise(f"{name}(x) -> y")(lambda x: body(x))
    location = r"\(.*slots.py:\d+\)"
    with pytest.raises(Exception, match=f"oneflow.{name}: its slot scalar {location}: {message}") as caught:
        getattr(flow.ops, name)(X)
    assert "did not foresee" not in str(caught.value)


@pytest.mark.parametrize("given", [3, [3], lambda op: [flow.TensorDesc], Factors("a, b -> a")])
def test_signature_slots(given):
    with pytest.raises((SignatureError, ValueError), match="sbp"):
        record = flow.operator(f"tslip_{next(NUMBERS)}(x) -> y", registry=Registry())(
            type("Slip", (), {"types": "x", "kernel": KERNEL, "sbp": given})
        )
        call = flow.dialect.record.Call(record, {"x": flow.TensorDesc((2, 3), flow.float32)}, {})
        call.outputs = {"y": flow.TensorDesc((2, 3), flow.float32)}
        record.signatures(call)


@pytest.mark.parametrize(
    "slots, message",
    [
        ({"kernel": lambda x: x}, "the slot kernel: expected flow.numpy_kernel"),
        ({"kernel": 3}, "the slot kernel: expected flow.numpy_kernel"),
        ({"types": "z"}, "the slot types: expected an operand out of x, got 'z'"),
        ({"sbp": "a b"}, "the slot sbp: expected `operands -> results`"),
        ({"sbp": "a, b -> a"}, "the slot sbp: expected factors of 1 operands"),
        (
            {"sbp": "a ->"},
            "the slot sbp: expected as many factors of a result as of x, whose type it has, got 'a ->'",
        ),
        ({"sbp": "a b -> a"}, "the slot sbp: expected as many factors of a result as of x"),
        ({"grad": 3}, "the slot grad: expected a function, got 3"),
        ({"compute": 3, "kernel": None}, "the slot compute: expected a function, got 3"),
        ({"reference": 3}, "the slot reference: expected a function of NumPy arrays, got 3"),
        ({"triton": 3}, r"the slot triton: expected flow.triton_kernel\(..\), got 3"),
        ({"laws": 3}, "the slot laws: expected a tuple of laws, got 3"),
        ({"laws": ["x + 0"]}, "the slot laws: expected a tuple of laws, got "),
        ({"pure": "no"}, "the slot pure: expected True or False, got 'no'"),
        ({"traits": "random"}, "the slot traits: expected a set of words, got 'random'"),
        ({"shapes_of": "x"}, "the slot shapes_of: expected a tuple of operands, got 'x'"),
        ({"in_place": (0, 0)}, r"the slot in_place: expected a function of the call, got \(0, 0\)"),
        ({"complexity": 3}, "the slot complexity: expected a function of the call, got 3"),
    ],
)
def test_slots_that_are_refused_where_they_are_given(slots, message):
    with pytest.raises(SignatureError, match=message):
        defined(**slots)
    np.testing.assert_array_equal(defined()(X).numpy(), X)


def test_factors_that_fit_operands_have_to_fit_results():
    rules = {"types": lambda op: flow.TensorDesc(op.x.shape[:1], op.x.dtype), "sbp": "a b -> a b"}
    function = defined(kernel=flow.numpy_kernel(lambda x: x.reshape(len(x), -1)[:, 0]), **rules)
    np.testing.assert_array_equal(function(X[0]).numpy(), X[0])  # the message states nothing about vectors
    message = r"its slot sbp: expected a factor for each dimension of tensor<2xf32>, got 'a b -> a b'"
    with pytest.raises(flow.OneFlowError, match=message) as caught:
        function(X)
    at_line_of(caught, "function(X)")


C, TRITON = flow.c_kernel("y[0] = 1;"), flow.triton_kernel("def f(x): pass", grid="1")


@pytest.mark.parametrize(
    "signature, kernel, message",
    [
        ("(int) -> y", C, "expected names that C leaves free, got 'int'; rename it"),
        ("(x) -> int64_t", C, "expected names that C leaves free, got 'int64_t'"),
        ("(x, register: float = 1.0) -> y", C, "expected names that C leaves free, got 'register'"),
        ("(buffers) -> y", C, "expected names that C leaves free, got 'buffers'"),
        ("(x, x_size: int64 = 3) -> y", C, "a kernel in C is given 'x_size' by 'x'"),
        ("(x, x_shape) -> y", C, "a kernel in C is given 'x_shape' by 'x'"),
        ("(x, at: list_int64, at_size: int64 = 3) -> y", C, "a kernel in C is given 'at_size' by 'at'"),
        ("(x*, x_0) -> y", C, "a kernel in C is given 'x_0' by 'x'"),
        ("(x*, x_1_size: int64 = 3) -> y", C, "a kernel in C is given 'x_1_size' by 'x'"),
        ("(x, x_shape1: int64 = 3) -> y", TRITON, "a kernel in Triton is given 'x_shape1' by 'x'"),
        ("(x, y_rank: int64 = 3) -> y", TRITON, "a kernel in Triton is given 'y_rank' by 'y'"),
    ],
)
def test_names_that_mean_two_things_in_a_kernel(signature, kernel, message):
    slots = {"types": lambda op: op.operands[0], "kernel": kernel}
    with pytest.raises(SignatureError, match=f"operator tslip: the slot kernel: {message}"):
        flow.operator(f"tslip{signature}", registry=Registry())(type("Slip", (), slots))


def test_a_name_that_no_kernel_in_c_derives_is_free():
    name = f"tslip_{next(NUMBERS)}"
    kernel = flow.c_kernel("for (int64_t i = 0; i < x_size; ++i) y[i] = x_rank * x_0[i] * x[i];")
    slots = {"types": "x", "kernel": kernel}
    flow.operator(f"{name}(x, x_0, x_rank: int64 = 3) -> y")(type("Free", (), slots))
    np.testing.assert_array_equal(getattr(flow.ops, name)(X, X).numpy(), 3 * X)


@pytest.mark.parametrize("signature", ["t(é) -> y", "t(X) -> y", "t(x) -> Y", "t(x, é: float = 1.0) -> y"])
def test_a_name_that_mlir_refuses_leaves_other_operators_usable(signature):
    with pytest.raises(SignatureError, match="expected"):
        flow.operator(f"tslip_{signature}")(type("Slip", (), {"types": lambda op: op.operands[0], "kernel": KERNEL}))
    np.testing.assert_array_equal(defined()(X).numpy(), X)


@pytest.mark.parametrize("text", ["\U0001f600", "a\x017", 'q"\\\n?'])
def test_strings_are_escaped_in_c(text):
    name = f"tslip_{next(NUMBERS)}"
    slots = {"types": "x", "kernel": flow.c_kernel("return s;")}
    flow.operator(f'{name}(x, s: string = "a") -> y')(type("Text", (), slots))
    with pytest.raises(Exception) as caught:
        getattr(flow.ops, name)(X, s=text)
    assert f": {text} (" in str(caught.value)


def in_a_cycle(*names):
    """Operators each of which decomposes into the next, twice, and the last into the first."""
    for name, after in zip(names, (*names[1:], names[0]), strict=True):
        rule = lambda ops, op, after=after: getattr(ops, after)(op.x) + getattr(ops, after)(op.x)  # noqa: E731
        flow.operator(f"{name}(x) -> y")(type("Cycle", (), {"types": "x", "decompose": rule}))
    return getattr(flow.ops, names[0])


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    "run", [lambda f: f(X), lambda f: flow.compile(lambda x: f(x))(X)], ids=["eager", "compiled"]
)
def test_an_operator_that_decomposes_into_itself_is_refused(run, size):
    names = [f"tslip_{next(NUMBERS)}" for _ in range(size)]
    cycle = " -> ".join([*names, names[0]])
    with refused("decompose", f"decomposes into itself: {cycle}; decompose one of these into other operators"):
        run(in_a_cycle(*names))
    with refused("decompose", f"decomposes into itself: {cycle}; "):
        reference: Any = REGISTRY[names[0]].reference
        reference(X)


@pytest.mark.parametrize("times", [0, 3, 20])
def test_recursive_decompositions_end(times):
    name = f"tslip_{next(NUMBERS)}"
    rule = lambda ops, op: getattr(ops, name)(op.x + op.x, n=op.n - 1) if op.n else op.x * 1.5  # noqa: E731
    flow.operator(f"{name}(x, n: int64) -> y")(type("Down", (), {"types": "x", "decompose": rule}))
    wanted = X * 1.5 * 2.0**times
    np.testing.assert_array_equal(getattr(flow.ops, name)(X, n=times).numpy(), wanted)
    np.testing.assert_array_equal(flow.compile(lambda x: getattr(flow.ops, name)(x, n=times))(X), wanted)
