"""Functions whose result shapes depend on values: for tensors with values only. Positions are computed on the host;
gradients flow through the elements that are read there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType, int32
from oneflow.dialect.sbp import B
from oneflow.frontend.core.arrays import is_on_ranks, redistribute
from oneflow.frontend.core.devices import move
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.shape import axis, broadcast_to, reshape

__all__ = ["argwhere", "masked_select", "nonzero", "unique"]


def values_of(x: Any, name: str, advice: str) -> tuple[Any, np.ndarray]:
    """A tensor and its values.

    Raises:
        TraceError: a function is being traced.
    """
    if not current_builder().eager:
        raise fail(f"the shape of {name} depends on values, which are not known while a function is traced; {advice}")
    tensor: Any = as_tensor(x)
    return tensor, tensor.array


def _like(x: Any, array: np.ndarray) -> Tensor:
    """An array as a tensor on the device of `x`, or whole on the ranks of `x`."""
    ordered, data = np.asarray(array, order="C"), x.storage
    if is_on_ranks(data):
        builder = current_builder()
        return builder.to_tensor(builder.wrap(redistribute(ordered, data.placement, (B,) * len(data.nd))))
    return as_tensor(move(ordered, x.device))


def nonzero(x: Any, as_tuple: bool = False) -> Any:
    """The positions of all elements but zeros, one in a row (int64), in row-major order.

    With `as_tuple` a vector for each dimension, for use as an index; a scalar is a vector of one element then.

    Raises:
        TraceError: a function is being traced.
    """
    tensor, values = values_of(x, "nonzero(x)", "keep the mask and use flow.where, or its sum for a count")
    if as_tuple:
        return tuple(_like(tensor, at) for at in np.nonzero(np.atleast_1d(values)))
    return _like(tensor, np.argwhere(values).astype(np.int64))


def argwhere(x: Any, dtype: DType = int32) -> Tensor:
    """The positions of all elements but zeros, one in a row, of the type `dtype`."""
    return cast(nonzero(x), dtype)


def masked_select(x: Any, mask: Any) -> Tensor:
    """The elements of `x` where `mask`, a tensor of bools, is true, as a vector; the two broadcast.

    Raises:
        TraceError: a function is being traced.
        OneFlowError: the mask has no bools, or other sizes.
    """
    advice = "write flow.where(mask, x, 0), which keeps the shape"
    chosen = values_of(mask, "masked_select", advice)[1]
    tensor = values_of(x, "masked_select", advice)[0]
    if chosen.dtype != np.bool_:
        raise fail(f"expected a mask of bools for masked_select, got {chosen.dtype}; write mask != 0")
    try:
        sizes = np.broadcast_shapes(tensor.shape, chosen.shape)
    except ValueError:
        raise fail(f"expected a mask that broadcasts to {tensor.desc}, got one of shape {chosen.shape}") from None
    broadcast = tensor if sizes == tensor.shape else broadcast_to(tensor, sizes)
    at = np.flatnonzero(np.broadcast_to(chosen, sizes))
    return dispatch("gather", reshape(broadcast, (-1,)), _like(tensor, at), axis=0)


def unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    dtype: DType = int32,
) -> Any:
    """The distinct elements of `x`, or with `dim` its distinct slices along that, in ascending order, or without
    `sorted` in the order of their first occurrences.

    `return_inverse` adds the position among these of each element of `x`, `return_counts` the number of occurrences
    in `x`, in the type `dtype`. NaN is distinct from NaN.

    Raises:
        TraceError: a function is being traced.
    """
    tensor, values = values_of(x, "unique(x)", "call unique on the result of the function")
    unique_axis = None if dim is None else axis(tensor, dim)
    wide = values.astype(np.float32) if tensor.dtype.is_float and tensor.dtype.bits == 16 else values
    distinct, first, inverse, counts = np.unique(
        wide, return_index=True, return_inverse=True, return_counts=True, axis=unique_axis, equal_nan=False
    )
    order = np.arange(len(first)) if sorted else np.argsort(first)
    inverse = np.argsort(order)[inverse.reshape(values.shape if unique_axis is None else -1)]
    elements = np.take(distinct, order, unique_axis or 0).astype(values.dtype)
    numbers = (array.astype(dtype.numpy) for array in [inverse] * return_inverse + [counts[order]] * return_counts)
    wanted = [elements, *numbers]
    results = tuple(_like(tensor, array) for array in wanted)
    return results if len(results) > 1 else results[0]
