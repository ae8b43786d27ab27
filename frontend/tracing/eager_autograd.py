"""Eager mode of `flow.grad` and related functions: separate inputs, gradients, recomputation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from oneflow.dialect.builder import Value
from oneflow.dialect.integer_paths import refuse_integers
from oneflow.dialect.record import Call, Operator, no_reference, no_sbp
from oneflow.dialect.signature import parse_signature
from oneflow.frontend.core.generator import get_rng_state, set_rng_state
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.settings import SCOPE, within
from oneflow.frontend.eager.builder import stale_value_error
from oneflow.frontend.eager.function import OPERANDS
from oneflow.frontend.eager.tape import (
    MODE,
    Leaf,
    Node,
    Variable,
    apply_hooks,
    enable_grad,
    gradients,
    leaves_of,
    no_grad,
    reachable_nodes,
    record,
)
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor

_CHECKPOINT = parse_signature(f"checkpoint({OPERANDS}*) -> y*")


class GradientInput(Leaf):
    """The leaf of an input of `flow.grad`, at a nesting level of such calls; its gradient is not read."""

    __slots__ = ("level",)

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level


def nesting_level() -> int:
    """The nesting level of inputs of a call of `flow.grad` here."""
    return MODE.depth + 1


@contextmanager
def nested_gradient() -> Iterator[None]:
    """A context in which operators are recorded, and the nesting level is one higher."""
    MODE.depth += 1
    try:
        with enable_grad():
            yield
    finally:
        MODE.depth -= 1


def as_gradient_input(tensor: EagerTensor) -> EagerTensor:
    """The same values as an input to differentiate by; gradients flow on to the operands of `tensor`."""
    outside = tensor.variable
    inside = outside.alias()
    if outside.requires_grad:
        with enable_grad():
            record(BUILDER.registry["depend"], {"in": outside, "depend_tensor": outside}, {}, [inside])
    else:
        inside.leaf = GradientInput(nesting_level())
    return EagerTensor(inside)


def pull_back(seeds: Sequence[tuple[Any, Any]], wrt: Sequence[EagerTensor]) -> list[Any]:
    """The gradients by tensors made by `own`, None where no result depends on one; the gradients can be
    differentiated.
    """
    pairs = [(BUILDER.read(t), BUILDER.read(c)) for t, c in seeds if t.requires_grad]
    wanted = [BUILDER.read(t) for t in wrt]
    found_gradients = [
        g for _, g in gradients(BUILDER, pairs, lambda _: wanted, retain_graph=True, create_graph=True)
    ]
    if None in found_gradients:
        calls = [node.call(BUILDER) for node in reachable_nodes([v for v, _ in pairs])]
        refuse_integers(calls, pairs, wanted, found_gradients)
    return [None if g is None else EagerTensor(g) for g in found_gradients]


def released(value: Any, depth: int) -> Any:
    """`value`, detached where only inputs of that nesting level or a higher one need its gradient."""
    leaves, tree = flatten(value)
    return tree.unflatten([_released(v, depth) if isinstance(v, EagerTensor) else v for v in leaves])


def _released(tensor: EagerTensor, depth: int) -> EagerTensor:
    root = tensor.variable
    leaves = [v.leaf for v in leaves_of(reachable_nodes([root]), [root])]
    private = all(isinstance(leaf, GradientInput) and leaf.level >= depth for leaf in leaves)
    return EagerTensor(root.alias()) if private else tensor


def recomputed(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The value of `fn` for arguments, computed again for the gradient.

    Tensors that `fn` reads besides its arguments are found on the tape. Random numbers are the same in both runs;
    the tensors that `fn` reads must not change.
    """
    state, scope = get_rng_state(), SCOPE.get()
    argument_leaves, call = flatten((args, kwargs))
    # The current variables: a view gets another variable when its root is updated.
    argument_leaves = [v.variable if isinstance(v, EagerTensor) else v for v in argument_leaves]
    value = fn(*args, **kwargs)
    leaves, tree = flatten(value)
    positions = [i for i, v in enumerate(leaves) if isinstance(v, EagerTensor) and v.requires_grad]
    if not positions:
        return value
    roots = [leaves[i].variable for i in positions]
    argument_variables = [v for v in argument_leaves if isinstance(v, Variable)]
    inputs = {id(v): v for v in argument_variables}
    nodes = _between(roots, inputs)
    inputs |= {id(v): v for v in leaves_of(nodes, roots)}
    fresh = [r.alias() for r in roots]
    read = _read(argument_variables, nodes)

    def recompute(seeds: Sequence[Value | None]) -> list[Value | None]:
        differentiable = MODE.recording
        _check_versions(read)
        args, kwargs = call.unflatten([EagerTensor(v) if isinstance(v, Variable) else v for v in argument_leaves])
        with restored(state), within(scope), enable_grad():
            values = flatten(fn(*args, **kwargs))[0]
        recomputed_results = [values[i].variable for i in positions]
        pairs = [(v, s) for v, s in zip(recomputed_results, seeds, strict=True) if s is not None and v.requires_grad]
        grads = gradients(
            BUILDER, pairs, lambda _: list(inputs.values()), retain_graph=True, create_graph=differentiable,
            finalize=lambda value, grad: grad if id(value) in inputs else apply_hooks(value, grad),
        )  # fmt: skip
        return [g for _, g in grads]

    record(_operator(recompute), {OPERANDS: tuple(inputs.values())}, {}, fresh)
    for i, variable in zip(positions, fresh, strict=True):
        leaves[i] = EagerTensor(variable)
    return tree.unflatten(leaves)


def _between(roots: Sequence[Variable], inputs: dict[int, Variable]) -> list[Node]:
    """The nodes that `roots` depend on and the inputs do not."""
    input_nodes = {node.sequence_number for node in reachable_nodes(list(inputs.values()))}
    return [node for node in reachable_nodes(roots) if node.sequence_number not in input_nodes]


def _read(arguments: Sequence[Variable], nodes: Sequence[Node]) -> list[Variable]:
    """The variables that `nodes` read, and the arguments, without variables that the nodes themselves updated."""
    own_nodes = {node.sequence_number for node in nodes}
    sources = [
        v for node in nodes for v in node.sources() if v.node is None or v.node.sequence_number not in own_nodes
    ]
    variables = {id(v): v for v in (*arguments, *sources)}
    for variable in variables.values():
        variable.shared_memory()
    return [v for v in variables.values() if not v.is_stale]


def _check_versions(read: Sequence[Variable]) -> None:
    """Checks that no variable was updated after it was read.

    Raises:
        RuntimeError: one was updated in place.
    """
    stale = next((v for v in read if v.is_stale), None)
    if stale is not None:
        raise stale_value_error(_CHECKPOINT.name, stale)


def _operator(recompute: Callable[..., list[Value | None]]) -> Operator:
    def grad(_: Any, op: Call, *cotangents: Value | None) -> dict[str, Any]:
        return {OPERANDS: tuple(recompute(cotangents))}

    reasons = no_sbp("is Python"), no_reference("is Python")
    return Operator(_CHECKPOINT, "A part that is computed again.", lambda op: (), reasons[0], grad, reasons[1])


class restored(no_grad):  # noqa: N801 (a context, like its base class)
    """A context in which random numbers start from a given state; afterwards the previous sequence continues."""

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
