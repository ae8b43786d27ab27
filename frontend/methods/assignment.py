"""`x[key] = value` as operators whose result is the updated tensor.

The box of `x` that the index selects receives the new elements and is written back into `x`. If positions repeat, the
last value wins. A `Write` runs each operator whose result may take the memory of `x`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.eager.function import to_device
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.methods.index import POSITIONS, Index, is_one, parse_index

#: Runs an operator (its name, an index, its operands) whose result may take the memory of the operand at that index.
Write = Callable[..., Tensor]


def out_of_place(name: str, number: int, /, *operands: Any, **attrs: Any) -> Tensor:
    """The result of an operator in new memory."""
    return dispatch(name, *operands, **attrs)


def assigned(x: Tensor, key: Any, value: Tensor, write: Write = out_of_place) -> Tensor:
    """`x` with a tensor of its element type at `key`.

    Raises:
        OneFlowError: the index is out of range, or the value does not broadcast to the selected part.
    """
    index = parse_index(x, key)
    value = _with_rank_of(index, value)
    part = x if index.is_full else dispatch("slice", x, **index.box)
    if not index.positions and index.mask is None:
        part = F.expand_as(_to_box(index, value), part)
    else:
        write_part = write if index.is_full else out_of_place
        part = (_scattered if index.positions else _where_masked)(index, part, value, write_part)
        if index.is_full:
            return part
    return write("slice_update", 0, x, part, **index.box)


def _with_rank_of(index: Index, value: Tensor) -> Tensor:
    """The value with as many dimensions as the result of the index, each of size 1 or of the size there."""
    index_sizes, sizes = index.sizes, value.sizes()
    extra = max(len(sizes) - len(index_sizes), 0)
    value_sizes = (1,) * max(len(index_sizes) - len(sizes), 0) + sizes[extra:]
    if not all(_fits(d, 1) for d in sizes[:extra]) or not all(map(_fits, value_sizes, index_sizes)):
        raise _shape_error(index, value)
    return _reshaped(value, value_sizes)


def _fits(size: Any, index_size: Any) -> bool:
    """Whether a size may broadcast to another."""
    return isinstance(size, Size) or isinstance(index_size, Size) or size in (1, index_size)


def _shape_error(index: Index, value: Tensor) -> Exception:
    if index.mask is not None:
        return fail(
            f"expected one value for all that the mask of {index.mask[0].desc} takes, got {value.desc}: how many "
            "elements these are is only known at run time; write flow.where(mask, values, x), with values like x"
        )
    return fail(f"expected a value that broadcasts to sizes {index.sizes} for x[..] = value, got {value.desc}")


def _to_box(index: Index, value: Tensor) -> Tensor:
    """A value for slices, integers and a mask, with the dimensions of the box."""
    sizes: list[Any] = [1] * len(index.ranges)
    for size, part in zip(value.sizes(), index.result_dims, strict=True):
        if isinstance(part, int):
            sizes[part] = size
    flipped = [axis for axis in index.flipped if not is_one(sizes[axis])]
    value = _reshaped(value, sizes)
    return F.flip(value, flipped) if flipped else value


def _where_masked(index: Index, box: Tensor, value: Tensor, write: Write) -> Tensor:
    """The box with the value where the mask is true."""
    assert index.mask is not None
    mask, first = index.mask
    sizes = [*[1] * first, *mask.sizes(), *[1] * (box.rank - first - mask.rank)]
    return write("where", 2, _on_same_device(box, _reshaped(mask, sizes)), _to_box(index, value), box)


def _scattered(index: Index, box: Tensor, value: Tensor, write: Write) -> Tensor:
    """The box with the value at the positions."""
    axes = list(index.positions)
    order = [*axes, *(axis for axis in range(box.rank) if axis not in axes)]
    permuted = _permuted(box, order)
    write = write if permuted is box else out_of_place
    rows = _to_rows(index, value, [*index.positions_shape, *permuted.sizes()[len(axes) :]])
    updated = write("tensor_scatter_nd_update", 0, permuted, rows, _on_same_device(box, _indices(index)))
    return _permuted(updated, np.argsort(order).tolist())


def _to_rows(index: Index, value: Tensor, sizes: Sequence[Any]) -> Tensor:
    """A value for positions: dimensions of the positions, then of the box; size 1 where the index has integers."""
    at, count = index.result_dims.index(POSITIONS), len(index.positions_shape)
    numbers = {
        part: i if i < at else i + count - 1 for i, part in enumerate(index.result_dims) if isinstance(part, int)
    }
    order = [*range(at, at + count), *numbers.values()]
    other_axes = [axis for axis in range(len(index.ranges)) if axis not in index.positions]
    value_sizes = [
        *map(value.size, range(at, at + count)),
        *(value.size(numbers[a]) if a in numbers else 1 for a in other_axes),
    ]
    value = _reshaped(_permuted(value, [*order, *(i for i in range(value.rank) if i not in order)]), value_sizes)
    rows = value if _has_sizes(value, sizes) else F.expand(value, *sizes)
    flipped = [count + other_axes.index(axis) for axis in index.flipped]
    return F.flip(rows, flipped) if flipped else rows


def _indices(index: Index) -> Tensor:
    """The positions as rows, one index for each dimension."""
    positions_shape, positions = index.positions_shape, index.positions.values()
    if not any(isinstance(p, Tensor) for p in positions):
        return as_tensor(np.stack([np.broadcast_to(p, positions_shape) for p in positions], -1))
    return F.stack([F.expand(as_tensor(p), *positions_shape) for p in positions], -1)


def _on_same_device(x: Tensor, other: Tensor) -> Tensor:
    """`other` on the device of `x`, where both have values."""
    if isinstance(x, EagerTensor) and isinstance(other, EagerTensor) and current_builder().eager:
        return to_device(other, x.device)
    return other


def _reshaped(x: Tensor, sizes: Sequence[Any]) -> Tensor:
    return x if _has_sizes(x, sizes) else F.reshape(x, sizes)


def _has_sizes(x: Tensor, sizes: Sequence[Any]) -> bool:
    """Whether a tensor is known to have this shape."""
    known = x.sizes()
    return len(known) == len(sizes) and all(
        type(a) is type(b) is int and a == b for a, b in zip(known, sizes, strict=True)
    )


def _permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    return x if list(order) == list(range(x.rank)) else F.permute(x, order)
