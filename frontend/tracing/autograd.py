"""Gradients of Python functions: `grad`, `vjp`, `jvp`.

    step = flow.compile(flow.value_and_grad(loss, argnums=(0, 1)))

The function is called once. In a trace its operators are recorded on a tape, and their gradient slots build the
gradients afterwards: gradients are operators like any others, and can be differentiated again. In eager mode the tape
of the tensors serves. `jvp` is reverse mode twice: operators have no forward-mode rules, nor batching rules (vmap).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from oneflow.dialect.integer_paths import refuse_integers
from oneflow.dialect.record import OperatorError
from oneflow.dialect.reverse import (
    Alias,
    Entry,
    NotDifferentiable,
    Seeds,
    one_of,
)
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import OneFlowError, SourceLocation, fail
from oneflow.frontend.core.promotion import accepts_gradient
from oneflow.frontend.core.pytree import Tree, flatten
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import enable_grad
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.tracing.builder import TraceBuilder
from oneflow.frontend.tracing.callables import bind, entry_name
from oneflow.frontend.tracing.eager_autograd import (
    as_gradient_input,
    nested_gradient,
    nesting_level,
    released,
)
from oneflow.frontend.tracing.eager_autograd import pull_back as eager_pull_back

__all__ = ["grad", "jvp", "stop_gradient", "value_and_grad", "vjp"]

Function = Callable[..., Any]


def grad(fn: Function, argnums: int | Sequence[int] = 0) -> Function:
    """The function that computes the gradient of `fn`; see `value_and_grad`."""
    both = value_and_grad(fn, argnums)

    @functools.wraps(both)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradient


def value_and_grad(fn: Function, argnums: int | Sequence[int] = 0) -> Function:
    """The function that computes the result of `fn` and its gradient.

    Args:
        fn: a function of tensors that returns one tensor of floats with one element.
        argnums: the positions of the arguments to differentiate by, negative positions count from the end; several
            positions give a tuple of gradients. An argument may be a list, tuple or dict of tensors: its gradient has
            the same structure, with None for leaves that are no tensors of floats.

    Raises:
        OneFlowError: when called: `fn` returns something else, an argument has no floats, or an operator on the way
            has no gradient.
    """
    indices = [argnums] if isinstance(argnums, int) else list(argnums)

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        arguments = bind(fn, args, kwargs)
        at = _non_negative(entry_name(fn), len(arguments.args), indices)
        inputs = _Inputs(entry_name(fn), arguments.args, at)
        positional = list(arguments.args)
        for index, value in zip(at, inputs.value, strict=True):
            positional[index] = value
        with _recording() as tape:
            value = fn(*positional, **arguments.kwargs)
        builder = current_builder()
        loss = current_value(_checked_loss(entry_name(fn), value))
        grads = inputs.gradients(tape, [(loss, builder.to_tensor(one_of(builder, loss.desc)))])
        return inputs.released((value, grads[0] if isinstance(argnums, int) else tuple(grads)))

    function.__name__ = f"{entry_name(fn)}_grad"
    return function


def vjp(fn: Function, *primals: Any) -> tuple[Any, Function]:
    """The result of `fn(*primals)`, and the function from cotangents of the result to the gradients by `primals`.

    Cotangents have the structure of the result; None stands for zeros, and for leaves that are no tensors of floats.
    The gradients are a tuple, or one gradient for one primal.

    Raises:
        OneFlowError: a primal has no floats, or the function is called with cotangents of other types.
    """
    inputs = _Inputs(entry_name(fn), primals, range(len(primals)))
    with _recording() as tape:
        value = fn(*inputs.value)
    results, tree = flatten(value)
    results = list(map(current_value, results))

    def pull(cotangents: Any) -> Any:
        seeds = [
            (result, _cotangent(result, cotangent))
            for result, cotangent in zip(results, _leaves_of_structure(cotangents, tree), strict=True)
            if cotangent is not None
        ]
        grads = inputs.gradients(tape, seeds)
        return inputs.released(grads[0] if len(primals) == 1 else tuple(grads))

    return inputs.released(value), pull


def jvp(fn: Function, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The result of `fn(*primals)`, and its tangent for the `tangents` of the primals, which have the structure of
    the primals.

    The tangent is computed by reverse mode twice: the gradient is linear in its cotangents, and the adjoint of that
    map gives the tangent. None stands for the tangent of a leaf that is no tensor of floats.

    Args:
        fn: a function of tensors.
        primals: its arguments as a tuple or list; a tensor or array is the only one.
        tangents: their tangents, of the same structure.

    Raises:
        CallError: `fn` has another number of parameters.
        OneFlowError: tangents have other types than primals, or an operator has no second derivative.
    """
    primals, tangents = _one_or_more(primals), _one_or_more(tangents)
    bind(fn, primals, {})
    depth = nesting_level()
    with nested_gradient():
        value, pull = vjp(fn, *primals)
    results, tree = flatten(value)
    floats = [r for r in results if _is_inexact(r)]
    probes = [_as_input(dispatch("ones_like", r)) for r in floats]
    rest = iter(probes)
    with _recording() as tape:
        pulled = pull(tree.unflatten([next(rest) if _is_inexact(r) else None for r in results]))
    grads, structure = flatten((pulled,) if len(primals) == 1 else pulled)
    changes = _leaves_of_structure(tuple(tangents), structure)
    seeds = [(g, _cotangent(g, t, "a tangent")) for g, t in zip(grads, changes, strict=True) if g is not None]
    results_of_tape = iter(_pull_back(tape, seeds, probes))
    changed = tree.unflatten([next(results_of_tape) if _is_inexact(r) else None for r in results])
    return (value, changed) if not current_builder().eager else released((value, changed), depth)


