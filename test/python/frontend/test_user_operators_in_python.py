"""Operators that users define in Python: every slot, in eager and compiled code; refused definitions."""

# ruff: noqa: E731  slots are short functions

import contextlib
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect import compute as c
from oneflow.dialect.record import OperatorError, Registry
from oneflow.dialect.sbp import B, P, SbpSignature
from oneflow.dialect.signature import SignatureError
from oneflow.runtime.executable import KernelError
from oneflow.testing import Sample, check_op, t

FLOATS = [flow.float32, flow.float64]


@flow.operator("tp_row_max(x) -> y")
class RowMax:
    """The largest element of each row, by NumPy."""

    types = lambda op: flow.TensorDesc(op.x.shape[:-1], op.x.dtype)
    sbp = "a b -> a"
    kernel = flow.numpy_kernel(lambda x: x.max(axis=-1))


@flow.operator("tp_cap(x, limit: float = 1.0) -> y")
class Cap:
    """x, but at most limit, in C."""

    types = "x"
    sbp = "a b -> a b"
    kernel = flow.c_kernel("for (int64_t i = 0; i < x_size; ++i) y[i] = x[i] > limit ? limit : x[i];")
    reference = lambda x, *, limit: np.minimum(x, x.dtype.type(limit))
    grad = lambda ops, op, dy: {"x": ops.tp_cap_grad(op.x, dy, limit=op.limit)}


@flow.operator("tp_cap_grad(x, dy, limit: float = 1.0) -> dx")
class CapGrad:
    """dy where x is below limit."""

    types = "x"
    sbp = "a b, a b -> a b"
    kernel = flow.numpy_kernel(lambda x, dy, *, limit: np.where(x > limit, 0, dy).astype(x.dtype))
    grad = lambda ops, op, dz: {"dy": ops.tp_cap_grad(op.x, dz, limit=op.limit)}


@flow.elementwise("tp_softclip(x, limit: float = 1.0) -> y")
def softclip(x, *, limit):
    """tanh(x / limit) * limit."""
    return flow.scalar.tanh(x / limit) * limit


@flow.operator("tp_outer(x, y) -> z")
class Outer:
    """All products, over the compute algebra."""

    types = lambda op: flow.TensorDesc((op.x.shape[0], op.y.shape[0]), op.x.dtype)
    sbp = "m, n -> m n"
    compute = lambda op: c.element_wise(
        (op.x.shape[0], op.y.shape[0]), lambda i, j: op.x[(i,)] * op.y[(j,)], op.x.dtype
    )
    grad = lambda ops, op, dz: {
        "x": ops.reshape(ops.matmul(dz, ops.reshape(op.y, shape=(-1, 1))), shape=(-1,)),
        "y": ops.reshape(ops.matmul(ops.reshape(op.x, shape=(1, -1)), dz), shape=(-1,)),
    }


@flow.operator("tp_sum_square(x) -> y")
class SumSquare:
    """The sum of squares, by other operators."""

    types = lambda op: flow.TensorDesc((), op.x.dtype)
    decompose = lambda ops, op: ops.reduce_sum(op.x * op.x, axis=(0, 1))
    grad = lambda ops, op, dy: {"x": op.x * dy * 2.0}


@flow.operator("tp_weighed(xs*, w, at?) -> y, z")
class Weighed:
    """Sums of several operands by other operators; gradients are the gradients of the other operators."""

    types = lambda op: (op.w, op.w)
    decompose = lambda ops, op: (op.xs[0] * op.w + ops.tanh(op.xs[1]), op.w * op.w)


CASES = {
    "tp_cap": [
        Sample("tp_cap", [t(4, 3)], {"limit": 0.5}, dtypes=FLOATS),
        Sample("tp_cap", [t(3, 6)], dtypes=FLOATS),
    ],
    "tp_cap_grad": [Sample("tp_cap_grad", [t(3, 4), t(3, 4)], dtypes=FLOATS)],
    "tp_softclip": [Sample("tp_softclip", [t(3, 4)], {"limit": 0.7}, dtypes=FLOATS)],
    "tp_outer": [Sample("tp_outer", [t(4), t(6)], dtypes=FLOATS)],
    "tp_weighed": [
        Sample("tp_weighed", [(t(3, 4), t(3, 4)), t(3, 4), None], dtypes=FLOATS),
        Sample("tp_weighed", [(t(3, 4), t(3, 4)), t(3, 4), t(2, dtype=flow.int64)], dtypes=FLOATS),
    ],
    "tp_sum_square": [Sample("tp_sum_square", [t(4, 3)], dtypes=FLOATS)],
}


@pytest.mark.parametrize("name", CASES)
def test_the_checks_of_built_in_operators(name):
    check_op(name, CASES[name])


def test_values_in_eager_and_compiled_code():
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    eager = flow.ops.tp_row_max(flow.ops.tp_cap(x, limit=0.5))

    @flow.compile
    def program(x):
        return flow.ops.tp_row_max(x=flow.ops.tp_cap(x, limit=0.5)) * 2.0

    want = np.minimum(x, 0.5).max(axis=1)
    np.testing.assert_array_equal(eager.numpy(), want)
    np.testing.assert_array_equal(program(x), want * 2)
    np.testing.assert_allclose(flow.ops.tp_softclip(x, limit=2.0).numpy(), np.tanh(x / 2) * 2, rtol=1e-6)


def test_an_operator_without_a_gradient_asks_for_its_slot():
    with pytest.raises(flow.OneFlowError, match=r"oneflow\.tp_row_max has no gradient: its slot grad is not filled"):
        flow.grad(lambda x: flow.ops.tp_row_max(x).sum())(np.ones((2, 3), np.float32))


