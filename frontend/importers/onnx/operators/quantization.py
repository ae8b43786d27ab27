"""Quantization: scales and zero points of a tensor, of an axis, or of blocks."""

from __future__ import annotations

from typing import Any

import ml_dtypes

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.operators.convolution import rounded_to
from oneflow.frontend.importers.onnx.operators.elementwise import as_codes, converted, is_small
from oneflow.frontend.importers.onnx.operators.products import shifted
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.importers.onnx.types import Codes, SmallType, decode, encode, type_of_number


def _spread(v: Tensor, sizes: tuple[Any, ...], axis: int, block_size: int) -> Tensor:
    """A scale, broadcast to the sizes of its tensor."""
    if v.rank == 0 or (v.rank == 1 and v.shape[0] == 1 and not block_size):
        return F.reshape(v, ())
    at = axis % len(sizes)
    if v.rank == 1 and not block_size:
        return F.reshape(v, [-1 if i == at else 1 for i in range(len(sizes))])
    own = v.sizes()
    each = block_size or -(-sizes[at] // own[at])
    repeated = F.expand(F.unsqueeze(v, at + 1), *own[: at + 1], each, *own[at + 1 :])
    return F.narrow(F.reshape(repeated, (*own[:at], own[at] * each, *own[at + 1 :])), at, 0, sizes[at])


def _tensor(value: Any, node: Any) -> Tensor | Codes | None:
    return None if value is None else as_codes(value) if is_small(value) else node.tensor(value)


def _floats(value: Tensor | Codes, dtype: Any = dtypes.float32) -> Tensor:
    return decode(value, dtype) if isinstance(value, Codes) else F.cast(value, dtype)


@builder("QuantizeLinear", raw=True)
def _quantize(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
    node: Any,
) -> Any:
    tensor, zero = node.tensor(x), _tensor(zero_point, node)
    wide = F.cast(tensor, dtypes.float32)
    factor = _spread(_floats(_tensor(scale, node)), tensor.sizes(), axis, block_size)  # type: ignore[arg-type]
    target = _target(zero, output_dtype)
    exact: Any = type_of_number(precision) if precision else None
    if exact is not None:
        wide, factor = F.cast(wide, exact), F.cast(factor, exact)
    scaled = F.cast(F.div(wide, factor), dtypes.float32)
    shift = None if zero is None else _spread(_floats(zero), tensor.sizes(), axis, block_size)
    if target.is_float:
        return converted(scaled if shift is None else F.add(scaled, shift), target, bool(saturate))
    rounded = F.rint(scaled)
    rounded = rounded if shift is None else F.add(rounded, shift)
    return _saturated(rounded, target)


def _target(zero: Any, output_dtype: int) -> Any:
    """The type of a quantized tensor."""
    if zero is not None:
        return zero.type if isinstance(zero, Codes) else zero.dtype
    target = type_of_number(output_dtype or 2)
    if target is None:
        raise OnnxError(f"the element type number {output_dtype} is not supported")
    return target


def _saturated(rounded: Tensor, target: Any) -> Any:
    """Whole numbers as elements of a type of integers."""
    info = ml_dtypes.iinfo(target.numpy)
    bounded = F.clamp(rounded, float(info.min), float(info.max))
    return encode(bounded, target) if isinstance(target, SmallType) else F.cast(bounded, target)


@builder("DequantizeLinear", raw=True)
def _dequantize(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    node: Any,
) -> Tensor:
    codes, factor = _tensor(x, node), _tensor(scale, node)
    dtype = type_of_number(output_dtype) if output_dtype else getattr(factor, "dtype", dtypes.float32)
    sizes = (codes.tensor if isinstance(codes, Codes) else codes).sizes()  # type: ignore[union-attr]
    wide = _floats(codes)  # type: ignore[arg-type]
    if zero_point is not None:
        wide = F.sub(wide, _spread(_floats(_tensor(zero_point, node)), sizes, axis, block_size))  # type: ignore[arg-type]
    return F.cast(F.mul(wide, _spread(_floats(factor), sizes, axis, block_size)), dtype)  # type: ignore[arg-type]


@builder("DynamicQuantizeLinear")
def dynamic_quantized(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`x` as bytes, with the scale and the zero point of its range."""
    low, high = F.minimum(F.amin(x), 0.0), F.maximum(F.amax(x), 0.0)
    scale = F.div(F.sub(high, low), 255.0)
    safe = F.where(F.eq(scale, 0.0), 1.0, scale)
    zero = F.clamp(F.rint(F.div(F.neg(low), safe)), 0.0, 255.0)
    y = F.clamp(F.add(F.rint(F.div(x, safe)), zero), 0.0, 255.0)
    return F.cast(y, dtypes.uint8), scale, F.cast(zero, dtypes.uint8)


@builder("QLinearMatMul", raw=True)
def _qlinear_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any, *, node: Any
) -> Tensor:
    tensors = [node.tensor(v) for v in (a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)]
    left, of_left, zero_left, right, of_right, zero_right, of_result, zero = tensors
    product = F.matmul(shifted(left, zero_left, -1), shifted(right, zero_right))
    rows = F.unsqueeze(of_left, -1) if of_left.rank == 1 and of_left.shape[0] != 1 else of_left
    scales = (F.cast(v, dtypes.float32) for v in (rows, of_right, of_result))
    factor = F.div(F.mul(next(scales), next(scales)), next(scales))
    return rounded_to(F.mul(F.cast(product, dtypes.float32), factor), zero)
