"""The inverse of max pooling: each element at its index in the image, zeros elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.indexing import expect_index, numpy_checked_indices
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_rank


def _check(spatial: int, gradient: bool) -> Rule:
    def check(op: Call) -> None:
        expect_rank(op, "x", op.x, spatial + 2)
        expect_dtype(op, "x", op.x, dtypes.NUMERIC)
        expect_index(op, "indices")
        if None in (*op.x.shape, *op.indices.shape):
            raise op.error(f"expected a static shape of x and indices, got {op.x} and {op.indices}")
        if op.indices.shape != op.x.shape:
            raise op.error(f"expected indices of the shape of x, got {op.indices} for {op.x}")
        if gradient:
            expect_rank(op, "dy", op.dy, spatial + 2)
            expect_dtype(op, "dy", op.dy, (op.x.dtype,))
            if None in op.dy.shape or op.dy.shape[:2] != op.x.shape[:2]:
                raise op.error(f"expected a static shape of dy with the images of x, got {op.dy} for {op.x}")
        elif any(len(sizes) != spatial for sizes in (op.kernel_size, op.stride, op.padding)):
            given = ", ".join(map(str, (op.kernel_size, op.stride, op.padding)))
            raise op.error(f"expected {spatial} numbers for each of kernel_size, stride and padding, got {given}")
        elif min(_sizes(op.x.shape, op.attrs, spatial)) < 1:
            raise op.error(f"expected sizes of at least 1 of the result, got {_sizes(op.x.shape, op.attrs, spatial)}")

    return check


def _sizes(shape: Any, attrs: Any, spatial: int) -> list[int]:
    """The spatial sizes of the result: the given sizes, or the least sizes that are pooled to the sizes of `x`."""
    if attrs["has_output_size"]:
        return list(attrs["output_size"])[-spatial:]
    rows = zip(shape[2:], attrs["kernel_size"], attrs["stride"], attrs["padding"], strict=True)
    return [(n - 1) * s - 2 * p + k for n, k, s, p in rows]


def _images(ops: Builder, x: Value) -> Value:
    """Each image of each channel as a row."""
    return ops.call("reshape", x, shape=[*x.shape[:2], math.prod(n or 0 for n in x.shape[2:])])[0]


def _write(spatial: int) -> Rule:
    def write(ops: Builder, op: Call) -> Value:
        shape = [*op.x.shape[:2], *_sizes(op.x.shape, op.attrs, spatial)]
        flat = [*shape[:2], math.prod(shape[2:])]
        zeros = ops.constant(dtype=op.x.dtype, shape=flat, is_floating_value=op.x.dtype.is_float)
        unpooled = ops.dim_scatter_update(zeros, _images(ops, op.indices), _images(ops, op.x), dim=2)
        images: Value = ops.reshape(unpooled, shape=shape)
        return images

    return write


def _gradient(spatial: int) -> Rule:
    """The gradient that PyTorch defines: elements with equal indices all get the gradient at the index."""

    def gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Value]:
        return {"x": ops.call(f"max_unpool_{spatial}d_grad", op.x, op.indices, dy)[0]}

    return gradient


def _write_gradient(ops: Builder, op: Call) -> Value:
    read = ops.dim_gather(_images(ops, op.dy), _images(ops, op.indices), dim=2)
    images: Value = ops.reshape(read, shape=list(op.x.shape))
    return images


def _reference(spatial: int) -> Rule:
    def reference(x: Any, indices: Any, **attrs: Any) -> Any:
        shape = (*x.shape[:2], *_sizes(x.shape, attrs, spatial))
        out = np.zeros((*x.shape[:2], math.prod(shape[2:])), x.dtype)
        at = numpy_checked_indices(f"max_unpool_{spatial}d: indices", _numpy_images(indices), out.shape[2])
        np.put_along_axis(out, at, _numpy_images(x), 2)
        return out.reshape(shape)

    return reference


def _numpy_images(x: Any) -> Any:
    """The elements of each image in a row."""
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _numpy_gradient(x: Any, indices: Any, dy: Any) -> Any:
    rows = _numpy_images(dy)
    at = numpy_checked_indices("max_unpool_grad: indices", _numpy_images(indices), rows.shape[2])
    return np.take_along_axis(rows, at, 2).reshape(x.shape)


def _factors(op: Call) -> Factors:
    """Splits of images and channels: an element may be written to any position of the image."""
    image = " ".join(["n", "c", *"_" * (op.x.rank - 2)])
    return Factors(f"{image}, {image} -> {image}").linear_in(op, "x")


def _gradient_factors(op: Call) -> Factors:
    """Splits of every axis of `x`, whose elements are read from whole images of `dy`."""
    image = " ".join(["n", "c", *"_" * (op.x.rank - 2)])
    names = " ".join(["n", "c", *(f"s{i}" for i in range(op.x.rank - 2))])
    return Factors(f"{names}, {names}, {image} -> {names}").linear_in(op, "dy")


_ATTRS = (
    "kernel_size: list_int64, stride: list_int64, padding: list_int64, has_output_size: bool = False,"
    " output_size: shape"
)
for _spatial in (1, 2, 3):
    composite(
        f"max_unpool_{_spatial}d(x, indices, {_ATTRS}) -> y",
        "`x` at the indices `indices` of images whose max pooling it is, zeros elsewhere.",
        write=_write(_spatial), reference=_reference(_spatial), check=_check(_spatial, False), sbp=_factors,
        grad=_gradient(_spatial),
    )  # fmt: skip
    composite(
        f"max_unpool_{_spatial}d_grad(x, indices, dy) -> dx", f"The gradient of `max_unpool_{_spatial}d`.",
        write=_write_gradient, reference=_numpy_gradient, check=_check(_spatial, True), sbp=_gradient_factors,
        shapes_of=("x",),
    )  # fmt: skip
