"""Images with a border of their own elements. `padding` has two numbers for each spatial dimension, before and
after, the last dimension first; negative numbers crop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Call, Operator, define
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import Dim, TensorDesc


@dataclass(frozen=True)
class Edge:
    """A dimension of `size`, with `before` and `after` more elements."""

    size: Size
    before: int
    after: int

    @property
    def padded_size(self) -> Size:
        """The size with the border."""
        return self.size + (self.before + self.after)


class Reflection(Edge):
    """A border that mirrors the image, without repeating the element at the edge."""

    def source(self, position: Expr) -> Expr:
        """The inner element that is copied to a position of the padded image."""
        inside = abs(position - self.before)
        last = c.as_expr(self.size) - 1
        return last - abs(last - inside)

    @property
    def max_copies(self) -> int:
        """The most positions that copy one element: its own and a mirror image at either end."""
        return 3

    def copy_position(self, inside: Expr, copy: Expr) -> tuple[Expr, Expr]:
        """The `copy`-th position that copies an element, and whether it exists."""
        last = c.as_expr(self.size) - 1
        first, second = self.before - inside, self.before + last * 2 - inside
        at = s.where(copy.eq(0), inside + self.before, s.where(copy.eq(1), first, second))
        mirrored = copy.eq(0) | (copy.eq(1) & (inside > 0)) | (copy.eq(2) & (inside < last))
        return at, mirrored & (at >= 0) & (at < self.padded_size)


class Replication(Edge):
    """A border that repeats the element at the edge."""

    def source(self, position: Expr) -> Expr:
        """The inner element that is copied to a position of the padded image."""
        return s.minimum(s.maximum(position - self.before, 0), c.as_expr(self.size) - 1)

    @property
    def max_copies(self) -> int:
        """The most positions that copy one element, which may be at both edges."""
        return 1 + max(self.before, 0) + max(self.after, 0)

    def copy_position(self, inside: Expr, copy: Expr) -> tuple[Expr, Expr]:
        """The `copy`-th position that copies an element, and whether it exists."""
        end = c.as_expr(self.padded_size)
        begin = s.where(inside.eq(0), 0, s.maximum(inside + self.before, 0))
        last = inside.eq(c.as_expr(self.size) - 1)
        at = begin + copy
        return at, at < s.where(last, end, s.minimum(inside + (self.before + 1), end))


def _pairs(padding: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers before and after, for each spatial dimension in order."""
    return list(zip(padding[::2], padding[1::2], strict=True))[::-1]


def _edges(kind: type[Edge], op: Call, image: Sequence[Size]) -> list[Any]:
    return [kind(size, *pair) for size, pair in zip(image[2:], _pairs(op.padding), strict=True)]


def _expect_sizes(op: Call, kind: type[Edge], inside: Sequence[Dim]) -> None:
    """Checks the spatial sizes of images without their border, and the sizes of their interior.

    Raises:
        OperatorError: one is too small.
    """
    for size, pair in zip(inside, _pairs(op.padding), strict=True):
        least = max(1, *(p + 1 for p in pair)) if kind is Reflection else 1
        if size is not None and size < least:
            raise op.error(f"expected spatial sizes of at least {least} to pad by {pair}, got {size}")
        if size is not None and size + sum(pair) < 1:
            raise op.error(f"expected padding that leaves elements of {size}, got {pair}")


def _expect(op: Call, name: str, spatial: int, allowed: Sequence[DType]) -> Any:
    """Checks images and the number of paddings; returns the images."""
    image = op[name]
    expect_dtype(op, name, image, allowed)
    expect_rank(op, name, image, spatial + 2)
    if len(op.padding) != 2 * spatial:
        raise op.error(f"expected {2 * spatial} numbers in padding, got {list(op.padding)}")
    return image


def _types(kind: type[Edge], spatial: int) -> Any:
    def types(op: Call) -> TensorDesc:
        x = _expect(op, "x", spatial, dtypes.NUMERIC)
        _expect_sizes(op, kind, x.shape[2:])
        sizes = (n if n is None else n + sum(pair) for n, pair in zip(x.shape[2:], _pairs(op.padding), strict=True))
        return TensorDesc((*x.shape[:2], *sizes), x.dtype)

    return types


def _inside(op: Call, padded_shape: Sequence[Any]) -> tuple[Any, ...]:
    """Spatial sizes without the border."""
    pairs = zip(padded_shape[2:], _pairs(op.padding), strict=True)
    return tuple(n if n is None else n - sum(pair) for n, pair in pairs)


