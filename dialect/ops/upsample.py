"""Resampling of images to another size: nearest-neighbour, linear and cubic interpolation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.sampling import Cubic, Linear, Nearest, NearestExact, keys
from oneflow.dialect.record import Call, Operator, define
from oneflow.dialect.sbp import Factors, repeated_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

#: Scales are approximated by fractions with denominators up to this number, so that positions fit into 32 bits.
MAX_DENOMINATOR = 4096
SCALES = {1: ("scale_factor",), 2: ("height_scale", "width_scale"), 3: ("depth_scale", "height_scale", "width_scale")}


def _scales(op: Call, spatial: int) -> list[float]:
    return [op[name] for name in SCALES[spatial]]


def _scaled(size: Any, scale: float) -> Any:
    """A size times a scale, rounded down; sizes are computed in integers where known at run time only."""
    if isinstance(size, int):
        return int(size * scale)
    ratio = Fraction(scale).limit_denominator(MAX_DENOMINATOR)
    return size * ratio.numerator // ratio.denominator


def _outs(op: Call, sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Spatial sizes of the result; None for unknown sizes."""
    if op.output_size:
        return tuple(op.output_size)
    pairs = zip(sizes, _scales(op, len(sizes)), strict=True)
    return tuple(size if size is None else _scaled(size, scale) for size, scale in pairs)


def _is_identity(op: Call, sizes: Sequence[Any], outs: Sequence[Any]) -> Any:
    """Whether scales are the identity, since all sizes stay: scales below 2 can be.

    Images of three dimensions are not asked for.
    """
    scales = _scales(op, len(sizes))
    if op.output_size or len(sizes) > 2 or not all(1 <= scale < 2 for scale in scales):
        return False
    pairs = list(zip(sizes, outs, strict=True))
    if any(size != out for size, out in pairs if isinstance(size, int)):
        return False
    equal = [size.eq(out) for size, out in pairs if not isinstance(size, int)]
    return reduce(lambda one, other: one & other, equal) if equal else True


def _identity_dimensions(op: Call, outs: Sequence[Any]) -> list[bool]:
    """Whether each dimension of an image is kept by a scale, so that its parts are kept too."""
    sizes = op.x.shape[2:]
    if op.output_size:
        return [False] * len(sizes)
    same = [size is not None and size == out for size, out in zip(sizes, outs, strict=True)]
    corners = op.attrs.get("align_corners", False) or (len(sizes) < 3 and all(same))
    return [scale == 1 or (kept and corners) for kept, scale in zip(same, _scales(op, len(sizes)), strict=True)]


def _ratios(op: Call, sizes: Sequence[Size], outs: Sequence[Size]) -> list[tuple[Size, Size]]:
    """The distance of two positions in the image, as two numbers, for each dimension."""
    if op.output_size:
        return list(zip(sizes, outs, strict=True))
    kept = _is_identity(op, sizes, outs)
    ratios = [Fraction(scale).limit_denominator(MAX_DENOMINATOR) for scale in _scales(op, len(sizes))]
    if isinstance(kept, bool):
        return [(1, 1) if kept else (r.denominator, r.numerator) for r in ratios]
    return [(s.where(kept, c.as_expr(r.numerator), r.denominator), r.numerator) for r in ratios]


def _steps(kind: type[Nearest], op: Call) -> list[Nearest]:
    """The dimensions of a call, which has the image `x`."""
    sizes = op.x.shape[2:]
    outs = _outs(op, sizes)
    rows = list(zip(sizes, outs, strict=True))
    if kind is Nearest:
        return [Nearest(n, o, a, 0, b) for (n, o), (a, b) in zip(rows, _ratios(op, sizes, outs), strict=True)]
    if kind.has_corners and op.align_corners:
        return [kind(n, o, n - 1, 0, c.max_size(o - 1, 1)) for n, o in rows]
    ratios = _ratios(op, sizes, outs)
    return [
        kind(n, o, a * 2, a - b if kind.has_corners else a, b * 2)
        for (n, o), (a, b) in zip(rows, ratios, strict=True)
    ]


def _expect(op: Call, spatial: int, allowed: Sequence[DType]) -> TensorDesc:
    """Checks images, scales and sizes; returns the type of the result."""
    expect_dtype(op, "x", op.x, allowed)
    expect_rank(op, "x", op.x, spatial + 2)
    if op.data_format != "channels_first":
        raise op.error(f"expected data_format channels_first, got {op.data_format!r}")
    if len(op.output_size) not in (0, spatial):
        raise op.error(f"expected no or {spatial} numbers in output_size, got {list(op.output_size)}")
    for name, scale in zip(SCALES[spatial], _scales(op, spatial), strict=True):
        if not op.output_size and not 0 < scale < float("inf"):
            raise op.error(f"expected {name} above 0 without output_size, got {scale}")
    outs = _outs(op, op.x.shape[2:])
    for size in (*op.x.shape[2:], *outs):
        if size is not None and size < 1:
            raise op.error(f"expected spatial sizes of at least 1, got {op.x} and sizes {outs} of the result")
    return TensorDesc((*op.x.shape[:2], *outs), op.x.dtype)