def test_gradients_flow_through_kernels():
    x = flow.tensor(np.array([[0.5, 2.0], [3.0, -1.0]], np.float32), requires_grad=True)
    (flow.ops.tp_cap(x) * 3.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[3, 0], [0, 3]])


TRIPLE = flow.c_kernel("for (int64_t i = 0; i < x_size; ++i) y[i] = 3 * x[i];")
FOURFOLD = """def f(x, y, x_size, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 4 * tl.load(x + at, at < x_size), at < x_size)"""
#: Faulty slots of an operator that computes 3 * x, and the message of the check that finds the fault.
MISTAKES: dict[str, Any] = {
    "nothing": ({}, None),
    "reference": ({"reference": lambda x: 2 * x}, "Not equal to tolerance(?s:.*)result 0"),
    "gradient": ({"grad": lambda ops, op, dy: {"x": dy * 2.0}}, r"Not equal to tolerance(?s:.*)\]-: 0"),
    "types": ({"types": lambda op: flow.TensorDesc(op.x.shape, flow.int32)}, "reference gave tensor<4x6xf32>, types"),
    "sbp": ({"sbp": lambda op: [SbpSignature((P,), (B,))]}, "on 2 devices with P -> B"),
    "decompose": ({"kernel": None, "decompose": lambda ops, op: op.x * 4.0}, "Not equal to tolerance"),
    "triton": ({"triton": flow.triton_kernel(FOURFOLD, grid="cdiv(x_size, BLOCK)")}, "Not equal to tolerance"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_the_checks_find_mistakes(what):
    slots, message = MISTAKES[what]
    name = f"tp_mistaken_{what}"
    right: dict[str, Any] = {"types": "x", "kernel": TRIPLE, "reference": lambda x: 3 * x}
    right |= {"sbp": "a b -> a b", "grad": lambda ops, op, dy: {"x": dy * 3.0}}
    given = {slot: value for slot, value in (right | slots).items() if value is not None}
    flow.operator(f"{name}(x) -> y")(type("Mistaken", (), given))
    with pytest.raises(AssertionError, match=message) if message else contextlib.nullcontext():
        flow.testing.check_op(name, [Sample(name, [t(4, 6)], dtypes=FLOATS)])


def test_the_checks_detect_a_wrong_sbp():
    with pytest.raises(AssertionError, match=r"tp_row_max.*S\(1\)"):
        check_op("tp_row_max", [Sample("tp_row_max", [t(4, 6)])])


def test_attributes_with_names_of_bookkeeping_reach_kernels():
    slots = {"types": "x", "kernel": flow.numpy_kernel(lambda x, *, device_id: x + np.float32(device_id))}
    flow.operator("tp_shifted(x, device_id: int64 = 0) -> y")(type("Shifted", (), slots))
    found = flow.compile(lambda x: flow.ops.tp_shifted(x, device_id=3))(np.zeros(2, np.float32))
    np.testing.assert_array_equal(found, [3, 3])


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda x: x.astype(np.float64), r"expected result 0 of type .*2xf32.*, got float64 of shape \(2,\)"),
        (lambda x: (x, x), "expected 1 results from the kernel, got 2"),
        (lambda x: x.sort(), "read-only"),
    ],
)
def test_a_failing_numpy_kernel_is_an_error(function, message):
    name = f"tp_fails_{message.__hash__() % 10**9}"
    flow.operator(f"{name}(x) -> y")(type("F", (), {"types": "x", "kernel": flow.numpy_kernel(function)}))
    with pytest.raises(KernelError, match=rf"oneflow.{name}: .*{message}"):
        flow.compile(lambda x: getattr(flow.ops, name)(x))(np.ones(2, np.float32))


@pytest.mark.parametrize(
    "source, error, message",
    [
        ('return "too sad";', KernelError, "oneflow.tp_c.*: too sad"),
        ("y[0] = nothing;", OperatorError, "cannot be compiled:(?s:.*)nothing"),
    ],
)
def test_a_failing_c_kernel_is_an_error(source, error, message):
    name = f"tp_c_{len(source)}"
    flow.operator(f"{name}(x) -> y")(type("F", (), {"types": "x", "kernel": flow.c_kernel(source)}))
    with pytest.raises((error, flow.TraceError), match=message):
        flow.compile(lambda x: getattr(flow.ops, name)(x))(np.ones(2, np.float32))


def test_definitions_that_are_refused():
    registry = Registry()
    kernel = flow.numpy_kernel(lambda x: x)
    with pytest.raises(SignatureError, match="expected exactly one of scalar, compute, decompose, kernel"):
        flow.operator("tp_no(x) -> y", registry=registry)(type("No", (), {"types": "x"}))
    with pytest.raises(SignatureError, match="the slot types is empty"):
        flow.operator("tp_no(x) -> y", registry=registry)(type("No", (), {"kernel": kernel}))
    define = flow.operator("tp_no(x) -> y", registry=registry)
    define(type("No", (), {"types": "x", "kernel": kernel}))
    with pytest.raises(SignatureError, match="operator tp_no is defined twice"):
        define(type("No", (), {"types": "x", "kernel": kernel}))
    with pytest.raises(AttributeError, match="no operator 'tp_cup'; did you mean tp_cap"):
        flow.ops.tp_cup  # noqa: B018
    with pytest.raises(flow.CallError, match="expected operands x and attributes by name, got 2 arguments"):
        flow.ops.tp_cap(np.ones(2, np.float32), 0.5)
