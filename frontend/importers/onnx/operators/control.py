"""Control flow: branches are chosen and loops are unrolled while a model is imported or runs in eager mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError, ValueNeeded
from oneflow.frontend.importers.onnx.graph import Graph
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.importers.onnx.types import SmallType, spelled, type_of_number

#: The most iterations of a loop.
MOST_ITERATIONS = 10_000


@builder("If", raw=True)
def _if(condition: Any, *, then_branch: Graph, else_branch: Graph, node: Any) -> Any:
    try:
        chosen = then_branch if bool(node.known(0, condition).reshape(-1)[0]) else else_branch
    except ValueNeeded as needed:
        if needed.inputs:
            raise
        return _selected(condition, (then_branch, else_branch), node, needed)
    return tuple(node.call(chosen))


def _selected(condition: Tensor, branches: tuple[Graph, Graph], node: Any, needed: ValueNeeded) -> Any:
    """The results of both branches, selected element by element.

    Raises:
        ValueNeeded: they have several types, so that one branch has to be chosen.
    """
    try:
        then, other = ([node.tensor(v) for v in node.call(branch)] for branch in branches)
    except OnnxError:
        raise needed from None
    if any(a.desc != b.desc or None in a.shape for a, b in zip(then, other, strict=True)):
        raise needed
    return tuple(F.where(F.reshape(condition, ()), a, b) for a, b in zip(then, other, strict=True))


@builder("Loop", raw=True)
def _loop(count: Any = None, condition: Any = None, *state: Any, body: Graph, node: Any) -> Any:
    trips = None if count is None else int(node.known(0, count).reshape(-1)[0])
    goes_on = condition is None or bool(node.known(1, condition).reshape(-1)[0])
    carried, collected, number = list(state), [], 0
    while goes_on and (trips is None or number < trips):
        if number == MOST_ITERATIONS:
            raise OnnxError(f"expected a loop of at most {MOST_ITERATIONS} iterations")
        further, *results = node.call(body, np.array(number, np.int64), np.array(True), *carried)
        carried, scanned = results[: len(carried)], results[len(carried) :]
        collected.append(scanned)
        number += 1
        if trips is None or condition is not None or not _is_true(further):
            what = f"{body.outputs[0].name!r}, the condition of a loop"
            goes_on = bool(node.array_of(further, what).reshape(-1)[0])
    scans = _stacked(node, body, len(carried), collected)
    return (*carried, *scans)


def _is_true(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.bool_ and bool(value.all())


def _stacked(node: Any, body: Graph, carried: int, collected: list[list[Any]]) -> list[Any]:
    """The scanned results of all iterations, one after another."""
    if collected:
        return [F.stack([node.tensor(v) for v in column]) for column in zip(*collected, strict=True)]
    return [_nothing(output) for output in body.outputs[1 + carried :]]


def _nothing(output: Any) -> Tensor:
    """What a loop without iterations collects."""
    dtype = type_of_number(output.type)
    if dtype is None or isinstance(dtype, SmallType):
        raise OnnxError(
            f"expected a type of tensors for {output.name!r}, which a loop without iterations collects,"
            f" got {spelled(output.type)}"
        )
    sizes = [d if isinstance(d, int) else 0 for d in output.shape or ()]
    return as_tensor(np.zeros((0, *sizes), dtype.numpy))


@builder("Scan", since=9, raw=True)
def _scan(
    *operands: Any,
    body: Graph,
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
    if length is None:
        raise OnnxError(f"expected a static size along axis {axes[0]} to scan, got {scanned[0].desc}")
    backwards = scan_input_directions or [0] * num_scan_inputs
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


@builder("Scan", raw=True)
def _scan_8(
    lengths: Any, *operands: Any, body: Graph, num_scan_inputs: int, directions: list[int] | None = None, node: Any
) -> Any:
    """The first version: operands have a batch in front, whose items are scanned one by one."""
    if lengths is not None:
        raise OnnxError("lengths of sequences are not supported in the first version of Scan")
    tensors = [node.tensor(x) for x in operands]
    options = {"body": body, "num_scan_inputs": num_scan_inputs, "scan_input_directions": directions, "node": node}
    items = [_scan(*(F.select(x, 0, i) for x in tensors), **options) for i in range(int(tensors[0].shape[0] or 0))]
    return tuple(F.stack(list(column)) for column in zip(*items, strict=True))