def _compute(kind: type[Nearest]) -> Any:
    def compute(op: Call) -> Stage:
        steps, wide = _steps(kind, op), op.x.dtype.accumulator

        def along(axis: int, position: tuple[Expr, ...], at: Sequence[Expr]) -> Expr:
            """The value at a position that is given up to a dimension."""
            if axis == len(steps):
                value: Expr = op.x[position]
                return value
            terms = [
                (along(axis + 1, (*position, element), at), share)
                for element, share in steps[axis].neighbours(at[axis], wide)
            ]
            return reduce(operator.add, (value if share is None else value * share for value, share in terms))

        shape = (*op.x.shape[:2], *(d.out for d in steps))
        return c.element_wise(shape, lambda n, k, *at: along(0, (n, k), at), op.x.dtype)

    return compute


def _grad_compute(kind: type[Nearest]) -> Any:
    def compute(op: Call) -> Stage:
        steps, wide = _steps(kind, op), op.x.dtype.accumulator

        def term(n: Expr, k: Expr, *at: Expr) -> Expr:
            share, there, positions = None, s.const(True, dtypes.bool_), []
            for dim, element, offset in zip(steps, at[: len(steps)], at[len(steps) :], strict=True):
                position = dim.begin(element) + offset
                there = there & (position < c.as_expr(dim.out))
                positions.append(s.minimum(position, c.as_expr(dim.out) - 1))
                own = dim.weight(element, positions[-1], wide)
                share = own if share is None else share * own
            # A share of 0 marks positions that do not read the element, for any dy.
            assert share is not None
            return s.where(there & share.ne(0), op.dy[n, k, *positions] * share, 0)

        return c.sum_(op.x.shape, [d.max_positions() for d in steps], term, op.x.dtype)

    return compute


def _numpy_ratio(size: int, out: int, scale: float, op: dict[str, Any], kept: bool) -> float:
    if op.get("align_corners"):
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 if kept else size / out if op["output_size"] else 1.0 / scale


def _numpy_shares(kind: type[Nearest], size: int, out: int, ratio: float, align: bool) -> list[tuple[Any, Any]]:
    """The elements of each position, one, two or four, with their shares."""
    rows = np.arange(out)
    if not kind.has_corners:
        inside = 0.5 if kind is NearestExact else 0.0
        return [(np.minimum(np.floor(np.float32((rows + inside) * ratio)).astype(int), size - 1), np.ones(out))]
    position = rows * ratio if align else (rows + 0.5) * ratio - 0.5
    if kind is Cubic:
        neighbours = [np.floor(position) + index for index in range(-1, 3)]
        distances = [(n, np.abs(position - n)) for n in neighbours]
        weights = [(n, np.where(d <= 1, keys(d, True), keys(d, False))) for n, d in distances]
        return [(np.clip(n, 0, size - 1).astype(int), weight) for n, weight in weights]
    position = np.maximum(position, 0)
    low = np.minimum(position.astype(int), size - 1)
    above = np.where(low < size - 1, position - low, 0.0)
    return [(low, 1 - above), (np.minimum(low + 1, size - 1), above)]


def _numpy_dims(kind: type[Nearest], sizes: Sequence[int], op: dict[str, Any]) -> list[list[tuple[Any, Any]]]:
    """`_numpy_shares` of each spatial dimension."""
    scales = [op[name] for name in SCALES[len(sizes)]]
    outs = op["output_size"] or [int(n * scale) for n, scale in zip(sizes, scales, strict=True)]
    kept, align = len(sizes) < 3 and tuple(outs) == tuple(sizes), bool(op.get("align_corners"))
    rows = zip(sizes, outs, scales, strict=True)
    return [_numpy_shares(kind, n, o, _numpy_ratio(n, o, f, op, kept), align) for n, o, f in rows]


def _numpy_apply(x: Any, dims: Sequence[list[tuple[Any, Any]]]) -> Any:
    """Positions out of elements, along each spatial axis."""
    for axis, pairs in reversed(list(enumerate(dims, 2))):
        rows = np.moveaxis(x, axis, -1)
        x = np.moveaxis(sum(rows[..., element] * share for element, share in pairs), -1, axis)
    return x


