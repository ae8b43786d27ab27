"""`flow.autograd.backward` and `flow.autograd.grad`: gradients of computed tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.promotion import accepts_gradient
from oneflow.frontend.core.settings import SCOPE
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.function import zeros_of
from oneflow.frontend.eager.tape import Leaf, Node, Variable, gradients, set_grad_enabled, uses_of
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor
from oneflow.frontend.functional.indexing import getitem
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.shape import stack


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds to the `grad` of every leaf that `tensors` depend on the gradient of their sum, weighted by
    `grad_tensors`.

    With `inputs` only those leaves get a gradient. A tensor with None in `grad_tensors` has to have one
    element. The tape is freed, unless `retain_graph`; with `create_graph`, which retains the tape, the gradients can
    be differentiated again.

    Raises:
        OneFlowError: one of `inputs` is no leaf that requires grad, or there are none.
        RuntimeError: a tensor has no gradient, was freed, or a value that is needed was updated in place.
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    retain = create_graph if retain_graph is None else retain_graph
    leaves = None if inputs is None else _leaves_of(inputs)
    scaled = _scaled(roots, _checked(roots, grad_tensors))
    current_builder().backward(roots, scaled, retain, create_graph, leaves)


def _scaled(roots: Sequence[Tensor], grad_tensors: Sequence[Any]) -> Sequence[Any]:
    """`grad_tensors`; a missing one is the loss scale that is in force."""
    scale = SCOPE.get().loss_scale
    if scale is None:
        return grad_tensors
    factor = current_builder().runtime_scalar(scale, dtypes.float32)
    return [
        cast(dispatch("broadcast_mul", cast(factor, x.dtype), dispatch("ones_like", x)), x.dtype) if w is None else w
        for x, w in zip(roots, grad_tensors, strict=True)
    ]


def _leaves_of(inputs: Tensor | Sequence[Tensor]) -> set[Leaf]:
    tensors = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if not tensors:
        raise fail("expected at least one tensor as inputs of backward, got none; leave inputs out for all leaves")
    leaves = [x.handle.leaf if isinstance(x, EagerTensor) else None for x in tensors]
    if None in leaves:
        raise fail(
            "expected leaves that require grad as inputs of backward, or tensors with retain_grad(), got "
            f"{tensors[leaves.index(None)]!r}; flow.autograd.grad gives gradients by others"
        )
    return {leaf for leaf in leaves if leaf is not None}


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
    is_grads_batched: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of the sum of `outputs`, weighted by `grad_outputs`, by `inputs`; no `grad` is changed.

    With `is_grads_batched`, `grad_outputs` have a first dimension more than `outputs`, and so do the gradients, one
    for each slice of `grad_outputs`. A gradient is zeros where the outputs depend on an input whose gradient
    vanishes, as in second derivatives of `relu`. In a compiled function `inputs` are captured leaves; `flow.grad`
    computes gradients by other tensors.

    Raises:
        RuntimeError: as `backward`; or the outputs do not depend on an input, unless `allow_unused` (its gradient is
            None) or `materialize_grads` (zeros).
    """
    roots, wanted = ([x] if isinstance(x, Tensor) else list(x) for x in (outputs, inputs))
    if is_grads_batched:
        options = {"create_graph": create_graph, "allow_unused": allow_unused, "materialize_grads": materialize_grads}
        return _batched(roots, wanted, grad_outputs, retain_graph or create_graph, **options)
    compute = _eager_grad if current_builder().eager else _traced_grad
    grads = compute(roots, _checked(roots, grad_outputs), wanted, retain_graph, create_graph)
    if materialize_grads:
        grads = [dispatch("zero_like", x) if g is None else g for x, g in zip(wanted, grads, strict=True)]
    unused = [i for i, g in enumerate(grads) if g is None]
    if unused and not allow_unused:
        raise refuse(f"the outputs do not depend on input {unused[0]}; pass allow_unused=True to get None for it")
    return tuple(grads)


