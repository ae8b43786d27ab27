"""Borders of zeros with which windows that move by a stride give size / stride (rounded up) results.

An odd border has one element more after the image in the mode `same_upper`, before it in `same_lower`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import adjoint, composite
from oneflow.dialect.ops.spatial import channels_back, channels_first, expect_images, expect_windows, layout_of
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype

SAME = ("same_upper", "same_lower")
ATTRS = (
    "padding: string, data_format: string, kernel_size: list_int32, strides: list_int32, dilation_rate: list_int32"
)


def same_border(mode: str, size: int, extent: int, stride: int) -> tuple[int, int]:
    """The border before and after `size` elements, for windows that reach over `extent` elements."""
    both = max(0, (-(-size // stride) - 1) * stride + extent - size)
    less, more = both // 2, both - both // 2
    return (less, more) if mode == "same_upper" else (more, less)


def expect_static_sizes(op: Call, name: str) -> tuple[int, ...]:
    """The spatial sizes of a batch of images.

    Raises:
        OperatorError: one is not static.
    """
    sizes = layout_of(op, op[name].rank - 2).split(op[name].shape)[2]
    if None in sizes:
        raise op.error(f"expected static spatial sizes of {name}, got {op[name]}")
    return sizes


def _borders(sizes: Sequence[int], attrs: Any) -> list[tuple[int, int]]:
    rows = zip(sizes, attrs["kernel_size"], attrs["strides"], attrs["dilation_rate"], strict=True)
    return [same_border(attrs["padding"], n, (k - 1) * d + 1, stride) for n, k, stride, d in rows]


def _image_name(op: Call) -> str:
    return "x" if "x" in op.inputs else "x_like"


def _check(op: Call) -> None:
    name = _image_name(op)
    spatial = len(op.kernel_size)
    expect_dtype(op, name, op[name], dtypes.NUMERIC if name == "x" else dtypes.FLOATS)
    if op.padding not in SAME:
        raise op.error(f"expected padding same_upper or same_lower, got {op.padding!r}")
    if spatial < 1:
        raise op.error("expected at least one number in kernel_size, got []")
    expect_windows(op, spatial, {"kernel_size": 1, "strides": 1, "dilation_rate": 1})
    expect_images(op, name, op[name], spatial)
    expect_static_sizes(op, name)


def padded_images(ops: Builder, op: Call, x: Value, borders: Sequence[tuple[int, int]], fill: float = 0) -> Value:
    """Images in borders of `fill`; negative borders cut."""
    layout = layout_of(op, x.rank - 2)
    before, after = ([int(b[side]) for b in layout.arrange([(0, 0)], [(0, 0)], borders)] for side in (0, 1))
    value = {"floating_constant_value": fill} if x.dtype.is_float else {"integral_constant_value": int(fill)}
    return ops.call("pad", x, padding_before=before, padding_after=after, **value)[0]


def _write(ops: Builder, op: Call) -> Value:
    return padded_images(ops, op, op.x, _borders(expect_static_sizes(op, "x"), op.attrs))


def _reference(x: Any, *, data_format: Any, **attrs: Any) -> Any:
    images = channels_first(x, data_format)
    borders = _borders(images.shape[2:], attrs)
    return channels_back(np.pad(images, [(0, 0), (0, 0), *borders]), data_format)


def _factors(op: Call) -> str:
    layout = layout_of(op, op[_image_name(op)].rank - 2)
    return " ".join(layout.arrange(["n"], ["c"], ["_"] * layout.spatial))


composite(
    f"same_padding(x, {ATTRS}) -> y",
    "Images in a border of zeros, so that windows give size / stride (rounded up) results.\n\n"
    "An odd border has one element more after the image in the mode `same_upper`, before it in `same_lower`.",
    write=_write, reference=_reference, check=_check,
    sbp=lambda op: Factors(f"{_factors(op)} -> {_factors(op)}", "joint"),
)  # fmt: skip
adjoint(
    f"same_padding_grad(x_like, dy, {ATTRS}) -> dx", "The gradient of `same_padding`: dy without the border.",
    of="same_padding", seeds=("dy",), names={"x": "x_like"}, check=_check, shapes_of=("x_like",),
    sbp=lambda op: Factors(", ".join([_factors(op)] * 2) + f" -> {_factors(op)}").linear_in(op, "dy"),
)  # fmt: skip