def _grad_types(kind: type[Edge], spatial: int) -> Any:
    def types(op: Call) -> TensorDesc:
        dy = _expect(op, "dy", spatial, dtypes.FLOATS)
        sizes = _inside(op, dy.shape)
        _expect_sizes(op, kind, sizes)
        return TensorDesc((*dy.shape[:2], *sizes), dy.dtype)

    return types


def _compute(kind: type[Edge]) -> Any:
    def compute(op: Call) -> Stage:
        edges = _edges(kind, op, op.x.shape)

        def element(n: Expr, k: Expr, *at: Expr) -> Expr:
            value: Expr = op.x[n, k, *(e.source(i) for e, i in zip(edges, at, strict=True))]
            return value

        return c.element_wise((*op.x.shape[:2], *(e.padded_size for e in edges)), element, op.x.dtype)

    return compute


def _grad_compute(kind: type[Edge]) -> Any:
    def compute(op: Call) -> Stage:
        shape = (*op.dy.shape[:2], *_inside(op, op.dy.shape))
        edges = _edges(kind, op, shape)

        def term(n: Expr, k: Expr, *at: Expr) -> Expr:
            meant, sources = s.const(True, dtypes.bool_), []
            for edge, inside, copy in zip(edges, at[: len(edges)], at[len(edges) :], strict=True):
                source, is_copy = edge.copy_position(inside, copy)
                sources.append(s.minimum(s.maximum(source, 0), c.as_expr(edge.padded_size) - 1))
                meant = meant & is_copy
            return s.where(meant, op.dy[n, k, *sources], 0)

        return c.sum_(shape, [e.max_copies for e in edges], term, op.dy.dtype)

    return compute


def _numpy_sources(mode: str, size: int, pair: tuple[int, int]) -> Any:
    """The inner element that each position copies, by NumPy's own padding of positions."""
    before, after = pair
    sources = np.pad(np.arange(size), [max(before, 0), max(after, 0)], mode=mode)  # type: ignore[call-overload]
    return sources[max(-before, 0) : len(sources) - max(-after, 0)]


def _numpy_grid(mode: str, inside: Sequence[int], padding: Sequence[int]) -> Any:
    return np.ix_(*(_numpy_sources(mode, n, p) for n, p in zip(inside, _pairs(padding), strict=True)))


def _reference(mode: str) -> Any:
    def reference(x: Any, *, padding: Any) -> Any:
        return x[(slice(None), slice(None), *_numpy_grid(mode, x.shape[2:], padding))]

    return reference


def _grad_reference(mode: str) -> Any:
    def reference(dy: Any, *, padding: Any) -> Any:
        inside = [n - sum(pair) for n, pair in zip(dy.shape[2:], _pairs(padding), strict=True)]
        dx: Any = np.zeros((*dy.shape[:2], *inside), np.complex128 if dy.dtype.kind == "c" else np.float64)
        np.add.at(dx, (slice(None), slice(None), *_numpy_grid(mode, inside, padding)), dy.astype(dx.dtype))
        return dx.astype(dy.dtype)

    return reference


def _sbp(op: Call) -> Factors:
    """Dimensions without a border can be split."""
    names = " ".join(["n", "c", *("_" if any(pair) else f"d{i}" for i, pair in enumerate(_pairs(op.padding)))])
    return Factors(f"{names} -> {names}", "joint")


def _pad(kind: type[Edge], mode: str, spatial: int, doc: str) -> tuple[Operator, Operator]:
    name = f"{kind.__name__.lower()}_pad{spatial}d"

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": lambda: ops.call(f"{name}_grad", dy, **op.attrs)[0]}

    def second(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        return {"dy": lambda: ops.call(name, ddx, **op.attrs)[0]}

    forward = define(
        f"{name}(x, padding: list_int64) -> y", depth=2, doc=doc, types=_types(kind, spatial),
        sbp=_sbp, grad=grad, compute=_compute(kind), reference=_reference(mode), parts=each_part,
    )  # fmt: skip
    backward = define(
        f"{name}_grad(dy, padding: list_int64) -> dx", depth=2,
        doc=f"The gradient of `{name}`: for every element inside, the sum of dy over all positions that show the "
             f"element.",
        types=_grad_types(kind, spatial), sbp=_sbp, grad=second,
        compute=_grad_compute(kind), reference=_grad_reference(mode),
        parts=each_part,
    )  # fmt: skip
    return forward, backward


_ORDER = "\n\n`padding` holds the numbers of elements before and after each spatial dimension, the last one first."
for _spatial in (1, 2):
    _pad(
        Reflection, "reflect", _spatial, f"Images in a border that mirrors them at their outermost elements.{_ORDER}"
    )
    _pad(Replication, "edge", _spatial, f"Images in a border that repeats their outermost elements.{_ORDER}")
