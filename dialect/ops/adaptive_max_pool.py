"""Largest elements of windows that divide images into a given number of parts, the windows of `adaptive_pool`."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.adaptive_pool import ATTRS, expect_parts, masked, numpy_boxes, parts_of
from oneflow.dialect.ops.indexing import expect_index
from oneflow.dialect.ops.pool import factors, flat_position, flattened, max_grad_reference
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.spatial import Layout, channels_back, channels_first, expect_images, layout_of
from oneflow.dialect.record import Call, Rule, define
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc


def _types(spatial: int) -> Rule:
    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        y = expect_parts(op, spatial, dtypes.NUMERIC)
        return y, TensorDesc(y.shape, dtypes.int64)

    return types


def _compute(op: Call) -> tuple[Stage, Stage]:
    layout, parts = layout_of(op, op.x.rank - 2), parts_of(op)
    lead, channels, sizes = layout.split(op.x.shape)

    def step(at: tuple[Expr, ...], r: tuple[Expr, ...], best: tuple[Expr, ...]) -> list[Expr]:
        n, k, windows = layout.split(at)
        rows = zip(parts, windows, r, strict=True)
        places = [(p.begin(w) + i, None if p.uniform_size is not None else p.end(w), p.size) for p, w, i in rows]
        image, meant = masked(places)
        value = op.x[layout.arrange(n, k, image)]
        better = (value > best[0]) | (s.isnan(value) & ~s.isnan(best[0])) | (best[1] < 0)
        better = better if meant is None else better & meant
        return [s.where(better, value, best[0]), s.where(better, flat_position(image, sizes), best[1])]

    inits = [s.const(op.x.dtype.bounds[0], op.x.dtype.accumulator), s.const(-1, dtypes.int64)]
    shape = layout.arrange(lead, channels, op.output_size)
    y, index = c.fold(shape, [p.max_size() for p in parts], inits, step)
    return c.convert(y, op.x.dtype), index


def _reference(x: Any, *, output_size: Any, data_format: Any) -> tuple[Any, Any]:
    images = channels_first(x, data_format)
    sizes = images.shape[2:]
    positions = np.arange(np.prod(sizes)).reshape(sizes)
    y: Any = np.zeros((*images.shape[:2], *output_size), x.dtype)
    index: Any = np.zeros(y.shape, np.int64)
    for at, box in numpy_boxes(sizes, output_size):
        flat = positions[box].ravel()
        part = images[box].reshape(*images.shape[:2], flat.size)
        best = np.argmax(part, axis=-1)
        y[(..., *at)] = np.take_along_axis(part, best[..., None], -1)[..., 0]
        index[(..., *at)] = flat[best]
    return channels_back(y, data_format), channels_back(index, data_format)


def _check_gradient(spatial: int) -> Rule:
    def check(op: Call) -> None:
        layout = layout_of(op, spatial)
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        for name in ("x", "dy", "index"):
            expect_images(op, name, op[name], spatial)
        expect_dtype(op, "dy", op.dy, (op.x.dtype,))
        expect_index(op, "index")
        expect_type(op, "index", TensorDesc(op.dy.shape, op.index.dtype))
        for axis, name in ((0, "the batch of dy"), (layout.channel, "the channels of dy")):
            expect_dim(op, name, op.dy.shape[axis], op.x.shape[axis])

    return check


def _write_gradient(ops: Builder, op: Call) -> Value:
    layout = layout_of(op, op.x.rank - 2)
    plane, at, dy = (flattened(ops, op, v, layout) for v in (op.x, op.index, op.dy))
    dim = Layout(1, layout.first).split((0, 1, 2))[2][0]
    dx: Value = ops.reshape_like(ops.dim_scatter_add_like(plane, at, dy, dim=dim), op.x)
    return dx


def _gradient_factors(op: Call) -> Factors:
    """Windows may be split too: every device adds the elements of its windows to whole images."""
    layout = layout_of(op, op.x.rank - 2)
    windows = " ".join(layout.arrange(["n"], ["c"], [f"w{i}" for i in range(layout.spatial)]))
    return Factors(f"{windows}, {factors(op)}, {windows} -> {factors(op)}").linear_in(op, "dy")


def _adaptive_max_pool(spatial: int) -> None:
    name = f"adaptive_max_pool{spatial}d"

    def grad(ops: Builder, op: Call, dy: Value | None, dindex: None) -> dict[str, Any]:
        return {"x": lambda: ops.call(f"{name}_grad", dy, op.x, op.index, data_format=op.data_format)[0]}

    define(
        f"{name}(x, {ATTRS}) -> y, index", depth=2,
        doc="The largest element of each of `output_size` windows, NaN if an element is NaN, and its index "
            "(i64).\n\n"
        "The windows divide the image as evenly as they can. `index` counts positions of the spatial dimensions in\n"
        "row-major order; the first of equal elements wins.",
        types=_types(spatial), sbp=lambda op: Factors(f"{factors(op)} -> {factors(op)}, {factors(op)}"),
        grad=grad, compute=_compute, reference=_reference,
    )  # fmt: skip
    composite(
        f"{name}_grad(dy, x, index, data_format: string) -> dx",
        f"The gradient of `{name}`: dy at the indices `index`, added up.",
        write=_write_gradient, check=_check_gradient(spatial), sbp=_gradient_factors, shapes_of=("x",), depth=2,
        reference=lambda dy, x, index, *, data_format: max_grad_reference(x, index, dy, data_format=data_format),
    )  # fmt: skip


for _spatial in (1, 2, 3):
    _adaptive_max_pool(_spatial)
