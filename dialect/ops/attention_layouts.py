"""OneFlow's names of layouts of attention: B is the batch, M positions, H heads and K the vector of a head.

Letters in parentheses are one axis: BM(H3K) has queries, keys and values of a head after each other in its last axis,
BM(H2K) keys and values. In (BM)(HK) sequences of several lengths follow each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.record import Call
from oneflow.dialect.shapes import expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

#: The layouts of one tensor, and the layouts of several tensors.
SINGLE = ("BMHK", "BHMK", "MBHK", "BM(HK)", "MB(HK)")
LAYOUTS = (*SINGLE, "BM(H2K)", "MB(H2K)", "BM(H3K)", "MB(H3K)")
#: The layouts in which sequences of several lengths follow each other in one axis.
PACKED = ("(BM)HK", "(BM)(HK)", "(BM)(H2K)", "(BM)(H3K)")
#: The positions of tensors in layouts of several tensors.
INDEX = {"query": 0, "key": 1, "value": 2}
#: The sizes of the batch, of positions, of heads and of a head.
Sizes = tuple[int, int, int, int]


def axes_of(layout: str) -> list[str]:
    """The letters of each axis."""
    return [group or letter for group, letter in re.findall(r"\((\w+)\)|(\w)", layout)]


def expect_layout(op: Call, attribute: str, allowed: Sequence[str] = LAYOUTS) -> str:
    """Checks the layout that an attribute names.

    Raises:
        OperatorError: the layout is not one of `allowed`.
    """
    layout: str = op[attribute]
    if layout not in allowed:
        raise op.error(f"expected {attribute} {', '.join(allowed)}, got {layout!r}")
    return layout


def sizes_of(op: Call, name: str, layout: str, *, head_size: int = 0, heads: int = 0) -> Sizes:
    """The sizes of operand `name`; one axis for heads is cut by `head_size`, or in so many `heads`.

    Raises:
        OperatorError: the rank, a size or the head size does not fit the layout, or a size is not static.
    """
    x: TensorDesc = op[name]
    groups = axes_of(layout)
    expect_rank(op, name, x, len(groups))
    sizes: dict[str, int] = {}
    for letters, size in zip(groups, x.shape or (), strict=True):
        if size is None:
            raise op.error(f"expected static sizes of {name}, got {x}")
        sizes |= {"B": 1, "M": size} if letters == "BM" else {letters: size}
    joined = next((g for g in groups if "H" in g and len(g) > 1), None)
    if joined is not None:
        divisor = count_of(joined) * (head_size or heads)
        if divisor < 1 or sizes[joined] % divisor:
            raise op.error(f"expected the last axis of {name} to be a multiple of {divisor}, got {sizes[joined]}")
        other = sizes[joined] // divisor
        sizes["H"], sizes["K"] = (other, head_size) if head_size else (heads, other)
    for letter, wanted in (("H", heads), ("K", head_size)):
        if wanted and sizes[letter] != wanted:
            what = "heads" if letter == "H" else "a head size"
            raise op.error(f"expected {name} of {what} of {wanted}, got {sizes[letter]}")
    return sizes["B"], sizes["M"], sizes["H"], sizes["K"]


def count_of(letters: str) -> int:
    """How many tensors an axis has."""
    return int("".join(filter(str.isdigit, letters)) or 1)


def unpacked(ops: Builder, x: Value, layout: str, sizes: Sizes, index: int = 0) -> Value:
    """A tensor as BMHK; of a layout of several tensors, the query (0), the key (1) or the value (2)."""
    groups = axes_of(layout)
    by_letter = dict(zip("BMHK", sizes, strict=True))
    names = "".join(groups)
    if len(names) > len(groups):
        x = ops.reshape(x, shape=[by_letter[n] if n in by_letter else int(n) for n in names])
    for count in filter(str.isdigit, names):
        axis = names.index(count)
        one = ops.narrow(x, dim=axis, start=index - (3 - int(count)), length=1)
        x, names = ops.squeeze(one, axes=[axis]), names.replace(count, "")
    order = [names.index(n) for n in "BMHK"]
    return x if order == [0, 1, 2, 3] else ops.transpose(x, perm=order)


def packed(ops: Builder, x: Value, layout: str) -> Value:
    """A tensor in BMHK as one of `layout`."""
    groups = axes_of(layout)
    order = ["BMHK".index(n) for n in "".join(groups)]
    x = x if order == [0, 1, 2, 3] else ops.transpose(x, perm=order)
    shape = _joined_shape(groups, [d or 0 for d in x.shape])
    return x if len(groups) == 4 else ops.reshape(x, shape=shape)


def _joined_shape(groups: Sequence[str], sizes: Sequence[int]) -> list[int]:
    """The sizes of axes whose letters have `sizes`."""
    rest = iter(sizes)
    return [math.prod(next(rest) for _ in letters) for letters in groups]


def layout_factors(layout: str, heads: int, positions: str = "_") -> str:
    """Factors of a layout: the batch b, whole heads h, and the axis of positions."""
    whole_heads = f"h*{heads}" if heads > 1 else "_"
    names = {"B": "b", "M": positions, "K": "_", "BM": "_"}
    return " ".join(whole_heads if "H" in letters else names[letters] for letters in axes_of(layout))


def numpy_unpacked(x: Any, layout: str, sizes: Sizes, index: int = 0) -> Any:
    """`unpacked` in NumPy."""
    names = "".join(axes_of(layout))
    by_letter = dict(zip("BMHK", sizes, strict=True))
    x = x.reshape([by_letter[n] if n in by_letter else int(n) for n in names])
    for count in filter(str.isdigit, names):
        x, names = x.take(index - (3 - int(count)), names.index(count)), names.replace(count, "")
    return x.transpose([names.index(n) for n in "BMHK"])


def numpy_packed(x: Any, layout: str) -> Any:
    """`packed` in NumPy."""
    groups = axes_of(layout)
    moved = x.transpose(["BMHK".index(n) for n in "".join(groups)])
    return moved.reshape(_joined_shape(groups, moved.shape))


def numpy_sizes(x: Any, layout: str, *, heads: int = 0, head_size: int = 0) -> Sizes:
    """The sizes of an array of so many heads, or of heads of a size."""
    groups = axes_of(layout)
    batch, length = (1, x.shape[0]) if "BM" in groups else (x.shape[groups.index(n)] for n in "BM")
    if "H" in groups:
        return batch, length, x.shape[groups.index("H")], x.shape[-1]
    other = x.shape[-1] // (count_of(groups[-1]) * (heads or head_size))
    return batch, length, heads or other, head_size or other
