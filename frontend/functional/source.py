"""Functions that make tensors: constants, ranges, constants in the shape of another tensor."""

from __future__ import annotations

import math
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.dispatch import as_scalar, as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.factories import tensor_factory
from oneflow.frontend.core.promotion import as_number, default_dtype_of, fitting, is_number
from oneflow.frontend.core.settings import get_default_dtype
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.elementwise import add, eq, lt, mul, pow, sin, square, sub, where
from oneflow.frontend.functional.rules import cast, constant
from oneflow.frontend.functional.shape import as_arguments, unsqueeze
from oneflow.frontend.functional.sizes import real, rounded, shaped

__all__ = [
    "arange", "empty", "empty_like", "eye", "full", "full_like", "hann_window", "linspace", "logspace", "ones",
    "ones_like", "zeros", "zeros_like",
]  # fmt: skip


@tensor_factory
def full(size: Any, fill_value: Any, *, dtype: DType | None = None) -> Tensor:
    """A tensor of one number; its type decides the element type (float32, int64, bool) unless `dtype` does."""
    shape, fill_value = as_arguments([size]), as_scalar(fill_value)
    if not is_number(fill_value):
        raise fail(f"expected a number to fill with, got {fill_value!r}; write flow.broadcast_to for a tensor")
    if any(isinstance(d, bool) or not isinstance(d, (int, Size)) for d in shape):
        raise fail(f"expected integers as sizes, got {list(shape)}")
    target = dtype or default_dtype_of(fill_value)
    number = fitting(as_number(fill_value), target)
    if not any(isinstance(d, Size) for d in shape):
        return constant(number, target, shape)
    return dispatch("broadcast_like", constant(number, target), shaped(shape), broadcast_axes=range(len(shape)))


@tensor_factory
def zeros(*size: Any, dtype: DType | None = None) -> Tensor:
    """A tensor of zeros; sizes one by one or as a list."""
    return full(as_arguments(size), 0, dtype=dtype or get_default_dtype())


@tensor_factory
def ones(*size: Any, dtype: DType | None = None) -> Tensor:
    """A tensor of ones; sizes one by one or as a list."""
    return full(as_arguments(size), 1, dtype=dtype or get_default_dtype())


@tensor_factory
def empty(*size: Any, dtype: DType | None = None) -> Tensor:
    """A tensor whose elements are to be set: zeros. Sizes one by one or as a list."""
    return full(as_arguments(size), 0, dtype=dtype or get_default_dtype())


@tensor_factory
def empty_like(x: Any, *, dtype: DType | None = None) -> Tensor:
    """A tensor whose elements are to be set, in the shape of `x` and its element type or `dtype`: zeros."""
    return zeros_like(x, dtype=dtype)


@tensor_factory
def zeros_like(x: Any, *, dtype: DType | None = None) -> Tensor:
    """Zeros in the shape of `x`, which may be dynamic, and its element type or `dtype`."""
    x = as_tensor(x)
    return cast(dispatch("zero_like", x), dtype or x.dtype)


@tensor_factory
def ones_like(x: Any, *, dtype: DType | None = None) -> Tensor:
    """A tensor of ones in the shape of `x`, which may be dynamic, and its element type or `dtype`."""
    x = as_tensor(x)
    return cast(dispatch("ones_like", x), dtype or x.dtype)


@tensor_factory
def full_like(x: Any, fill_value: Any, *, dtype: DType | None = None) -> Tensor:
    """A number in the shape of `x`, which may be dynamic, and its element type or `dtype`."""
    x = as_tensor(x)
    target = dtype or x.dtype
    value = constant(fitting(as_number(as_scalar(fill_value)), target), target)
    return dispatch("broadcast_like", value, x, broadcast_axes=range(x.rank))


