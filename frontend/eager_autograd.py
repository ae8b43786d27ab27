"""What `flow.grad` and its like need of eager mode: inputs of their own, gradients, recomputation.

Imports `eager`, `function`, `tape`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from oneflow.dialect.builder import Value
from oneflow.dialect.integer_ways import refuse_integers
from oneflow.dialect.record import Call, Operator, no_reference, no_sbp
from oneflow.frontend.eager import BUILDER, EagerTensor
from oneflow.frontend.function import OPERANDS, SIGNATURE
from oneflow.frontend.functional.random import get_rng_state, set_rng_state
from oneflow.frontend.tape import (
    MODE,
    Leaf,
    Variable,
    enable_grad,
    gradients,
    hooked,
    leaves_of,
    no_grad,
    nodes_behind,
    record,
)
from oneflow.frontend.tree import flatten


class Private(Leaf):
    """The leaf of an input of `flow.grad`, so many calls of that deep; nobody reads its gradient."""

    __slots__ = ("level",)

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level


def level() -> int:
    """How deep the inputs of a call of `flow.grad` are."""
    return MODE.depth + 1


@contextmanager
def deeper() -> Iterator[None]:
    """Within it operators are recorded, and inputs are one deeper."""
    MODE.depth += 1
    try:
        with enable_grad():
            yield
    finally:
        MODE.depth -= 1


def own(tensor: EagerTensor) -> EagerTensor:
    """The same values as a tensor that gradients are taken by; they go on to what `tensor` was computed from."""
    outside = tensor.variable
    inside = outside.alias()
    if outside.requires_grad:
        with enable_grad():
            record(BUILDER.registry["depend"], {"in": outside, "depend_tensor": outside}, {}, [inside])
    else:
        inside.leaf = Private(level())
    return EagerTensor(inside)


def pull_back(seeds: Sequence[tuple[Any, Any]], wrt: Sequence[EagerTensor]) -> list[Any]:
    """The gradients by tensors made by `own`, None where nothing depends on one; they can be differentiated."""
    pairs = [(BUILDER.read(t), BUILDER.read(c)) for t, c in seeds if t.requires_grad]
    wanted = [BUILDER.read(t) for t in wrt]
    found = [g for _, g in gradients(BUILDER, pairs, lambda _: wanted, retain_graph=True, create_graph=True)]
    if None in found:
        calls = [node.call(BUILDER) for node in nodes_behind([v for v, _ in pairs])]
        refuse_integers(calls, pairs, wanted, found)
    return [None if g is None else EagerTensor(g) for g in found]


def released(value: Any, depth: int) -> Any:
    """`value`, detached where nothing but inputs of that depth or deeper ones want its gradient."""
    leaves, tree = flatten(value)
    return tree.unflatten([_released(v, depth) if isinstance(v, EagerTensor) else v for v in leaves])


def _released(tensor: EagerTensor, depth: int) -> EagerTensor:
    root = tensor.variable
    leaves = [v.leaf for v in leaves_of(nodes_behind([root]), [root])]
    private = all(isinstance(leaf, Private) and leaf.level >= depth for leaf in leaves)
    return EagerTensor(root.alias()) if private else tensor


def recomputed(fn: Callable[[], Any], given: Sequence[EagerTensor]) -> Any:
    """What `fn` gives, computed again for its gradient; `given` are tensors that it reads, others are found.

    Random numbers are the same both times.
    """
    state = get_rng_state()
    value = fn()
    leaves, tree = flatten(value)
    places = [i for i, v in enumerate(leaves) if isinstance(v, EagerTensor) and v.requires_grad]
    if not places:
        return value
    roots = [leaves[i].variable for i in places]
    inputs = {id(t.variable): t.variable for t in given}
    inputs |= {id(v): v for v in leaves_of(_between(roots, inputs), roots)}
    fresh = [r.alias() for r in roots]

    def again(seeds: Sequence[Value | None]) -> list[Value | None]:
        differentiable = MODE.recording
        with restored(state), enable_grad():
            values = flatten(fn())[0]
        made = [values[i].variable for i in places]
        pairs = [(v, s) for v, s in zip(made, seeds, strict=True) if s is not None and v.requires_grad]
        found = gradients(
            BUILDER, pairs, lambda _: list(inputs.values()), retain_graph=True, create_graph=differentiable,
            seen=lambda value, grad: grad if id(value) in inputs else hooked(value, grad),
        )  # fmt: skip
        return [g for _, g in found]

    record(_operator(again), {OPERANDS: tuple(inputs.values())}, {}, fresh)
    for i, variable in zip(places, fresh, strict=True):
        leaves[i] = EagerTensor(variable)
    return tree.unflatten(leaves)


def _between(roots: Sequence[Variable], inputs: dict[int, Variable]) -> Any:
    """The nodes behind `roots` that are not behind the inputs too."""
    outside = {node.number for node in nodes_behind(list(inputs.values()))}
    return [node for node in nodes_behind(roots) if node.number not in outside]


def _operator(again: Callable[..., list[Value | None]]) -> Operator:
    def grad(_: Any, op: Call, *cotangents: Value | None) -> dict[str, Any]:
        return {OPERANDS: tuple(again(cotangents))}

    reasons = no_sbp("is Python"), no_reference("is Python")
    return Operator(SIGNATURE, "A part that is computed again.", lambda op: (), reasons[0], grad, reasons[1])


class restored(no_grad):  # noqa: N801 (a context like the one it extends)
    """Within it random numbers are those from a state on; afterwards they go on as before."""

    def __init__(self, state: tuple[int, int]) -> None:
        super().__init__()
        self._state = state

    def __enter__(self) -> None:
        super().__enter__()
        self._outside = get_rng_state()
        set_rng_state(self._state)

    def __exit__(self, *error: object) -> None:
        set_rng_state(self._outside)
        super().__exit__(*error)