def _batched(
    roots: Sequence[Tensor], inputs: Sequence[Tensor], grad_outputs: Any, retain: bool, **options: Any
) -> tuple[Any, ...]:
    """The gradients for each slice of `grad_outputs` along the first dimension, stacked.

    Raises:
        RuntimeError: the shapes of `grad_outputs` are not (n, *shape of the output).
    """
    vectors = [as_tensor(w) for w in ([grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs)]
    count = vectors[0].shape[0] if vectors and vectors[0].rank else 0
    shapes = [(count, *root.shape) for root in roots]
    if not count or [tuple(v.shape) for v in vectors] != shapes:
        raise refuse(
            f"expected grad_outputs of the shapes (n, *shape of the output) with is_grads_batched, "
            f"for outputs of {[tuple(r.shape) for r in roots]}, got {[tuple(v.shape) for v in vectors]}"
        )
    slices = [[getitem(v, i) for v in vectors] for i in range(count)]
    rows = [grad(roots, inputs, row, retain or row is not slices[-1], **options) for row in slices]
    columns: list[Any] = list(zip(*rows, strict=True))
    return tuple(None if column[0] is None else stack(column) for column in columns)


def _traced_grad(
    roots: Sequence[Tensor],
    grad_outputs: Sequence[Any],
    inputs: Sequence[Any],
    retain: bool | None,
    create_graph: bool,
) -> list[Any]:
    """The gradients in a traced function, None where the outputs do not depend on an input."""
    builder: Any = current_builder()
    for tensor in inputs:
        if getattr(getattr(tensor, "handle", None), "leaf", None) is None:
            raise fail(
                "expected leaves from outside as inputs of flow.autograd.grad in a compiled function, got "
                f"{tensor!r}; flow.grad(fn) gives gradients by what the function computes or is called with"
            )
    grads = builder.gradients(roots, grad_outputs, create_graph)
    by_leaf = [[g for leaf, g in grads if leaf is x.handle.leaf] for x in inputs]
    return [functools.reduce(lambda a, b: a + b, parts) if parts else None for parts in by_leaf]


def _eager_grad(
    roots: Sequence[Tensor],
    grad_outputs: Sequence[Any],
    inputs: Sequence[Any],
    retain: bool | None,
    create_graph: bool,
) -> list[Any]:
    """The gradients in eager mode, None where the outputs do not depend on an input."""
    wanted = [BUILDER.read(x) for x in inputs]
    retain = create_graph if retain is None else retain
    seeds = BUILDER.seeds(roots, grad_outputs)
    read: list[list[Variable]] = []
    sources: set[int] = set()

    def wrt(nodes: Sequence[Node]) -> list[Variable]:
        read.extend(uses_of(v, nodes, [s for s, _ in seeds]) for v in wanted)
        sources.update(id(v) for node in nodes for v in node.sources())
        return [v for uses in read for v in uses]

    parts = iter(gradients(BUILDER, seeds, wrt, retain_graph=retain, create_graph=create_graph))
    grads = [_total([next(parts)[1] for _ in uses], create_graph) for uses in read]
    for i, uses in enumerate(read):
        if grads[i] is None and any(id(v) in sources for v in uses):
            grads[i] = zeros_of(wanted[i]).variable
    return [None if g is None else EagerTensor(g) for g in grads]


def _total(parts: Sequence[Variable | None], recorded: bool) -> Variable | None:
    """The sum of the gradients that are not None."""
    known: list[Any] = [p for p in parts if p is not None]
    with set_grad_enabled(recorded):
        return functools.reduce(lambda a, b: BUILDER.binary("add", a, b), known) if known else None


def _checked(roots: Sequence[Tensor], grad_tensors: Any) -> list[Any]:
    """The gradient that `backward` starts from for each root, None for the default."""
    if grad_tensors is None:
        return [None] * len(roots)
    given = [grad_tensors] if isinstance(grad_tensors, Tensor) or is_array(grad_tensors) else list(grad_tensors)
    pairs = zip(roots, given, strict=True)
    return [None if grad is None else _checked_grad(root, as_tensor(grad)) for root, grad in pairs]


def _checked_grad(root: Tensor, grad: Tensor) -> Tensor:
    """A gradient in the element type of its root.

    Raises:
        RuntimeError: the gradient has another shape, or complex numbers for a result of real numbers.
    """
    exact = root.dtype.is_inexact and not grad.dtype.is_inexact
    fitting = cast(grad, root.dtype) if exact or accepts_gradient(root.dtype, grad.dtype) else grad
    if not fitting.desc.compatible(root.desc):
        raise refuse(f"expected a gradient of type {root.desc}, got {grad.desc}")
    return fitting
