"""Control flow. A branch is chosen while a model is imported where its condition is known, and a loop is unrolled
where its length is. In a trace other branches and loops are operators, as are loops of many steps over tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import OneFlowError
from oneflow.frontend.core.mode import tracing
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError, ValueNeeded
from oneflow.frontend.importers.onnx.graph import OnnxGraph
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.importers.onnx.types import SmallType, type_name, type_of_number
from oneflow.frontend.tracing import control_flow

#: The most iterations of a loop that is unrolled, and the fewest and the most of a loop over tensors that is a scan.
MAX_UNROLLED_ITERATIONS, MIN_SCANNED_ITERATIONS, MAX_SCANNED_ITERATIONS = 10_000, 8, 2**20


@builder("If", raw=True)
def _if(condition: Any, *, then_branch: OnnxGraph, else_branch: OnnxGraph, node: Any) -> Any:
    try:
        chosen = then_branch if bool(node.known(0, condition).reshape(-1)[0]) else else_branch
    except ValueNeeded as needed:
        return _as_operator(lambda: _branched(condition, (then_branch, else_branch), node), needed)
    return tuple(node.call(chosen))


def _as_operator(build: Callable[[], Any], needed: ValueNeeded) -> Any:
    """The results of `build`.

    Raises:
        ValueNeeded: graphs have results of several types or that are no tensors, so that the value of `needed` is
            required.
    """
    try:
        results: tuple[Tensor, ...] = build()
    except OneFlowError:
        raise needed from None
    if not all(result.desc.is_static for result in results):
        raise needed
    return results


def _tensors(node: Any, graph: OnnxGraph, *operands: Any) -> list[Tensor]:
    """The results of a graph inside a node as tensors."""
    return [node.tensor(v) for v in node.call(graph, *operands)]


def _branched(condition: Tensor, branches: tuple[OnnxGraph, OnnxGraph], node: Any) -> Any:
    then, other = branches
    return tuple(control_flow.cond(condition, lambda: _tensors(node, then), lambda: _tensors(node, other)))


@builder("Loop", raw=True)
def _loop(count: Any = None, condition: Any = None, *state: Any, body: OnnxGraph, node: Any) -> Any:
    try:
        trips = None if count is None else int(node.known(0, count).reshape(-1)[0])
        goes_on = condition is None or bool(node.known(1, condition).reshape(-1)[0])
        if goes_on and _stays_true(body):
            condition = None
        if goes_on and trips is not None and condition is None:
            found = _counted_loop(trips, count, state, body, node)
            if found is not None:
                return found
        return _unrolled(trips, goes_on, condition is not None, state, body, node)
    except ValueNeeded as needed:
        return _as_operator(lambda: _looped(count, condition, state, body, node), needed)


def _stays_true(body: OnnxGraph) -> bool:
    """Whether each iteration returns the condition that it is given, or a constant that is true."""
    producers = {name: n for n in body.nodes for name in n.outputs}
    name = body.outputs[0].name
    while name in producers and producers[name].op == "Identity":
        name = producers[name].inputs[0]
    constant = producers[name].attributes.get("value") if name in producers else body.constants.get(name)
    return name == body.inputs[1].name or _is_true(constant)


def _counted_loop(trips: int, count: Any, state: Sequence[Any], body: OnnxGraph, node: Any) -> Any:
    """A loop that no condition ends as an operator; None where it is to be unrolled.

    Raises:
        OnnxError: the loop is too long for that and no operator.
    """
    if MIN_SCANNED_ITERATIONS <= trips <= MAX_SCANNED_ITERATIONS:
        found = _scanned_loop(trips, state, body, node)
        if found is not None:
            return found
    if trips <= MAX_UNROLLED_ITERATIONS:
        return None
    try:
        return _looped(count, None, state, body, node)
    except (OneFlowError, ValueNeeded) as error:
        raise OnnxError(
            f"expected a loop of at most {MAX_UNROLLED_ITERATIONS} iterations, or one over tensors of static types"
            f" that collects no results, got {trips} iterations ({error})"
        ) from None


def _looped(count: Any, condition: Any, state: Sequence[Any], body: OnnxGraph, node: Any) -> Any:
    """A loop whose length depends on values of the run; the size of the collected results is known after the run
    only.
    """
    if len(body.outputs) > 1 + len(state):
        raise OnnxError("a loop of unknown length that collects results is no operator")
    most = None if count is None else F.reshape(node.tensor(count), ())
    first = as_tensor(np.array(True)) if condition is None else F.reshape(node.tensor(condition), ())
    carried = (as_tensor(np.array(0, np.int64)), first, *map(node.tensor, state))

    def goes_on(states: Sequence[Tensor]) -> Tensor:
        return states[1] if most is None else F.logical_and(states[1], F.lt(states[0], most))

    def step(now: Sequence[Tensor]) -> tuple[Tensor, ...]:
        further, *after = _tensors(node, body, *now)
        return F.add(now[0], 1), F.reshape(further, ()), *after

    return tuple(control_flow.while_loop(goes_on, step, carried))[2:]


def _scanned_loop(trips: int, state: Sequence[Any], body: OnnxGraph, node: Any) -> Any:
    """A loop over tensors as one operator; None where iterations differ in types, or the host needs values of the
    loop.
    """
    if not tracing() or not all(isinstance(x, Tensor) for x in state):
        return None

    def step(now: Sequence[Tensor], number: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        further, *after = node.call(body, number, np.array(True), *now)
        if not _is_true(further):
            raise OnnxError("the iterations have a condition")
        tensors = list(map(node.tensor, after))
        return tensors[: len(state)], tensors[len(state) :]

    return _scanned(step, state, F.arange(trips, dtype=dtypes.int64))


def _scanned(step: Any, state: Sequence[Any], xs: Any) -> Any:
    """The results of a scan; None where steps differ in types."""
    try:
        last, ys = control_flow.scan(step, list(state), xs)
    except (OneFlowError, ValueNeeded):
        return None
    return *last, *ys


def _unrolled(
    trips: int | None, goes_on: bool, has_condition: bool, state: Sequence[Any], body: OnnxGraph, node: Any
) -> Any:
    carried, collected, number = list(state), [], 0
    while goes_on and (trips is None or number < trips):
        if number == MAX_UNROLLED_ITERATIONS:
            raise OnnxError(f"expected a loop of at most {MAX_UNROLLED_ITERATIONS} iterations")
        condition, *results = node.call(body, np.array(number, np.int64), np.array(True), *carried)
        carried, scanned = results[: len(carried)], results[len(carried) :]
        collected.append(scanned)
        number += 1
        if trips is None or has_condition or not _is_true(condition):
            what = f"{body.outputs[0].name!r}, the condition of a loop"
            goes_on = bool(node.array_of(condition, what).reshape(-1)[0])
    scans = _stacked(node, body, len(carried), collected)
    return (*carried, *scans)


def _is_true(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.bool_ and bool(value.all())


def _stacked(node: Any, body: OnnxGraph, carried: int, collected: list[list[Any]]) -> list[Any]:
    """The scanned results of all iterations, one after another."""
    if collected:
        return [F.stack([node.tensor(v) for v in column]) for column in zip(*collected, strict=True)]
    return [_nothing(output) for output in body.outputs[1 + carried :]]


def _nothing(output: Any) -> Tensor:
    """The collected results of a loop without iterations."""
    dtype = type_of_number(output.type)
    if dtype is None or isinstance(dtype, SmallType):
        raise OnnxError(
            f"expected a type of tensors for {output.name!r}, which a loop without iterations collects,"
            f" got {type_name(output.type)}"
        )
    sizes = [d if isinstance(d, int) else 0 for d in output.shape or ()]
    return as_tensor(np.zeros((0, *sizes), dtype.numpy))


@builder("Scan", since=9, raw=True)
def _scan(
    *operands: Any,
    body: OnnxGraph,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
    node: Any,
) -> Any:
    first = len(operands) - num_scan_inputs
    carried, scanned = list(operands[:first]), [node.tensor(x) for x in operands[first:]]
    axes = scan_input_axes or [0] * num_scan_inputs
    length = scanned[0].shape[axes[0]]
    backwards = scan_input_directions or [0] * num_scan_inputs
    collected_ways = scan_output_axes, scan_output_directions
    if tracing() and (length is None or length >= MIN_SCANNED_ITERATIONS):
        found = _scan_as_operator(carried, scanned, axes, backwards, collected_ways, body, node)
        if found is not None:
            return found
    if length is None:
        raise OnnxError(f"expected a static size along axis {axes[0]} to scan, got {scanned[0].desc}")
    collected = []
    for step in range(length):
        items = zip(scanned, axes, backwards, strict=True)
        slices = [F.select(x, a, length - 1 - step if back else step) for x, a, back in items]
        results = node.call(body, *carried, *slices)
        carried = results[:first]
        collected.append(results[first:])
    columns = [list(map(node.tensor, c)) for c in zip(*collected, strict=True)]
    out_axes = scan_output_axes or [0] * len(columns)
    reversed_ = scan_output_directions or [0] * len(columns)
    stacks = [F.stack(c[::-1] if r else c, a) for c, a, r in zip(columns, out_axes, reversed_, strict=True)]
    return (*carried, *stacks)


def _scan_as_operator(
    carried: Sequence[Any], sequences: Sequence[Tensor], axes: Sequence[int], backwards: Sequence[int],
    outputs: tuple[Sequence[int] | None, Sequence[int] | None], body: OnnxGraph, node: Any,
) -> Any:  # fmt: skip
    """A scan of tensors as one operator; None where steps differ in types, or the host needs values of the scan."""
    if not all(isinstance(x, Tensor) for x in carried):
        return None
    count = len(carried)

    def step(now: Sequence[Tensor], elements: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        results = _tensors(node, body, *now, *elements)
        return results[:count], results[count:]

    moved = (F.movedim(x, a, 0) for x, a in zip(sequences, axes, strict=True))
    xs = [F.flip(x, [0]) if back else x for x, back in zip(moved, backwards, strict=True)]
    found = _scanned(step, carried, xs)
    if found is None:
        return None
    ys = found[count:]
    out_axes, reversed_ = (option or [0] * len(ys) for option in outputs)
    turned = (F.flip(y, [0]) if back else y for y, back in zip(ys, reversed_, strict=True))
    return *found[:count], *(F.movedim(y, 0, a) for y, a in zip(turned, out_axes, strict=True))


@builder("Scan", raw=True)
def _scan_8(
    lengths: Any,
    *operands: Any,
    body: OnnxGraph,
    num_scan_inputs: int,
    directions: list[int] | None = None,
    node: Any,
) -> Any:
    """The first version: operands have a batch in front, whose items are scanned one by one."""
    if lengths is not None:
        raise OnnxError("lengths of sequences are not supported in the first version of Scan")
    tensors = [node.tensor(x) for x in operands]
    options = {"body": body, "num_scan_inputs": num_scan_inputs, "scan_input_directions": directions, "node": node}
    items = [_scan(*(F.select(x, 0, i) for x in tensors), **options) for i in range(int(tensors[0].shape[0] or 0))]
    return tuple(F.stack(list(column)) for column in zip(*items, strict=True))
