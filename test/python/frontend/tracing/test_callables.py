"""Arguments of flow.compile: methods, partial functions, objects; refused arguments and the errors."""

from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.tracing.callables import bind
from oneflow.frontend.tracing.trace import trace_call

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = flow.TensorSpec((None, 3))


class Scaler:
    """Compiled methods of every kind."""

    factor = 2.0

    def __init__(self, factor: float = 2.0) -> None:
        self.factor, self.calls = factor, 0

    @flow.compile
    def scale(self, x: Any) -> Any:
        self.calls += 1
        return x * self.factor

    @flow.compile(specs=[ROWS])
    def rows(self, x: Any) -> Any:
        return x * self.factor

    @staticmethod
    @flow.compile
    def outer_static(x: Any) -> Any:
        return x * 3

    @flow.compile
    @staticmethod
    def inner_static(x: Any) -> Any:
        return x * 3

    @classmethod
    @flow.compile
    def outer_class(cls, x: Any) -> Any:
        return x * cls.factor

    @flow.compile
    @classmethod
    def inner_class(cls, x: Any) -> Any:
        return x * cls.factor

    def plain(self, x: Any) -> Any:
        return x * self.factor

    def __call__(self, x: Any) -> Any:
        return x * self.factor


class Half(Scaler):
    factor = 0.5


class Divider(flow.nn.Module):
    """A module with a number."""

    factor = 1.0

    def forward(self, x: Any) -> Any:
        return x / self.factor


def same(got: Any, factor: float) -> None:
    np.testing.assert_array_equal(got, X * factor)


def test_methods_have_programs_for_each_object() -> None:
    """Two objects, one method."""
    two, five = Scaler(2.0), Scaler(5.0)
    for _ in range(2):
        same(two.scale(X), 2)
        same(five.scale(X), 5)
        same(Scaler(7.0).scale(X), 7)
    assert two.scale is two.scale and two.scale is not five.scale
    same(five.rows(X), 5)
    assert "tensor<?x3xf32>" in five.rows.ir()


def test_changed_settings_are_guarded_and_counters_are_not() -> None:
    """A number of the object that the method reads is part of the program's key."""
    scaler = Scaler(2.0)
    same(scaler.scale(X), 2)
    traces = scaler.calls
    same(scaler.scale(X), 2)
    assert scaler.calls == traces
    scaler.factor = 4.0
    same(scaler.scale(X), 4)
    called = flow.compile(scaler)
    same(called(X), 4)
    scaler.factor = 6.0
    same(called(X), 6)


def test_settings_are_distinguished_by_type() -> None:
    """1 and 1.0 make different programs of integers, 0.0 and -0.0 of floats."""
    scaler = Scaler(1)
    called = flow.compile(scaler)
    assert called(np.arange(3)).dtype == np.int64
    scaler.factor = 1.0
    assert called(np.arange(3)).dtype == np.float32
    for module in (Divider(), Divider()):
        for run in (flow.compile(module), flow.compile(lambda x, module=module: module(x))):
            for module.factor, want in ((0.0, np.inf), (-0.0, -np.inf), (float("nan"), np.nan)):
                np.testing.assert_array_equal(run(np.ones(1, np.float32)), np.array([want], np.float32))


def test_objects_without_settings_have_a_fast_path() -> None:
    """Nothing of a function, or of an object without settings, is looked at in a call."""
    for function in (lambda x: x + 1, functools.partial(flow.add, 1)):
        called = flow.compile(function)
        called(X)
        assert called._last is not None and not called._last.traced.guards


def test_copies_and_pickles_are_objects_of_their_own() -> None:
    """A copy does not run the programs of the original."""
    scaler = Scaler(2.0)
    same(scaler.scale(X), 2)
    for other in (copy.copy(scaler), copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))):
        other.factor = 8.0
        same(other.scale(X), 8)
        same(scaler.scale(X), 2)