def _one_or_more(value: Any) -> Sequence[Any]:
    """Arguments, given one by one or as the only one."""
    return (value,) if isinstance(value, Tensor) or is_array(value) else value


def stop_gradient(x: Any) -> Any:
    """`x`, a tensor or a nested structure of tensors, through which no gradient flows."""
    leaves, tree = flatten(x)
    return tree.unflatten([dispatch("stop_gradient", v) if isinstance(v, Tensor) else v for v in leaves])


def _non_negative(name: str, count: int, argnums: Sequence[int]) -> list[int]:
    """Positions of arguments; negative positions count from the end.

    Raises:
        OneFlowError: one is no position.
    """
    for index in argnums:
        if not -count <= index < count:
            raise fail(f"{name}: expected argnums in [{-count}, {count}) for {count} arguments, got {index}")
    positions = [index % count for index in argnums]
    if len(set(positions)) < len(positions):
        raise fail(f"{name}: expected each argument once in argnums, got {list(argnums)}")
    return positions


class _Inputs:
    """Arguments as new tensors, so that other uses of the same tensors are constants of the function."""

    def __init__(self, name: str, args: Sequence[Any], indices: Sequence[int]) -> None:
        self.level = nesting_level()
        leaves, self.tree = flatten([args[n] for n in indices])
        self.leaves = [_as_input(v) if _is_inexact(v) else v for v in map(_as_tensor, leaves)]
        self.value: list[Any] = self.tree.unflatten(self.leaves)
        for index, value in zip(indices, self.value, strict=True):
            if not any(map(_is_inexact, flatten(value)[0])):
                raise fail(f"{name}: expected argument {index} to have tensors of floats, got {args[index]!r}")

    def gradients(self, tape: Sequence[Entry], seeds: Seeds) -> list[Any]:
        """The gradients in the structure of the arguments."""
        gradients = iter(_pull_back(tape, seeds, [v for v in self.leaves if _is_inexact(v)]))
        grads: list[Any] = self.tree.unflatten([next(gradients) if _is_inexact(v) else None for v in self.leaves])
        return grads

    def released(self, value: Any) -> Any:
        """`value`, without the records for its gradient unless another gradient needs them."""
        return released(value, self.level) if current_builder().eager else value


