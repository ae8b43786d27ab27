"""Tensors made of what users have: numbers, and arrays of any library."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.devices import tensor_factory
from oneflow.frontend.core.dispatch import as_tensor, current_builder
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tensor import EagerTensor, wrapped


@tensor_factory
def tensor(data: Any, *, dtype: DType | None = None) -> Tensor:
    """A tensor of Python numbers, nested lists of them, or a copy of an array; Python floats become float32. In a
    trace it is a constant.

    Raises:
        TypeError: the element type is none of ours.
    """
    if isinstance(data, Tensor):
        raise TypeError("expected numbers or an array, got a tensor; write x.detach().clone()")
    array = np.array(to_array(data) if is_array(data) else data)
    if dtype is None and not is_array(data) and array.dtype == np.float64:
        dtype = dtypes.float32
    array = array if dtype is None else array.astype(dtype.numpy)
    return wrapped(array) if current_builder().eager else as_tensor(array)


def from_numpy(array: Any) -> EagerTensor:
    """A tensor in the memory of an array, if the array is contiguous and in native byte order; updates of either
    change both.

    Raises:
        TypeError: the element type is none of ours.
    """
    result = wrapped(array)
    result.variable.shared_memory().exposed = True
    return result