def test_static_and_class_methods() -> None:
    """In either order of the decorators, from the class and from an object."""
    for owner, factor in ((Scaler, 2.0), (Half, 0.5), (Half(), 0.5)):
        same(owner.outer_static(X), 3)
        same(owner.inner_static(X), 3)
        same(owner.outer_class(X), factor)
        same(owner.inner_class(X), factor)


def test_objects_partial_functions_and_lambdas() -> None:
    """Callables with parameters that return tensors."""
    same(flow.compile(Scaler(3.0))(X), 3)
    same(flow.compile(Scaler(3.0).plain)(X), 3)
    same(flow.compile(functools.partial(lambda a, b: a * b, b=3.0))(X), 3)
    same(flow.compile(functools.partial(lambda b, a: a * b, 3.0))(X), 3)
    same(flow.compile(lambda a: a * 3)(X), 3)
    same(flow.compile(abs)(-3 * X), 3)


async def coroutine(x: Any) -> Any:
    return x


def generator(x: Any) -> Any:
    yield x


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (3, "expected a function of tensors, got 3"),
        ("f", "expected a function of tensors, got 'f'"),
        (Scaler, "got the class Scaler; pass an object or a method of the class"),
        (max, "max is written in C; use oneflow's, or a lambda that calls it"),
        (np.sin, "got NumPy's sin, a function of arrays; write flow.sin"),
        (coroutine, "coroutine is a coroutine; compile the awaited function"),
        (generator, "generator is a generator; return the tensors, as a list"),
    ],
)
def test_objects_that_are_not_callable(wrong: Any, text: str) -> None:
    """Refused at the call of flow.compile, not at the call of the result; by flow.trace as well."""
    with pytest.raises(flow.CallError, match=text):
        flow.compile(wrong)
    with pytest.raises(flow.CallError, match=text):
        flow.trace(wrong, ROWS)


def test_specs_by_position() -> None:
    """Of the function, and of the decorator."""
    for program in (
        flow.compile(lambda x: x * 2, ROWS),
        flow.compile(lambda x: x * 2, specs=ROWS),
        flow.compile(ROWS)(lambda x: x * 2),
    ):
        assert "tensor<?x3xf32>" in program.ir()
        same(program(X), 2)
    with pytest.raises(flow.CallError, match="expected specs by position or as specs"):
        flow.compile(lambda x: x, ROWS, specs=[ROWS])
    with pytest.raises(flow.CallError, match="expected specs as a list, one for each parameter"):
        flow.compile(lambda x: x, specs=3)


def add(x: Any, y: Any) -> Any:
    return x + y


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: flow.compile(add)(X), r"add\(x.*, y.*\).*: missing a required argument: 'y'"),
        (lambda: flow.compile(add)(X, X, X), "too many positional arguments"),
        (lambda: flow.compile(add)(X, z=X), "'y'|'z'"),
        (lambda: flow.compile(add, ROWS), "missing a required argument: 'y'"),
        (lambda: flow.compile(add, ROWS, ROWS, ROWS), "too many positional arguments"),
        (lambda: flow.compile(add, specs={"x": ROWS, "z": ROWS}), "'y'|'z'"),
        (lambda: flow.trace(add, ROWS), "missing a required argument: 'y'"),
    ],
)
def test_wrong_numbers_of_arguments_are_one_kind_of_error(call: Any, text: str) -> None:
    """Of calls, specs and traces; the message names the user's line."""
    with pytest.raises(flow.CallError, match=text) as caught:
        call()
    assert "test_callables.py:" in str(caught.value)