def _numpy_back(dy: Any, dims: Sequence[list[tuple[Any, Any]]], sizes: Sequence[int]) -> Any:
    """The sums for each element of its shares of dy; shares of 0 are omitted for any dy."""
    for axis, (pairs, size) in enumerate(zip(dims, sizes, strict=True), 2):
        rows = np.moveaxis(dy, axis, 0)
        sums = np.zeros((size, *rows.shape[1:]))
        for element, share in pairs:
            is_read = share != 0
            np.add.at(sums, element[is_read], rows[is_read] * share[is_read].reshape(-1, *[1] * (rows.ndim - 1)))
        dy = np.moveaxis(sums, 0, axis)
    return dy


def _reference(kind: type[Nearest]) -> Any:
    def reference(x: Any, **op: Any) -> Any:
        return _numpy_apply(x.astype(np.float64), _numpy_dims(kind, x.shape[2:], op)).astype(x.dtype)

    return reference


def _grad_reference(kind: type[Nearest]) -> Any:
    def reference(dy: Any, x: Any, **op: Any) -> Any:
        dims = _numpy_dims(kind, x.shape[2:], op)
        return _numpy_back(dy.astype(np.float64), dims, x.shape[2:]).astype(x.dtype).reshape(x.shape)

    return reference


def _names(op: Call) -> str:
    """Factors of images: batch, channels, and dimensions that are not resampled."""
    identity = enumerate(_identity_dimensions(op, _outs(op, op.x.shape[2:])))
    return " ".join(["n", "c", *(f"d{i}" if kept else "_" for i, kept in identity)])


def _sbp(op: Call) -> Factors:
    return Factors(f"{_names(op)} -> {_names(op)}", "joint")


def _grad_sbp(op: Call) -> Factors:
    return repeated_factors(_names(op), 2).linear_in(op, "dy")


def _upsample(name: str, kind: type[Nearest], spatial: int, doc: str) -> tuple[Operator, Operator]:
    scales = ", ".join(f"{n}: double = 0.0" for n in SCALES[spatial])
    corners = ", align_corners: bool = False" if kind.has_corners else ""
    attrs = f"{scales}{corners}, output_size: list_int64, data_format: string"
    allowed = dtypes.FLOATS if kind.has_corners else dtypes.NUMERIC

    def grad_types(op: Call) -> TensorDesc:
        expect_type(op, "dy", _expect(op, spatial, dtypes.FLOATS))
        return TensorDesc(op.x.shape, op.x.dtype)

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": lambda: ops.call(f"{name}_grad", dy, op.x, **op.attrs)[0]}

    def second(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        return {"dy": lambda: ops.call(name, ddx, **op.attrs)[0]}

    forward = define(
        f"{name}(x, {attrs}) -> y", depth=2, doc=doc, types=lambda op: _expect(op, spatial, allowed),
        sbp=_sbp, grad=grad, compute=_compute(kind), reference=_reference(kind),
    )  # fmt: skip
    backward = define(
        f"{name}_grad(dy, x, {attrs}) -> dx", depth=2,
        doc=f"The gradient of `{name}`: every element receives its share of dy of each position that reads the "
             f"element.",
        types=grad_types, sbp=_grad_sbp, grad=second, compute=_grad_compute(kind),
        reference=_grad_reference(kind), shapes_of=("x",),
    )  # fmt: skip
    return forward, backward


_SIZE = (
    " to another size: `output_size`, or else the size of the image times the scales, rounded down.\n\n"
    "An image of one or two dimensions whose sizes stay is the result. A size that is known at run time only is\n"
    "multiplied by the scale as a fraction, so that 100 * 1.15 is 115; as a product of floats it would be 114."
)
_LINEAR = " With `align_corners` the outermost elements coincide, otherwise the borders of the images."
for _spatial in (1, 2, 3):
    _doc = f"Nearest-neighbour interpolation of images, by the preceding elements,{_SIZE}"
    _upsample(f"upsample_nearest_{_spatial}d", Nearest, _spatial, _doc)
    _doc = f"Nearest-neighbour interpolation of images, by the elements that contain the centres of pixels,{_SIZE}"
    _upsample(f"upsample_nearest_exact_{_spatial}d", NearestExact, _spatial, _doc)
for _spatial, _word in enumerate(("linear", "bilinear", "trilinear"), 1):
    _doc = f"Linear interpolation of images{_SIZE}{_LINEAR}"
    _upsample(f"upsample_{_word}_{_spatial}d", Linear, _spatial, _doc)
_upsample("upsample_bicubic_2d", Cubic, 2, f"Cubic interpolation of images{_SIZE}{_LINEAR}")
