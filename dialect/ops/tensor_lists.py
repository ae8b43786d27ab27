"""Lists of tensors of one size: one tensor, whose first axes number the tensors of the list.

OneFlow's lists (tensor buffers) may hold tensors of different sizes; these are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.interpolation import static_shape
from oneflow.dialect.ops.row_normalization import letters
from oneflow.dialect.ops.source import NO_OPERAND
from oneflow.dialect.record import Call, no_sbp
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

#: The most tensors that a list gives: each is a result of the operation.
MAX_TENSORS = 1 << 16
FILLED = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)


def _check_to_list(op: Call) -> None:
    if not 0 <= op.instance_dims < max(op.in_.rank, 1):
        raise op.error(f"expected instance_dims from 0 to below the rank of in, got {op.instance_dims} for {op.in_}")


def _check_of_list(op: Call) -> None:
    expect_dtype(op, "in", op.in_, (op.dtype,))
    expect_rank(op, "in", op.in_, len(op.instance_shape), -1)
    first = op.in_.rank - len(op.instance_shape)
    for axis, size in enumerate(op.instance_shape, first):
        expect_dim(op, f"axis {axis} of in, whose tensors have the shape {list(op.instance_shape)},",
                   op.in_.shape[axis], size)  # fmt: skip


def _list_factors(op: Call) -> Factors:
    """The list can be split, and also the axes of its tensors where the attributes do not name these."""
    names = letters(op.in_.rank, op.in_.rank - len(op.attrs.get("instance_shape", ())))
    return Factors(f"{names} -> {names}", "joint")


composite(
    "tensor_to_tensor_buffer(in, instance_dims: int32 = 0) -> out",
    "`in` as a list of tensors, which have its last `instance_dims` axes.",
    write=lambda ops, op: op.in_, reference=lambda x: x, check=_check_to_list, sbp=_list_factors,
)  # fmt: skip
composite(
    "tensor_buffer_to_tensor(in, instance_shape: shape, dtype: data_type) -> out",
    "A list of tensors, each of the shape `instance_shape`, as one tensor.",
    write=lambda ops, op: op.in_, reference=lambda x: x, check=_check_of_list, sbp=_list_factors,
)  # fmt: skip


def _check_generated(op: Call) -> None:
    expect_dtype(op, "data_type", TensorDesc((), op.data_type), FILLED)
    count = math.prod(op.shape)
    if min(op.shape, default=1) < 0 or count < 1 or {len(op.shape_list), len(op.value_list)} != {count}:
        raise op.error(
            f"expected a shape and a value for each tensor of a list of shape {list(op.shape)}, at least one, got"
            f" {len(op.shape_list)} shapes and {len(op.value_list)} values"
        )
    if len(set(map(tuple, op.shape_list))) > 1:
        raise op.error(f"expected tensors of one shape, got {[list(s) for s in op.shape_list]}")


def _write_generated(ops: Builder, op: Call) -> Value:
    one = list(op.shape_list[0])
    parts = [
        ops.constant(dtype=op.data_type, shape=[1, *one], is_floating_value=True, floating_value=value)
        for value in op.value_list
    ]
    rows = ops.call("cat", parts, axis=0)[0] if len(parts) > 1 else parts[0]
    generated: Value = ops.reshape(rows, shape=[*op.shape, *one])
    return generated


def _numpy_generated(*, shape: Any, shape_list: Any, value_list: Any, data_type: Any) -> Any:
    values = np.asarray(value_list).astype(data_type.numpy).reshape(*shape, *[1] * len(shape_list[0]))
    return np.broadcast_to(values, (*shape, *shape_list[0]))


composite(
    "gen_tensor_buffer(shape: shape, shape_list: list_shape, value_list: list_float, data_type: data_type,"
    " dynamic_out: bool = False) -> out",
    "A list of the shape `shape` of tensors that hold one value each, from `value_list`.",
    write=_write_generated, reference=_numpy_generated, check=_check_generated,
    sbp=no_sbp("the values of a part depend on where it begins"), grad=NO_OPERAND,
)  # fmt: skip


def _shapes(op: Call) -> list[Sequence[int]]:
    """The shapes of the tensors of a list.

    Raises:
        OperatorError: tensors of these shapes do not make up `in`.
    """
    total = math.prod(static_shape(op, "in"))
    if "out_shapes" in op.attrs:
        shapes, kinds = list(op.out_shapes), list(op.out_dtypes)
    else:
        one = math.prod(op.out_shape)
        count = total // one if one > 0 else 1
        if count > MAX_TENSORS:
            raise op.error(f"expected at most {MAX_TENSORS} tensors of shape {list(op.out_shape)}, got {count}")
        shapes, kinds = [op.out_shape] * count, [op.out_dtype]
    counts = [math.prod(shape) for shape in shapes]
    if not shapes or min(counts) < 0 or len(set(counts)) > 1 or sum(counts) != total:
        raise op.error(
            f"expected tensors of one size that make up {op.in_}, got the shapes {[list(s) for s in shapes]}"
        )
    if set(kinds) != {op.in_.dtype}:
        raise op.error(f"expected tensors of type {op.in_.dtype.mlir}, got {', '.join(k.mlir for k in kinds)}")
    return shapes


def _write_parts(ops: Builder, op: Call) -> tuple[Value, ...]:
    shapes = _shapes(op)
    count, size = len(shapes), math.prod(shapes[0])
    rows = ops.reshape(op.in_, shape=[count, size])
    parts = (ops.slice(rows, start=[i, 0], stop=[i + 1, size], step=[1, 1]) for i in range(count))
    return tuple(ops.reshape(part, shape=list(shape)) for part, shape in zip(parts, shapes, strict=True))


def _numpy_parts(x: Any, **attrs: Any) -> tuple[Any, ...]:
    shapes = attrs.get("out_shapes") or [attrs["out_shape"]] * (x.size // math.prod(attrs["out_shape"]))
    rows = x.reshape(len(shapes), -1)
    return tuple(row.reshape(shape) for row, shape in zip(rows, shapes, strict=True))


def _part_factors(op: Call) -> Factors:
    unsplit = (" ".join("_" * len(shape)) for shape in _shapes(op))
    return Factors(f"{' '.join('_' * op.in_.rank)} -> {', '.join(unsplit)}", "joint")


for _name, _attrs in (
    ("tensor_buffer_to_list_of_tensors", "out_shape: shape, out_dtype: data_type"),
    ("tensor_buffer_to_list_of_tensors_v2", "out_shapes: list_shape, out_dtypes: list_data_type"),
):
    composite(
        f"{_name}(in, {_attrs}, dynamic_out: bool = False) -> out+", "The tensors of a list, one after the other.",
        write=_write_parts, reference=_numpy_parts, sbp=_part_factors,
    )  # fmt: skip
