"""The compute algebra: an operator's result as tensors defined element by element.

A compute body is a Python function from an operator call to `Stage`s. A stage is a tensor defined by one
of six primitives, whose bodies are scalar expressions over positions and element reads:

    rows(shape, lambda i, j: x[i, perm[j]])              every element on its own          `element_wise`
    fold(shape, extents, inits, lambda idx, r, acc: ..)  a reduction over `extents`        `fold`
    scan(x, axis, init, combine)                         running combination along an axis `scan`
    scatter(base, extents, index, value, combine)        updates at computed positions     `scatter`
    place(shape, fill, parts)                            tensors set into a larger one     `place`
    reshape(x, shape)                                    the same elements, another shape  `reshape`

Each primitive has one rule in `lowering/`; no operator is named there. Sizes are ints, or expressions of
type `index` where a dimension is dynamic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.dtypes import DType
from oneflow.dialect.scalar import Expr

#: A size: known, or an expression of type `index`.
Size = int | Expr
Sizes = tuple[Size, ...]


@dataclass(frozen=True, eq=False)
class Stage:
    """A tensor inside a compute body; `x[i, j]` reads an element (16-bit floats are read as f32)."""

    shape: Sizes
    dtype: DType

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, position: Expr | int | tuple[Expr | int, ...]) -> Expr:
        positions = position if isinstance(position, tuple) else (position,)
        assert len(positions) == self.rank, f"{len(positions)} positions into rank {self.rank}"
        args = tuple(p if isinstance(p, Expr) else s.const(p, dtypes.index) for p in positions)
        read = Expr("load", args, self.dtype, self)
        return s.cast(read, self.dtype.accumulator)

    def __str__(self) -> str:
        return f"%{type(self).__name__.lower()}"


@dataclass(frozen=True, eq=False)
class Input(Stage):
    """An operand of the operator: operand `index` of the call."""

    index: int

    def __str__(self) -> str:
        return f"%in{self.index}"


@dataclass(frozen=True, eq=False)
class ElementWise(Stage):
    """Element `positions` is `body`."""

    positions: tuple[Expr, ...]
    body: Expr


@dataclass(frozen=True, eq=False)
class Fold(Stage):
    """A result of a reduction: accumulator `result` of the accumulators that `Reduction` computes."""

    reduction: Reduction
    result: int


@dataclass(frozen=True, eq=False)
class Reduction:
    """For every position of `shape`: accumulators begin as `inits` and become `bodies` at each step.

    Steps run in row-major order over `extents`. `accumulators` are the `arg` nodes for the
    values so far in `bodies`; the backends may reorder only what `associative` allows.
    """

    shape: Sizes
    extents: Sizes
    positions: tuple[Expr, ...]
    steps: tuple[Expr, ...]
    accumulators: tuple[Expr, ...]
    inits: tuple[Expr, ...]
    bodies: tuple[Expr, ...]
    associative: bool


@dataclass(frozen=True, eq=False)
class Scan(Stage):
    """Along `axis`: element k is `combine(element k - 1, x[k])`, beginning with `init`."""

    x: Stage
    axis: int
    init: Expr
    accumulator: Expr
    element: Expr
    body: Expr


@dataclass(frozen=True, eq=False)
class Scatter(Stage):
    """`base`, then for every step in row-major order: element `index` becomes `body`.

    `any_order` says that another order has the same result.
    """

    base: Stage
    extents: Sizes
    steps: tuple[Expr, ...]
    index: tuple[Expr, ...]
    accumulator: Expr
    body: Expr
    any_order: bool = False


@dataclass(frozen=True, eq=False)
class Part:
    """A tensor set into a larger one at `offsets`, with `strides` between its elements."""

    source: Stage
    offsets: Sizes
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Place(Stage):
    """`fill` everywhere, then each part in order. `fill` is None where the parts cover everything."""

    fill: Expr | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Reshape(Stage):
    """The elements of `source` in row-major order under another shape of the same count."""

    source: Stage


@dataclass
class _Names:
    """Numbers for position nodes, distinct over a process so that bodies never confuse positions."""

    next: int = field(default=0)

    def positions(self, count: int) -> tuple[Expr, ...]:
        first, self.next = self.next, self.next + count
        return tuple(Expr("index", (), dtypes.index, first + i) for i in range(count))

    def args(self, types: Sequence[DType]) -> tuple[Expr, ...]:
        first, self.next = self.next, self.next + len(types)
        return tuple(s.arg(first + i, t) for i, t in enumerate(types))


_names = _Names()


def as_expr(size: Size) -> Expr:
    """A size as an expression of type `index`."""
    return size if isinstance(size, Expr) else s.const(size, dtypes.index)


def _checked_sizes(sizes: Sequence[Any]) -> Sizes:
    """Sizes of a stage, which a body states.

    Raises:
        BodyError: one is neither a whole number nor an expression of type `index`.
    """
    return tuple(map(_whole_size, sizes))


def _whole_size(size: Any) -> Size:
    if isinstance(size, Expr) and size.dtype is dtypes.index:
        return size
    try:
        return operator.index(size)
    except TypeError:
        what = f"{size} of type {size.dtype.mlir}" if isinstance(size, Expr) else size
        raise s.BodyError(f"expected a whole number or an expression of type index as a size, got {what}") from None


def product(sizes: Sequence[Size]) -> Size:
    """The product of sizes."""
    return math.prod(sizes, start=1)


def min_size(a: Size, b: Size) -> Size:
    """The smaller of two sizes."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else _combine("min", a, b)


