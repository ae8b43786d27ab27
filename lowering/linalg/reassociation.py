"""Reshapes by reassociation: `tensor.collapse_shape` and `tensor.expand_shape` of groups of dimensions.

A reshape is split into groups of source and target dimensions with equal products. Each group is collapsed to one
dimension, which is expanded. With dynamic extents, equal dimensions at both ends are groups of their own, and all
dimensions between are one group whose products are compared at run time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from oneflow.dialect._mlir import ir
from oneflow.dialect.tensor_desc import Dim, count
from oneflow.lowering.linalg.emit import DYNAMIC, Emitter, Value, dense

#: A dimension's extent: known, or a value of type `index`.
Extent: TypeAlias = int | Value
#: Source and target dimensions of equal products.
Group = tuple[list[int], list[int]]


def reassociation_groups(source: Sequence[Extent], target: Sequence[Extent]) -> list[Group]:
    """The groups of two shapes with elements and of rank at least 1."""
    static = [[x for x in shape if isinstance(x, int)] for shape in (source, target)]
    if [len(w) for w in static] == [len(source), len(target)] and math.prod(static[0]) == math.prod(static[1]):
        return static_groups(*static)
    return dynamic_groups(source, target)


def static_groups(source: Sequence[int], target: Sequence[int]) -> list[Group]:
    """The finest groups of two shapes with equal products, none of them zero; dimensions of 1 join a neighbour."""
    groups: list[Group] = []
    i = j = 0
    while i < len(source) and j < len(target):
        group: Group = ([i], [j])
        left, right = source[i], target[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * source[i], _append(group[0], i)
            else:
                right, j = right * target[j], _append(group[1], j)
        groups.append(group)
    return _with_rest(groups, range(i, len(source)), range(j, len(target)))


def _append(dims: list[int], dim: int) -> int:
    dims.append(dim)
    return dim + 1


def _with_rest(groups: list[Group], source: range, target: range) -> list[Group]:
    groups[-1][0].extend(source)
    groups[-1][1].extend(target)
    return groups


def dynamic_groups(source: Sequence[Extent], target: Sequence[Extent]) -> list[Group]:
    """Groups for dynamic extents: equal dimensions at both ends, and one group of all dimensions between.

    Where the products of the middle are known to differ, all dimensions are one group.
    """
    front, shorter = 0, min(len(source), len(target))
    while front < shorter and source[front] == target[front]:
        front += 1
    back = 0
    while back < shorter - front and source[-1 - back] == target[-1 - back]:
        back += 1
    between = (len(source) - front - back, len(target) - front - back)
    if 0 in between and between != (0, 0):
        front, back = (front - 1, back) if front else (front, back - 1)
    groups: list[Group] = [([i], [i]) for i in range(front)]
    middle: Group = ([*range(front, len(source) - back)], [*range(front, len(target) - back)])
    if _differ([source[i] for i in middle[0]], [target[j] for j in middle[1]]):
        return [([*range(len(source))], [*range(len(target))])]
    if middle != ([], []):
        groups.append(middle)
    return groups + [([len(source) - k], [len(target) - k]) for k in range(back, 0, -1)]


def _differ(source: Sequence[Extent], target: Sequence[Extent]) -> bool:
    """Whether products are known to differ: such a reshape is right for empty tensors only."""
    first, second = ([x for x in shape if isinstance(x, int)] for shape in (source, target))
    is_static = len(first) == len(source) and len(second) == len(target)
    return is_static and math.prod(first) != math.prod(second)


def reassociate(
    e: Emitter, value: Value, groups: Sequence[Group], target: Sequence[Dim], dynamic: Sequence[Value]
) -> Value:
    """`value` with each group of its dimensions replaced by the group of `target`.

    `dynamic` are the extents of the dynamic dimensions of `target`.
    """
    element = value.type.element_type
    source = [None if d == DYNAMIC else d for d in value.type.shape]
    collapsed = [count([source[i] for i in group[0]]) for group in groups]
    if not all(len(group[0]) == 1 for group in groups):
        attributes = {"reassociation": _reassociation(e, [g[0] for g in groups])}
        value = e.op("tensor.collapse_shape", _tensor(collapsed, element), [value], attributes)
    expanded = [count([target[j] for j in group[1]]) for group in groups]
    value = e.cast(value, _tensor(expanded, element))
    if all(len(group[1]) == 1 for group in groups):
        return value
    attributes = {"reassociation": _reassociation(e, [g[1] for g in groups]), "static_output_shape": dense(target)}
    return e.op("tensor.expand_shape", _tensor(target, element), [value, *dynamic], attributes)


def to_scalar(e: Emitter, value: Value) -> Value:
    """The one element of `value` as a tensor of rank 0; its dimensions are 1, or are known to be."""
    element = value.type.element_type
    value = e.cast(value, _tensor([1] * value.type.rank, element))
    return e.op("tensor.collapse_shape", _tensor([], element), [value], {"reassociation": e.attribute("[]")})


def from_scalar(e: Emitter, value: Value, target: Sequence[Dim]) -> Value:
    """A tensor of rank 0 under a shape of ones."""
    ones = [1] * len(target)
    attributes = {"reassociation": e.attribute("[]"), "static_output_shape": dense(ones)}
    element = value.type.element_type
    expanded = e.op("tensor.expand_shape", _tensor(ones, element), [value], attributes)
    return e.cast(expanded, _tensor(target, element))


def _tensor(shape: Sequence[Dim], element: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get([DYNAMIC if d is None else d for d in shape], element)


def _reassociation(e: Emitter, dims: Sequence[Sequence[int]]) -> ir.Attribute:
    return e.attribute(str(list(dims)))
