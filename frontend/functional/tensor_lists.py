"""Lists of tensors of one size: one tensor, whose first axes number the tensors of the list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.core.tensor import Tensor

__all__ = ["gen_tensor_buffer", "tensor_buffer_to_list_of_tensors", "tensor_buffer_to_tensor",
           "tensor_to_tensor_buffer"]  # fmt: skip


def gen_tensor_buffer(
    shape: Sequence[int],
    shape_list: Sequence[Sequence[int]],
    value_list: Sequence[float],
    data_type: DType,
    dynamic_out: bool = False,
) -> Tensor:
    """A list of the shape `shape` of tensors that hold one value each, from `value_list`; all have one shape."""
    sizes = {"shape": list(shape), "shape_list": [list(one) for one in shape_list]}
    values = [float(value) for value in value_list]
    return dispatch("gen_tensor_buffer", **sizes, value_list=values, data_type=data_type, dynamic_out=dynamic_out)


def tensor_to_tensor_buffer(x: Any, instance_dims: int) -> Tensor:
    """A tensor as a list of tensors, which have its last `instance_dims` dimensions."""
    return dispatch("tensor_to_tensor_buffer", as_tensor(x), instance_dims=instance_dims)


def tensor_buffer_to_tensor(x: Any, dtype: DType, instance_shape: Sequence[int]) -> Tensor:
    """A list of tensors, each of the shape `instance_shape`, as one tensor."""
    return dispatch("tensor_buffer_to_tensor", as_tensor(x), dtype=dtype, instance_shape=list(instance_shape))


def tensor_buffer_to_list_of_tensors(
    tensor: Any, out_shapes: Sequence[Sequence[int]], out_dtypes: Sequence[DType]
) -> tuple[Tensor, ...]:
    """The tensors of a list, one after the other."""
    shapes, kinds = [list(shape) for shape in out_shapes], list(out_dtypes)
    name = "tensor_buffer_to_list_of_tensors_v2"
    return dispatch_all(name, as_tensor(tensor), out_shapes=shapes, out_dtypes=kinds)