def _as_tensor(leaf: Any) -> Any:
    return as_tensor(leaf) if is_array(leaf) or isinstance(leaf, float) else leaf


def _as_input(tensor: Tensor) -> Tensor:
    """The same tensor as another object, by which gradients distinguish this use from others."""
    if isinstance(tensor, EagerTensor) and current_builder().eager:
        return as_gradient_input(tensor)
    builder = _builder()
    renamed = builder.renamed(tensor)
    builder.record_entry(Alias((builder.read(tensor),), (renamed,)))
    builder.owned.append(renamed)
    return renamed


def current_value(value: Any) -> Any:
    """A result in a trace by its current value, which later updates in place do not change."""
    builder: Any = current_builder()
    traced = isinstance(value, Tensor) and isinstance(builder, TraceBuilder)
    return builder.to_tensor(builder.read(value)) if traced else value


def _is_inexact(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.is_inexact


def _builder() -> TraceBuilder:
    builder = current_builder()
    assert isinstance(builder, TraceBuilder)
    return builder


@contextmanager
def _recording() -> Iterator[list[Entry]]:
    """A context with a tape of its calls; in eager mode the tape is unused, since tensors refer to their
    producers.
    """
    builder, tape = current_builder(), list[Entry]()
    if not isinstance(builder, TraceBuilder):
        with nested_gradient():
            yield tape
        return
    builder.tapes = [*builder.tapes, tape]
    try:
        with enable_grad():
            yield tape
    finally:
        builder.tapes = builder.tapes[:-1]


def _pull_back(tape: Sequence[Entry], seeds: Seeds, wrt: Sequence[Any]) -> list[Any]:
    """The gradients by `wrt`, zeros where no result depends on one."""
    builder = current_builder()
    try:
        grads = eager_pull_back(seeds, wrt) if builder.eager else _traced_pull_back(builder, tape, seeds, wrt)
    except NotDifferentiable as error:
        raise (fail(str(error)) if builder.eager else _error_at_operator(error)) from None
    except OperatorError as error:
        raise fail(str(error)) from None
    return [dispatch("zero_like", x) if g is None else g for x, g in zip(wrt, grads, strict=True)]


def _traced_pull_back(builder: Any, tape: Sequence[Entry], seeds: Seeds, wrt: Sequence[Any]) -> list[Any]:
    grads: list[Any] = builder.pull_back(tape, seeds, wrt)
    refuse_integers(tape, seeds, wrt, grads)
    return grads


def _error_at_operator(error: NotDifferentiable) -> OneFlowError:
    """The error, at the line that called the operator."""
    at = error.entry.results[0].handle.owner.location
    return fail(str(error), SourceLocation(at.filename, at.start_line, at.start_col))


def _checked_loss(name: str, value: Any) -> Tensor:
    if not _is_inexact(value) or value.dtype.is_complex or value.desc.element_count != 1:
        raise fail(f"expected {name} to return one tensor of floats with one element to differentiate, got {value!r}")
    loss: Tensor = value
    return loss


def _leaves_of_structure(value: Any, tree: Tree) -> list[Any]:
    """The leaves of a value, which has to have a structure."""
    leaves, structure = flatten(value)
    if structure != tree:
        raise fail(f"expected the structure of the result, of {len(list(tree.paths()))} tensors, got {value!r}")
    return leaves


def _cotangent(value: Any, cotangent: Any, what: str = "a cotangent") -> Tensor:
    tensor = as_tensor(cotangent, what)
    tensor = (
        cast(tensor, value.dtype) if _is_inexact(value) and accepts_gradient(value.dtype, tensor.dtype) else tensor
    )
    if not _is_inexact(value) or not tensor.desc.compatible(value.desc):
        raise fail(f"expected {what} of type {getattr(value, 'desc', 'None')}, got {tensor.desc}")
    return tensor