def max_size(a: Size, b: Size) -> Size:
    """The larger of two sizes."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else _combine("max", a, b)


def _combine(kind: str, a: Any, b: Any) -> Any:
    """Combines two sizes by the method of the size that is no number."""
    return (b if isinstance(a, int) else a).combine(kind, a, b)


def is_natural(size: Size) -> bool:
    """Whether a size cannot be negative, as far as its expression shows."""
    if isinstance(size, int) or size.kind == "const":
        return (size if isinstance(size, int) else size.value) >= 0
    if size.kind in ("size", "at_least"):
        return True
    args = size.args[1:] if size.kind == "select" else size.args
    if size.kind == "max":
        return any(map(is_natural, args))
    return size.kind in ("add", "mul", "floordiv", "rem", "min", "select") and all(map(is_natural, args))


def element_wise(shape: Sequence[Size], body: Callable[..., Expr], dtype: DType | None = None) -> Stage:
    """The tensor whose element (i, j, ..) is `body(i, j, ..)`, converted to `dtype`."""
    positions = _names.positions(len(shape))
    value = body(*positions)
    target = dtype or value.dtype
    return ElementWise(_checked_sizes(shape), target, positions, s.cast(value, target))


def fold(
    shape: Sequence[Size],
    extents: Sequence[Size],
    inits: Sequence[Expr],
    step: Callable[[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]], Sequence[Expr]],
    *,
    associative: bool = False,
) -> tuple[Stage, ...]:
    """Computes a tensor for each accumulator: `step(position, reduction position, accumulators)` returns the next
    accumulators.

    Results have the accumulators' types; `sum_`, `max_` and similar functions wrap this function for one accumulator.
    """
    positions, steps = _names.positions(len(shape)), _names.positions(len(extents))
    accumulators = _names.args([i.dtype for i in inits])
    bodies = tuple(step(positions, steps, accumulators))
    reduction = Reduction(
        _checked_sizes(shape),
        _checked_sizes(extents),
        positions,
        steps,
        accumulators,
        tuple(inits),
        bodies,
        associative,
    )
    return tuple(Fold(reduction.shape, i.dtype, reduction, n) for n, i in enumerate(inits))


def reduce_(
    shape: Sequence[Size],
    extents: Sequence[Size],
    init: float | int | bool,
    combine: Callable[[Expr, Expr], Expr],
    element: Callable[..., Expr],
    dtype: DType | None = None,
) -> Stage:
    """A reduction with one accumulator; `element(*position, *reduction position)` is the combined value.

    The accumulator has the type of the elements; the result is converted to `dtype`.
    """
    probe = element(*_names.positions(len(shape) + len(extents)))

    def step(at: tuple[Expr, ...], r: tuple[Expr, ...], acc: tuple[Expr, ...]) -> list[Expr]:
        return [combine(acc[0], element(*at, *r))]

    (result,) = fold(shape, extents, [s.const(init, probe.dtype)], step, associative=True)
    return convert(result, dtype or result.dtype)


def sum_(
    shape: Sequence[Size], extents: Sequence[Size], element: Callable[..., Expr], dtype: DType | None = None
) -> Stage:
    """The sum of `element(*position, *reduction position)` over the reduction positions."""
    return reduce_(shape, extents, 0, lambda a, b: a + b, element, dtype)


def convert(x: Stage, dtype: DType) -> Stage:
    """`x` with its elements converted."""
    return x if x.dtype == dtype else element_wise(x.shape, lambda *i: x[i], dtype)


def scan(x: Stage, axis: int, init: Expr, combine: Callable[[Expr, Expr], Expr], dtype: DType) -> Stage:
    """Running combinations of `x` along `axis`, computed in the type of `init`, converted to `dtype`."""
    accumulator, element = _names.args([init.dtype, x.dtype.accumulator])
    body = combine(accumulator, s.cast(element, init.dtype))
    return convert(Scan(x.shape, init.dtype, x, axis, init, accumulator, element, body), dtype)


def scatter(
    base: Stage,
    extents: Sequence[Size],
    index: Callable[..., Sequence[Expr]],
    value: Callable[..., Expr],
    combine: Callable[[Expr, Expr], Expr] = lambda old, new: new,
    any_order: bool = False,
) -> Stage:
    """`base` with element `index(*step)` combined with `value(*step)`, steps in row-major order, or in any."""
    steps = _names.positions(len(extents))
    (accumulator,) = _names.args([base.dtype])
    body = combine(accumulator, s.cast(value(*steps), base.dtype))
    at = tuple(index(*steps))
    return Scatter(base.shape, base.dtype, base, _checked_sizes(extents), steps, at, accumulator, body, any_order)


def place(
    shape: Sequence[Size],
    fill: float | int | bool | None,
    parts: Sequence[tuple[Stage, Sequence[Size]] | tuple[Stage, Sequence[Size], Sequence[int]]],
    dtype: DType,
) -> Stage:
    """`parts` (tensor, offsets[, strides]) set into a tensor of `fill`."""
    built = tuple(Part(p[0], _checked_sizes(p[1]), tuple(p[2] if len(p) == 3 else [1] * len(shape))) for p in parts)
    return Place(_checked_sizes(shape), dtype, None if fill is None else s.const(fill, dtype), built)


def reshape(source: Stage, shape: Sequence[Size]) -> Stage:
    """The elements of `source` in row-major order under `shape`."""
    return Reshape(_checked_sizes(shape), source.dtype, source)