@tensor_factory
def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: DType | None = None) -> Tensor:
    """Numbers from `start` (0 where only the end is given) below `end`, with the distance `step`: int64, float32 for
    floats.
    """
    start, end, step = map(as_scalar, (0, start, step) if end is None else (start, end, step))
    if any(isinstance(v, Size) for v in (start, end, step)):
        return _counted(start, end, step, dtype)
    if not all(is_number(v) for v in (start, end, step)):
        raise fail("expected Python numbers for arange: a length that depends on a tensor's value is not static")
    if step == 0:
        raise fail(f"expected a step other than 0 for arange, got arange({start}, {end}, {step})")
    values = [as_number(v) for v in (start, end, step)]
    target = dtype or (get_default_dtype() if any(isinstance(v, float) for v in values) else dtypes.int64)
    kind, convert = ("float", float) if target.is_float else ("integer", int)
    if not target.is_float and any(isinstance(v, float) and v != math.floor(v) for v in values):
        raise fail(f"expected integers for arange of {target.mlir}, got {values}")
    attrs = dict(zip((f"{kind}_start", f"{kind}_limit", f"{kind}_delta"), map(convert, values), strict=True))
    return dispatch("arange", dtype=target, **attrs)


def _counted(start: Any, end: Any, step: Any, dtype: DType | None) -> Tensor:
    """Numbers from and to sizes that are known at run time only."""
    known = [as_number(v) if is_number(v) else v for v in (start, end, step) if not isinstance(v, Size)]
    if isinstance(step, Size) or any(type(v) not in (int, float) for v in known) or not step:
        raise fail(f"expected numbers, and a static step other than 0, with a dynamic size, got {start, end, step}")
    if all(isinstance(v, int) for v in known):
        count, kind = -((start - end) // step), dtypes.int64
    else:
        count = rounded("ceil", real("/", real("-", end, start), step))
        kind = dtype if dtype and dtype.is_float else get_default_dtype()
    return cast(add(mul(cast(shaped([count]), kind), step), start), dtype or kind)


@tensor_factory
def eye(n: int, m: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """An n x m matrix (square without m) of ones on the diagonal."""
    rows, cols = as_arguments([(n, n if m is None else m)])
    dtype = dtype or get_default_dtype()
    if not any(isinstance(d, Size) for d in (rows, cols)):
        return cast(dispatch("eye", dtype=dtype.part if dtype.is_complex else dtype, rows=rows, cols=cols), dtype)
    return cast(eq(unsqueeze(arange(rows), 1), arange(cols)), dtype)


def _evenly(start: Any, end: Any, steps: Any, name: str) -> Tensor:
    """Numbers (float64) from `start` to `end`, both included; the second half is counted from the end."""
    start, end, steps = map(as_scalar, (start, end, steps))
    if not is_number(start) or not is_number(end):
        raise fail(f"expected numbers as start and end of {name}, got {start!r} and {end!r}")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise fail(f"expected steps of {name} as an integer of at least 0, got {steps!r}")
    first, last = float(start), float(end)
    step = (last - first) / max(steps - 1, 1)
    number = arange(steps, dtype=dtypes.float64)
    from_end = add(mul(sub(number, float(steps - 1)), step), last)
    numbers: Tensor = where(lt(number, max(steps / 2, 1)), add(mul(number, step), first), from_end)
    return numbers


@tensor_factory
def linspace(start: float, end: float, steps: int, *, dtype: DType | None = None) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`; computed in float64."""
    return cast(_evenly(start, end, steps, "linspace"), dtype or get_default_dtype())


@tensor_factory
def logspace(start: float, end: float, steps: int, base: float = 10.0, *, dtype: DType | None = None) -> Tensor:
    """`base` to the powers of `steps` evenly spaced numbers from `start` to `end`; computed in float64."""
    return cast(pow(float(base), _evenly(start, end, steps, "logspace")), dtype or get_default_dtype())


@tensor_factory
def hann_window(window_length: int, periodic: bool = True, *, dtype: DType | None = None) -> Tensor:
    """The Hann window sin^2(pi * n / N) of a length; N is the length where `periodic`, else one less.

    Raises:
        OneFlowError: the length is negative, or `dtype` is no type of floats.
    """
    target = dtype or get_default_dtype()
    if window_length < 0 or not target.is_float:
        raise fail(f"expected a length of at least 0 and floats for hann_window, got {window_length} and {target!r}")
    number = arange(window_length, dtype=dtypes.float64)
    steps = window_length if periodic else window_length - 1
    return cast(square(sin(mul(number, math.pi / steps))) if steps > 0 else add(number, 1.0), target)