def test_specs_take_integers_of_every_kind() -> None:
    """NumPy's too; nothing else."""
    spec: Any = flow.TensorSpec
    assert spec((np.int64(2), np.uint8(3), None)).shape == (2, 3, None)
    assert all(type(d) is int for d in spec(np.array([2, 3])).shape)
    for shape in ((2.0,), (True,), (-1,), (1 << 63,), ("a",)):
        with pytest.raises(ValueError, match=r"expected sizes from 0 to 2\^63 - 1"):
            spec(shape)
    for no_shape in (3, "ab", None):
        with pytest.raises(ValueError, match="expected a shape such as"):
            spec(no_shape)
    for dtype in ("zz", None, "M8[s]", 3):
        with pytest.raises(TypeError, match="expected an element type, one of bool"):
            flow.TensorSpec((2,), dtype)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x.reshape(1 << 62, 4), "expected a shape of 6 elements"),
        (lambda x: x.reshape(1 << 70), "expected an integer of 64 bits"),
        (lambda x: x.repeat(1 << 62, 3), r"more than 2\^63 - 1 bytes"),
        (lambda x: x.repeat(-1, 1), "repetitions of at least 0, got -1"),
        (lambda x: x.reshape(1, 6).expand(1 << 61, 6), r"more than 2\^63 - 1 bytes"),
    ],
)
def test_sizes_that_overflow_are_errors_at_the_line(function: Any, text: str) -> None:
    """In traces; nothing is allocated."""
    with pytest.raises(flow.TraceError, match=f"test_callables.py:.*{text}"):
        flow.compile(function)(X)


def test_repeat_has_one_operand_for_any_count() -> None:
    """The number of repetitions does not change the number of operands."""
    for times in ((2, 3), (0, 2), (2, 1, 2), (1000, 1)):
        np.testing.assert_array_equal(flow.compile(lambda x, t=times: x.repeat(*t))(X), np.tile(X, times))
        np.testing.assert_array_equal(flow.tensor(X).repeat(*times).numpy(), np.tile(X, times))
    np.testing.assert_array_equal(flow.compile(lambda x: x.repeat(2, 2), ROWS)(X), np.tile(X, (2, 2)))


@dataclass
class Layer:
    """Arguments and results of a user's own kind."""

    weight: Any
    scales: list[Any] = field(default_factory=list)
    mode: str = "same"
    known: int = field(default=0, init=False)


def test_dataclasses_are_containers() -> None:
    """As arguments, nested, with values that are not tensors; as results; in specs and in gradients."""

    @flow.compile
    def double(layer: Layer) -> Layer:
        assert layer.mode == "same"
        return Layer(layer.weight * 2, [s + 1 for s in layer.scales], layer.mode)

    made = double(Layer(X, [X, X[0]]))
    assert type(made) is Layer and made.mode == "same"
    np.testing.assert_array_equal(made.weight, X * 2)
    np.testing.assert_array_equal(made.scales[1], X[0] + 1)
    grads = flow.compile(flow.grad(lambda layer: (layer.weight * layer.scales[0]).sum()))(Layer(X, [X + 1]))
    np.testing.assert_array_equal(grads.weight, X + 1)
    rows = flow.compile(lambda layer: layer.weight + 1, specs=[Layer(ROWS)])
    np.testing.assert_array_equal(rows(Layer(X)), X + 1)
    with pytest.raises(flow.CallError, match=r"expected layer.weight of type tensor<\?x3xf32>, got tensor<6xf32>"):
        rows(Layer(X.ravel()))


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(
        flow.CallError, match=r"expected x\[\"a\"\] to be an array, .* or dataclass of these, got object"
    ):
        flow.compile(lambda x: x["a"])({"a": object()})


def test_repr_names_the_function() -> None:
    @flow.compile
    def scaled(x: Any, by: float = 2.0) -> Any:
        return x * by

    assert repr(scaled) == "<compiled scaled(x: 'Any', by: 'float' = 2.0) -> 'Any', 0 programs>"
    scaled(X)
    assert repr(scaled).endswith(", 1 program>")


def test_bound_arguments_of_the_caller_are_unchanged() -> None:
    """Tracing copies the bound arguments: no dead tensors are left in the caller's arguments."""
    arguments = bind(lambda x, k: x * k, (ROWS, 2.0), {})
    trace_call(lambda x, k: x * k, arguments, "f", 0)
    assert dict(arguments.arguments) == {"x": ROWS, "k": 2.0}
