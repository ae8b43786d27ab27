"""Tensors of numbers, and of arrays of any library."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.dialect.dtypes import convert as to_type
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.dispatch import as_tensor, current_builder, detached, dispatch
from oneflow.frontend.core.factories import tensor_factory
from oneflow.frontend.core.promotion import as_number, fitting
from oneflow.frontend.core.settings import get_default_dtype
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tensor import EagerTensor, wrapped


@tensor_factory
def tensor(data: Any, *, dtype: DType | None = None) -> Tensor:
    """A tensor of Python numbers, nested lists of them, or a copy of an array; Python floats become float32,
    complex numbers complex64. In a trace the tensor is a constant. A tensor is copied, without its gradient.

    Raises:
        TypeError: the element type is none of ours.
        OneFlowError: a Python number is beyond the range of an integer type.
    """
    if isinstance(data, Tensor):
        copied: Tensor = dispatch("cast", data, dtype=dtype or data.dtype)
        return copied.detach() if isinstance(copied, EagerTensor) else detached(copied)
    array = np.array(to_array(data) if is_array(data) else data)
    if dtype is None and not is_array(data) and array.dtype in (np.float64, np.complex128):
        dtype = get_default_dtype() if array.dtype == np.float64 else get_default_dtype().complex
    if dtype is not None and not is_array(data) and array.size and array.dtype.kind in "iuf":
        for number in (array.min(), array.max()):
            fitting(as_number(number), dtype)
    array = array if dtype is None else to_type(array, dtype)
    return wrapped(array) if current_builder().eager else as_tensor(array)


@tensor_factory
def as_tensor_of(data: Any, *, dtype: DType | None = None) -> Tensor:
    """`data` as a tensor: a tensor is returned, an array keeps its memory where possible, other data are copied;
    with `dtype` converted.
    """
    if isinstance(data, Tensor):
        result = data
    elif is_array(data) and current_builder().eager:
        result = from_numpy(to_array(data))
    else:
        result = tensor(data)
    return result if dtype in (None, result.dtype) else dispatch("cast", result, dtype=dtype)


def from_numpy(array: Any) -> EagerTensor:
    """A tensor in the memory of an array, if the array is contiguous and in native byte order; updates of either
    change both.

    Raises:
        TypeError: the element type is none of ours.
    """
    result = wrapped(array)
    result.variable.shared_memory().exposed = True
    return result
