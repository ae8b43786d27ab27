"""`x[key] = value` as operators: the tensor that `x` becomes.

The box that the index cuts out of `x` gets other elements, the last ones of equal positions, and is set into `x`
again. `write` makes the operator that gives what `x` becomes, where that may be in its memory.
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
from oneflow.frontend.methods.index import POSITIONS, Index, is_one, read

#: Makes an operator (its name and operands) whose result is like the operand of a number, with other elements.
Write = Callable[..., Tensor]


def anew(name: str, number: int, *operands: Any, **attrs: Any) -> Tensor:
    """The result of an operator in memory of its own."""
    return dispatch(name, *operands, **attrs)


def assigned(x: Tensor, key: Any, value: Tensor, write: Write = anew) -> Tensor:
    """`x` with a tensor of its element type at `key`.

    Raises:
        OneFlowError: the index is out of range, or the value does not broadcast to what it takes.
    """
    index = read(x, key)
    value = _aligned(index, value)
    part = x if index.is_whole else dispatch("slice", x, **index.box)
    if not index.positions and index.mask is None:
        part = F.expand_as(_in_box(index, value), part)
    else:
        within = write if index.is_whole else anew
        part = (_placed if index.positions else _chosen)(index, part, value, within)
        if index.is_whole:
            return part
    return write("slice_update", 0, x, part, **index.box)


def _aligned(index: Index, value: Tensor) -> Tensor:
    """The value with as many dimensions as the index takes, each of size 1 or that of it."""
    wanted, sizes = index.sizes, value.sizes()
    extra = max(len(sizes) - len(wanted), 0)
    given = (1,) * max(len(wanted) - len(sizes), 0) + sizes[extra:]
    if not all(_fits(d, 1) for d in sizes[:extra]) or not all(map(_fits, given, wanted)):
        raise _refused(index, value)
    return _shaped(value, given)


def _fits(size: Any, wanted: Any) -> bool:
    """Whether a size may broadcast to another."""
    return isinstance(size, Size) or isinstance(wanted, Size) or size in (1, wanted)


def _refused(index: Index, value: Tensor) -> Exception:
    if index.mask is not None:
        return fail(
            f"expected one value for all that the mask of {index.mask[0].desc} takes, got {value.desc}: how many "
            "elements these are is only known at run time; write flow.where(mask, values, x), with values like x"
        )
    return fail(f"expected a value that broadcasts to sizes {index.sizes} for x[..] = value, got {value.desc}")


def _in_box(index: Index, value: Tensor) -> Tensor:
    """A value of what slices, integers and a mask take, with the dimensions of the box."""
    sizes: list[Any] = [1] * len(index.ranges)
    for size, part in zip(value.sizes(), index.taken, strict=True):
        if isinstance(part, int):
            sizes[part] = size
    turned = [axis for axis in index.turned if not is_one(sizes[axis])]
    value = _shaped(value, sizes)
    return F.flip(value, turned) if turned else value


def _chosen(index: Index, box: Tensor, value: Tensor, write: Write) -> Tensor:
    """The box with the value where the mask says so."""
    assert index.mask is not None
    mask, first = index.mask
    sizes = [*[1] * first, *mask.sizes(), *[1] * (box.rank - first - mask.rank)]
    return write("where", 2, _beside(box, _shaped(mask, sizes)), _in_box(index, value), box)


def _placed(index: Index, box: Tensor, value: Tensor, write: Write) -> Tensor:
    """The box with the value at the positions."""
    axes = list(index.positions)
    order = [*axes, *(axis for axis in range(box.rank) if axis not in axes)]
    turned = _permuted(box, order)
    write = write if turned is box else anew
    rows = _in_rows(index, value, [*index.spread, *turned.sizes()[len(axes) :]])
    found = write("tensor_scatter_nd_update", 0, turned, rows, _beside(box, _indices(index)))
    return _permuted(found, np.argsort(order).tolist())


def _in_rows(index: Index, value: Tensor, sizes: Sequence[Any]) -> Tensor:
    """A value of what positions take, their dimensions before those of the box, which are 1 where integers are."""
    at, count = index.taken.index(POSITIONS), len(index.spread)
    numbers = {part: i if i < at else i + count - 1 for i, part in enumerate(index.taken) if isinstance(part, int)}
    order = [*range(at, at + count), *numbers.values()]
    rest = [axis for axis in range(len(index.ranges)) if axis not in index.positions]
    given = [*map(value.size, range(at, at + count)), *(value.size(numbers[a]) if a in numbers else 1 for a in rest)]
    value = _shaped(_permuted(value, [*order, *(i for i in range(value.rank) if i not in order)]), given)
    rows = value if _has(value, sizes) else F.expand(value, *sizes)
    turned = [count + rest.index(axis) for axis in index.turned]
    return F.flip(rows, turned) if turned else rows


def _indices(index: Index) -> Tensor:
    """The positions as rows."""
    spread, positions = index.spread, index.positions.values()
    if not any(isinstance(p, Tensor) for p in positions):
        return as_tensor(np.stack([np.broadcast_to(p, spread) for p in positions], -1))
    return F.stack([F.expand(as_tensor(p), *spread) for p in positions], -1)


def _beside(x: Tensor, made: Tensor) -> Tensor:
    """A tensor where another is, if that is known."""
    is_known = isinstance(x, EagerTensor) and isinstance(made, EagerTensor) and current_builder().eager
    return to_device(made, x.device) if is_known else made


def _shaped(x: Tensor, sizes: Sequence[Any]) -> Tensor:
    return x if _has(x, sizes) else F.reshape(x, sizes)


def _has(x: Tensor, sizes: Sequence[Any]) -> bool:
    """Whether a tensor is known to have these sizes."""
    known = x.sizes()
    return len(known) == len(sizes) and all(
        type(a) is type(b) is int and a == b for a, b in zip(known, sizes, strict=True)
    )


def _permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    return x if list(order) == list(range(x.rank)) else F.permute(x, order)
