"""`flow.autograd.functional`: products with Jacobians and Hessians, and these matrices, of functions of tensors.

Inputs and vectors are one tensor, or a tuple of tensors; results have the same form. Without `create_graph` no
gradient flows through results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.tracing import autograd

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The results of a function, and the product of the vector `v` with its Jacobian.

    `v` has the form of the results; `v` may be missing for one result of one element.
    """
    checked = _checked(inputs, strict)
    results, pull = autograd.vjp(func, *checked)
    gradients = pull(_vector(results, v, "v"))
    return _in_form_of_inputs((results, gradients), create_graph, inputs)


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The results of a function, and the product of its Jacobian with the vector `v`, which has the form of the
    inputs; `v` may be missing for one input of one element.
    """
    checked = _checked(inputs, strict)
    tangents = autograd.jvp(func, checked, _as_tuple(_vector(inputs, v, "v")))
    return _detached(tangents, create_graph)


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function: a tensor of the shape of the result and then of the input, or tuples of these, by
    the results and then by the inputs.

    `vectorize` is taken for programs of PyTorch and changes nothing. `strategy` is "reverse-mode".
    """
    if strategy != "reverse-mode":
        raise fail(f'expected strategy to be "reverse-mode", got {strategy!r}')
    checked = _checked(inputs, strict)
    results, pull = autograd.vjp(func, *checked)
    several = isinstance(results, (tuple, list))
    rows = []
    for index, result in enumerate(_as_tuple(results)):
        picks = _unit_vectors(result)
        grads = [_as_tuple(pull(_at(index, pick, results))) for pick in picks]
        matrices = [
            F.reshape(F.stack(column), (*result.sizes(), *x.sizes())) if grads else _empty(result, x)
            for x, column in zip(checked, zip(*grads, strict=True) if grads else [()] * len(checked), strict=True)
        ]
        rows.append(tuple(matrices) if isinstance(inputs, tuple) else matrices[0])
    return _detached(tuple(rows) if several else rows[0], create_graph)


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one element: the Jacobian of its gradient, in tuples of tuples where inputs are
    a tuple.
    """
    checked = _checked(inputs, strict)
    gradient = autograd.grad(func, tuple(range(len(checked))))
    several = isinstance(inputs, tuple)
    return jacobian(
        gradient if several else lambda x: gradient(x)[0],
        inputs, create_graph, strict, vectorize, outer_jacobian_strategy,
    )  # fmt: skip


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The result of a function with one element, and the product of the vector `v` with its Hessian."""
    checked = _checked(inputs, strict)
    gradient = autograd.value_and_grad(func, tuple(range(len(checked))))
    results, pull = autograd.vjp(lambda *xs: gradient(*xs), *checked)
    product = pull((None, tuple(_as_tuple(_vector(inputs, v, "v")))))
    return _in_form_of_inputs((results[0], product), create_graph, inputs)


def hvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The result of a function with one element, and the product of its Hessian with the vector `v`."""
    checked = _checked(inputs, strict)
    gradient = autograd.value_and_grad(func, tuple(range(len(checked))))
    (value, _), (_, product) = autograd.jvp(lambda *xs: gradient(*xs), checked, _as_tuple(_vector(inputs, v, "v")))
    return _in_form_of_inputs((value, product if len(checked) > 1 else product[0]), create_graph, inputs)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _checked(inputs: Any, strict: bool) -> tuple[Any, ...]:
    """The inputs as a tuple.

    Raises:
        OneFlowError: one is no tensor, or `strict` is asked for.
    """
    if strict:
        raise fail("expected strict=False: a result that does not depend on an input has a gradient of zeros")
    tensors = _as_tuple(inputs)
    for x in tensors:
        if not isinstance(x, Tensor):
            raise fail(f"expected a tensor or a tuple of tensors as inputs, got {x!r}")
    return tensors


def _vector(like: Any, v: Any, name: str) -> Any:
    """The vector of a product, in the form of `like`.

    Raises:
        OneFlowError: the vector is missing although there are several elements, or has another form.
    """
    targets = _as_tuple(like)
    if v is None:
        if len(targets) != 1 or targets[0].numel() != 1:
            raise fail(f"expected {name}, which may be missing for one tensor of one element alone")
        v = F.ones_like(targets[0])
    values = _as_tuple(v)
    if len(values) != len(targets) or any(a.shape != b.shape for a, b in zip(values, targets, strict=False)):
        raise fail(f"expected {name} with the shapes {[list(x.shape) for x in targets]}, got {v!r}")
    return values if isinstance(like, (tuple, list)) else values[0]


def _unit_vectors(result: Tensor) -> list[Tensor]:
    """For each element of a tensor its shape with a one there and zeros elsewhere."""
    count = result.numel()
    rows = F.eye(count, dtype=result.dtype)
    return [F.reshape(F.select(rows, 0, i), result.sizes()) for i in range(count)]


def _at(index: int, pick: Tensor, results: Any) -> Any:
    """Cotangents of results: `pick` for the result `index`, None for other results."""
    if not isinstance(results, (tuple, list)):
        return pick
    return type(results)(pick if i == index else None for i in range(len(results)))


def _empty(result: Tensor, x: Tensor) -> Tensor:
    return F.zeros((*result.sizes(), *x.sizes()), dtype=x.dtype)


def _in_form_of_inputs(gradients: Any, create_graph: bool, inputs: Any) -> Any:
    """Results and a product, which is a tuple where the inputs are one."""
    results, product = gradients
    one_in_tuple = isinstance(inputs, tuple) and not isinstance(product, tuple)
    return _detached((results, (product,) if one_in_tuple else product), create_graph)


def _detached(gradients: Any, create_graph: bool) -> Any:
    """The results, detached from the tape unless `create_graph` is set."""
    if isinstance(gradients, (tuple, list)):
        return type(gradients)(_detached(x, create_graph) for x in gradients)
    return gradients if create_graph or not isinstance(gradients, Tensor) else gradients.detach()
