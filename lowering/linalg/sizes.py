"""Extents of dimensions: ints where static, else SSA values of type `index` that are computed outside of loops.

A block computes each extent once. The result of a lowered operator has the extents of its stage, so that equal
dimensions often have one value and need no run-time check.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._mlir import ir
from oneflow.dialect.scalar import Expr
from oneflow.dialect.tensor_desc import Shape
from oneflow.lowering.linalg.emit import DYNAMIC, Emitter, Value
from oneflow.lowering.linalg.scalars import Scalars

#: The extent of a dimension: static, or a value of type `index`.
Extent: TypeAlias = int | Value

_FOLDED: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0, "rem": lambda a, b: int(math.fmod(a, b)) if b else 0,
    "max": max, "min": min, "neg": lambda a: -a, "select": lambda c, a, b: a if c else b, "cast": lambda a: a,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
#: Types of nodes that are folded: arithmetic of other types differs from the arithmetic of Python's integers.
_FOLDED_TYPES = (dtypes.index, dtypes.int64, dtypes.bool_)


class Shapes:
    """The extents of the tensors of a module."""

    def __init__(self, emitter: Emitter, scalars: Scalars) -> None:
        self.e, self.scalars = emitter, scalars
        self._known: dict[Value, Sequence[Extent]] = {}
        self._memo: dict[Hashable, Value] = {}

    def remember(self, value: Value, extents: Sequence[Extent]) -> None:
        """Records the extents of a new value."""
        self._known[value] = extents

    def extent(self, value: Value, dim: int) -> Extent:
        """The extent of a tensor along `dim`: from its type, a record, the operand of a cast, or `tensor.dim`."""
        size = value.type.shape[dim]
        if size != DYNAMIC:
            return int(size)
        if value in self._known:
            return self._known[value][dim]
        source = cast_source(value)
        if source is not None:
            return self.extent(source, dim)
        operands = [value, self.value(dim)]
        return self._memoized(("dim", value, dim), lambda: self.e.op("tensor.dim", self.e.index_type, operands))

    def minimum(self, a: Value, b: Value) -> Value:
        """The smaller of two extents."""
        return self._memoized(("smaller", a, b), lambda: self.e.op("arith.minsi", self.e.index_type, [a, b]))

    def value(self, extent: Extent) -> Value:
        """An extent as a value of type `index`."""
        if isinstance(extent, int):
            return self._memoized(("index", extent), lambda: self.e.index(extent))
        return extent

    def node(self, node: Expr, args: Sequence[Extent]) -> Extent:
        """The extent that a node of an expression computes from the extents `args`."""
        if node.kind == "const" and not node.dtype.is_float:
            return int(node.value)
        if node.kind in _FOLDED and all(isinstance(a, int) for a in args) and _is_foldable(node):
            return int(_FOLDED[node.kind](*args))
        values = [self._typed(a, arg.dtype) for a, arg in zip(args, node.args, strict=True)]
        literal = [repr(n.value) for n in (node, *node.args[-1:]) if n.kind == "const"]
        key = (node.kind, node.dtype, *literal, *values)
        return self._memoized(key, lambda: self.scalars.emit(node, values))

    def _typed(self, extent: Extent, dtype: dtypes.DType) -> Value:
        if dtype is dtypes.index or not isinstance(extent, int):
            return self.value(extent)
        return self.e.constant(extent, dtype)

    def _memoized(self, key: Hashable, make: Callable[[], Value]) -> Value:
        block = ir.InsertionPoint.current.block
        if (block, key) not in self._memo:
            self._memo[block, key] = make()
        return self._memo[block, key]


def _is_foldable(node: Expr) -> bool:
    return all(n.dtype in _FOLDED_TYPES for n in (node, *node.args))


def cast_source(value: Value) -> Value | None:
    """The ranked tensor that `value` is a `tensor.cast` of, through several casts; None where there is none."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "tensor.cast":
        return None
    source: Value = owner.operands[0]
    return source if isinstance(source.type, ir.RankedTensorType) else cast_source(source)


class Sizes:
    """Sizes of the stages of one operator call on `operands`; `check` writes a check of a lower bound."""

    def __init__(
        self, shapes: Shapes, operands: Sequence[Value], check: Callable[[c.Size, c.Size, str], None]
    ) -> None:
        self.shapes, self.operands, self.check = shapes, operands, check
        self._extents: dict[int, tuple[Expr, Extent]] = {}

    def extent(self, size: c.Size) -> Extent:
        """The extent of a size of the compute algebra at this call."""
        if isinstance(size, int):
            return size
        for node in s.walk([size]):
            if id(node) not in self._extents:
                self._extents[id(node)] = (node, self._node(node))
        return self._extents[id(size)][1]

    def extents(self, sizes: Sequence[c.Size]) -> list[Extent]:
        """The extents of several sizes."""
        return [self.extent(size) for size in sizes]

    def values(self, sizes: Sequence[c.Size]) -> list[Value]:
        """Several sizes as values of type `index`."""
        return [self.shapes.value(self.extent(size)) for size in sizes]

    def identity(self, stage: c.Stage) -> object:
        """A key that is equal for stages that are one tensor: a call may have a tensor as several operands."""
        return self.operands[stage.index] if isinstance(stage, c.Input) else stage

    def _node(self, node: Expr) -> Extent:
        if node.kind == "size":
            operand, dim = node.value
            return self.shapes.extent(self.operands[operand], dim)
        if node.kind == "at_least":
            self.check(node.args[0], node.args[1], node.value)
            return self._extents[id(node.args[0])][1]
        return self.shapes.node(node, [self._extents[id(a)][1] for a in node.args])


def static_shape(sizes: Sequence[c.Size]) -> Shape:
    """Sizes as dimensions of a type: constants are static, other expressions dynamic (None)."""
    return tuple(static_size(size) for size in sizes)


def static_size(size: c.Size) -> int | None:
    """The size where it is constant, else None."""
    if isinstance(size, Expr):
        return int(size.value) if size.kind == "const" else None
    return size
