"""`flow.autograd.backward` and `flow.autograd.grad`: gradients of tensors by those that they were computed from.

Imports `eager`, `function`, `tape`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from oneflow.frontend.arrays import is_array
from oneflow.frontend.dispatch import current_builder
from oneflow.frontend.eager import BUILDER, EagerTensor
from oneflow.frontend.function import zeros_of
from oneflow.frontend.tape import Node, Variable, gradients, set_grad_enabled, uses_of
from oneflow.frontend.tensor import Tensor


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    """Adds to the `grad` of every leaf behind `tensors` the gradient of their sum, weighted by `grad_tensors`.

    Without a weight a tensor has to have one element. What was recorded is freed, unless `retain_graph`; with
    `create_graph` (which retains it) the gradients can be differentiated again.

    Raises:
        RuntimeError: a tensor has no gradient, was freed, or a value that is needed was updated in place.
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    retain = create_graph if retain_graph is None else retain_graph
    current_builder().backward(roots, _weights(roots, grad_tensors), retain, create_graph)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs`, weighted by `grad_outputs`, by `inputs`; no `grad` is touched.

    They are zeros where the outputs read an input and nothing flows back to it, as in second derivatives of `relu`.

    Raises:
        RuntimeError: as `backward`; or an input is not behind the outputs, unless `allow_unused` (it gives None) or
            `materialize_grads` (zeros).
    """
    roots, sources = ([x] if isinstance(x, Tensor) else list(x) for x in (outputs, inputs))
    wanted = [BUILDER.read(x) for x in sources]
    retain = create_graph if retain_graph is None else retain_graph
    seeds = BUILDER.seeds(roots, _weights(roots, grad_outputs))
    read: list[list[Variable]] = []
    sources: set[int] = set()

    def by(nodes: Sequence[Node]) -> list[Variable]:
        read.extend(uses_of(v, nodes, [s for s, _ in seeds]) for v in wanted)
        sources.update(id(v) for node in nodes for v in node.sources())
        return [v for uses in read for v in uses]

    parts = iter(gradients(BUILDER, seeds, by, retain_graph=retain, create_graph=create_graph))
    found = [_total([next(parts)[1] for _ in uses], create_graph) for uses in read]
    for i, uses in enumerate(read):
        if found[i] is None and (materialize_grads or any(id(v) in sources for v in uses)):
            found[i] = zeros_of(wanted[i]).variable
    unused = [i for i, g in enumerate(found) if g is None]
    if unused and not allow_unused:
        raise RuntimeError(
            f"the outputs do not depend on input {unused[0]}; pass allow_unused=True to get None for it"
        )
    return tuple(None if g is None else EagerTensor(g) for g in found)


def _total(parts: Sequence[Variable | None], recorded: bool) -> Variable | None:
    """The sum of the gradients that there are."""
    known: list[Any] = [p for p in parts if p is not None]
    with set_grad_enabled(recorded):
        return functools.reduce(lambda a, b: BUILDER.binary("add", a, b), known) if known else None


def _weights(roots: Sequence[Tensor], weights: Any) -> list[Any]:
    """One weight per root, None where there is none."""
    if weights is None:
        return [None] * len(roots)
    return [weights] if isinstance(weights, Tensor) or is_array(weights) else list(weights)
