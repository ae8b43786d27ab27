"""Functions that reshape, slice and join tensors.

Dynamic sizes (`Size`) are allowed wherever sizes are: `x.reshape(x.shape[0] * 2, -1)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import sizes as sz
from oneflow.frontend.functional.rules import as_common

__all__ = [
    "broadcast_to", "cat", "chunk", "expand", "expand_as", "flatten", "flip", "movedim", "narrow", "permute",
    "repeat", "reshape", "reshape_as", "roll", "select", "slice", "split", "squeeze", "stack", "t", "transpose",
    "tril", "triu", "unbind", "unsqueeze", "view",
]  # fmt: skip

Dim = int | None
#: A `stop` that is the end of any dimension.
END = 2**63 - 1


def axis(x: Tensor, dim: Any, scalar: bool = False) -> int:
    """`dim` counted from the front; with `scalar`, a scalar has the dimension of a vector of one element.

    Raises:
        OneFlowError: `x` has no such dimension.
    """
    count = max(x.rank, int(scalar))
    dim = sz.as_size(dim)
    if not count:
        raise fail(
            f"expected a tensor of at least one dimension for dimension {dim!r}, got {x.desc}", kind=IndexError
        )
    if isinstance(dim, bool) or not isinstance(dim, int) or not -count <= dim < count:
        raise fail(f"expected a dimension in [{-count}, {count}) of {x.desc}, got {dim!r}", kind=IndexError)
    return dim % count


def as_list(dims: Any) -> Sequence[Any] | np.ndarray:
    """Dimensions, given as one or as a list."""
    return dims if isinstance(dims, (Sequence, np.ndarray)) and not isinstance(dims, str) else [dims]


def as_vector(x: Tensor) -> Tensor:
    """`x`, a scalar being taken for a vector of one element."""
    return x if x.rank else reshape(x, (1,))


def on_vector(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`function(x)`, a scalar being taken for a vector of one element."""
    return function(x) if x.rank else reshape(function(as_vector(x)), ())


def as_arguments(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments given one by one or as one list."""
    one = len(sizes) == 1 and isinstance(sizes[0], (list, tuple))
    return tuple(map(sz.as_size, sizes[0] if one else sizes))


def reshape(x: Any, shape: Sequence[Dim | Size]) -> Tensor:
    """The same elements in row-major order under another shape.

    A size may be -1, which is solved. None stands for a dynamic dimension of `x`, in their order.

    Raises:
        OneFlowError: the number of elements does not fit, or two sizes are unknown.
    """
    x = as_tensor(x)
    sizes = list(map(sz.as_size, shape))
    if Size in map(type, sizes):
        plain = _plain(x, sizes)
        if plain is None:
            return dispatch("reshape_like", x, sz.shaped(_filled(x, sizes)))
        sizes = plain
    target = _solve(x, sizes) if None in sizes else sizes
    if target.count(-1) > 1:
        advice = "pass all sizes but one as numbers, or write reshape_as"
        raise fail(f"expected at most one unknown size for {x.desc}, got {list(shape)}; {advice}")
    return dispatch("reshape", x, shape=target)


def _plain(x: Tensor, sizes: Sequence[Any]) -> list[Any] | None:
    """None in place of a size that is known at run time only, where the size can only be the size of `x`; else an
    empty list.
    """
    own = [d for d in sizes if isinstance(d, Size)]
    if len(own) != 1 or x.shape.count(None) != 1 or not own[0].is_size_of(x, x.shape.index(None)):
        return None
    plain: list[Any] = [None if isinstance(d, Size) else d for d in sizes]
    return plain if -1 in plain or _known(plain) == _known(x.shape) else None


def _known(shape: Sequence[Dim]) -> int:
    return math.prod(d for d in shape if d is not None)


def _filled(x: Tensor, sizes: Sequence[Any]) -> list[Any]:
    """Sizes with solved values of -1, and of None, which are the dynamic dimensions of `x` in their order."""
    dynamic = (d for d in x.sizes() if isinstance(d, Size))
    filled = [next(dynamic, -1) if d is None else d for d in sizes]
    free = [i for i, d in enumerate(filled) if isinstance(d, int) and d == -1]
    if len(free) > 1:
        raise fail(f"expected at most one -1 in a shape, got {list(sizes)}")
    for i in free:
        filled[i] = x.numel() // math.prod((*filled[:i], *filled[i + 1 :]))
    return filled


def _solve(x: Tensor, shape: Sequence[Dim]) -> list[int]:
    """Sizes for the operator: with as many None as `x` has dynamic dimensions, -1 is solved from the static ones."""
    target = list(shape)
    if None in target and target.count(None) == x.shape.count(None) and -1 in target:
        static, known = _known(x.shape), math.prod(d for d in target if d not in (None, -1))
        if known and static % known == 0:
            target[target.index(-1)] = static // known
    return [-1 if d is None else d for d in target]


def view(x: Any, *shape: Any) -> Tensor:
    """The elements of `x` in the same memory under another shape, whose sizes are given one by one or as a list.

    Raises:
        OneFlowError: as for `reshape`, or the elements of `x` in memory have no such shape.
    """
    result = reshape(x, as_arguments(shape))
    if isinstance(x, Tensor) and current_builder().is_copy(result):
        raise fail(
            f"expected a tensor whose elements have the shape {list(result.shape)} in memory too, got a view of type "
            f"{x.desc} with other strides; write reshape, which copies the elements where that is needed"
        )
    return result


def reshape_as(x: Any, other: Any) -> Tensor:
    """The elements of `x` under the shape of `other`, which may be dynamic."""
    return dispatch("reshape_like", x, other)


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """`x` with the dimensions from `start_dim` to `end_dim` as one, `x` itself if that is one dimension; a scalar
    becomes a vector.
    """
    x = as_tensor(x)
    if not x.rank:
        return reshape(x, (1,))
    first, last = axis(x, start_dim), axis(x, end_dim)
    if first > last:
        raise fail(f"expected start_dim before end_dim, got {start_dim} and {end_dim}")
    if first == last:
        return cast(Tensor, x)
    sizes = x.sizes()
    return reshape(x, (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]))


def permute(x: Any, *dims: Any) -> Tensor:
    """Dimension i of the result is dimension dims[i] of `x`."""
    return dispatch("transpose", x, perm=as_arguments(dims))


def transpose(x: Any, dim0: int, dim1: int) -> Tensor:
    """`x` with two dimensions exchanged."""
    x = as_tensor(x)
    a, b = axis(x, dim0, scalar=True), axis(x, dim1, scalar=True)
    perm = list(range(max(x.rank, 1)))
    perm[a], perm[b] = b, a
    return x if a == b else dispatch("transpose", x, perm=perm)


def t(x: Any) -> Tensor:
    """A matrix transposed; vectors and scalars are returned."""
    x = as_tensor(x)
    if x.rank > 2:
        raise fail(f"expected at most 2 dimensions for t, got {x.desc}; write x.transpose(-1, -2)")
    return dispatch("transpose", x, perm=[1, 0]) if x.rank == 2 else x


def movedim(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """`x` with dimensions `source` moved to `destination`; other dimensions keep their order."""
    x = as_tensor(x)
    pair = [[axis(x, d, scalar=True) for d in as_list(dim)] for dim in (source, destination)]
    if any(len(set(dims)) < len(dims) for dims in pair) or len(pair[0]) != len(pair[1]):
        raise fail(f"expected as many dimensions in source as in destination, each once, got {source}, {destination}")
    moved = dict(zip(pair[1], pair[0], strict=True))
    rest = iter(d for d in range(x.rank) if d not in pair[0])
    order = [moved[i] if i in moved else next(rest) for i in range(x.rank)]
    return x if order == list(range(x.rank)) else permute(x, order)


def unsqueeze(x: Any, dim: int) -> Tensor:
    """`x` with a new dimension of size 1 at `dim` of the result."""
    return dispatch("expand_dims", x, axis=dim)


def squeeze(x: Any, dim: int | Sequence[int] | None = None) -> Tensor:
    """`x` without its dimensions of size 1, or without the dimensions `dim` that have size 1."""
    x = as_tensor(x)
    dims = range(x.rank) if dim is None else as_list(dim)
    axes = [d for d in (axis(x, d, scalar=True) for d in dims) if x.rank and x.shape[d] == 1]
    return dispatch("squeeze", x, axes=axes) if axes else x


def expand(x: Any, *sizes: Any) -> Tensor:
    """`x` repeated along dimensions of size 1 and new leading dimensions; -1 or None keeps a dimension."""
    requested = as_arguments(sizes)
    if any(isinstance(d, Size) for d in requested):
        return _expanded(as_tensor(x), requested)
    return dispatch("expand", x, expand_shape=[-1 if d is None else d for d in requested])


def _expanded(x: Tensor, requested: Sequence[Any]) -> Tensor:
    """`expand` to sizes that are known at run time only; sizes of `x` itself are kept."""
    new = len(requested) - x.rank
    kept = [
        -1 if d is None or (isinstance(d, Size) and d.is_size_of(x, i)) else d for i, d in enumerate(requested, -new)
    ]
    if not any(isinstance(d, Size) for d in kept):
        return dispatch("expand", x, expand_shape=kept)
    filled = [x.size(i) if i >= 0 and isinstance(d, int) and d == -1 else d for i, d in enumerate(kept, -new)]
    return dispatch("broadcast_like", x, sz.shaped(filled), broadcast_axes=range(new))


def broadcast_to(x: Any, shape: Sequence[Dim]) -> Tensor:
    """`x` in a shape that it broadcasts to."""
    return expand(x, shape)


def expand_as(x: Any, other: Any) -> Tensor:
    """`x` in the shape of `other`, which may be dynamic."""
    x, other = as_tensor(x), as_tensor(other)
    return dispatch("broadcast_like", x, other, broadcast_axes=range(other.rank - x.rank))


def repeat(x: Any, *sizes: int) -> Tensor:
    """`x` repeated `sizes[i]` times along each dimension; more sizes than dimensions add leading dimensions."""
    out, times = as_tensor(x), as_arguments(sizes)
    if len(times) < out.rank:
        raise fail(f"expected at least {out.rank} numbers of repetitions for {out.desc}, got {list(times)}")
    for _ in range(len(times) - out.rank):
        out = unsqueeze(out, 0)
    for dim, count in enumerate(times):
        if isinstance(count, Size) or count != 1:
            out = _repeated(out, dim, count)
    return out


def _repeated(x: Tensor, dim: int, count: int) -> Tensor:
    """`x` repeated `count` times along `dim`: expanded along a new dimension, if sizes are known."""
    if not isinstance(count, Size) and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise fail(f"expected numbers of repetitions of at least 0, got {count!r}")
    if isinstance(count, int) and not count:
        return narrow(x, dim, 0, 0)
    if isinstance(count, int) and None in x.shape:
        return cat([x] * count, dim)
    sizes = x.sizes()
    tiles = expand(unsqueeze(x, dim), *sizes[:dim], count, *sizes[dim:])
    return reshape(tiles, (*sizes[:dim], count * sizes[dim], *sizes[dim + 1 :]))


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Tensors joined along `dim`, in their common element type; other dimensions are equal.

    Vectors without elements are joined with tensors of any shape.
    """
    if not tensors:
        raise fail("expected at least one tensor to join, got none")
    operands = as_common(*tensors)
    whole = next((x for x in operands if x.shape != (0,)), operands[0])
    if whole.rank != 1:
        at, sizes = axis(whole, dim), whole.sizes()
        empty = (*sizes[:at], 0, *sizes[at + 1 :])
        operands = [reshape(x, empty) if x.shape == (0,) else x for x in operands]
    return dispatch("cat", operands, axis=dim)


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension `dim`, in their common element type."""
    if not tensors:
        raise fail("expected at least one tensor to join, got none")
    return dispatch("stack", as_common(*tensors), axis=dim)


def _static(x: Tensor, dim: int, what: str) -> int:
    size: int | None = x.shape[dim]
    if size is None:
        raise fail(
            f"{what} needs a static size, got dimension {dim} of {x.desc}: the number of chunks depends on the size; "
            "give a list of sizes, which x.shape may be in, or trace with a static one"
        )
    return size


def split(x: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`x` cut along `dim` into chunks of one size (the last may be smaller), or of the sizes of a list."""
    x = as_tensor(x)
    at = axis(x, dim)
    sections = sz.as_size(split_size_or_sections)
    if isinstance(sections, (int, Size)):
        size = _static(x, at, "split")
        if isinstance(sections, Size) or sections < 1:
            raise fail(f"expected chunks of at least 1 element, of a number that is known, got {sections}")
        sections = [min(sections, size - start) for start in range(0, size, sections)] or [0]
    sizes = as_arguments([sections])
    if any(isinstance(d, Size) for d in (*sizes, x.size(at))):
        return sz.sections(x, at, sizes)
    if sum(sizes) != x.shape[at]:
        raise fail(f"expected sizes that add up to {x.shape[at]}, dimension {at} of {x.desc}, got {list(sizes)}")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(narrow(x, at, start, length) for start, length in zip(starts, sizes, strict=True))


def chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`x` cut along `dim` into at most `chunks` chunks of one size, the last possibly smaller.

    If the size is 0, or only known at run time, there are always `chunks`, the last ones possibly empty.
    """
    x = as_tensor(x)
    if chunks < 1:
        raise fail(f"expected at least 1 chunk, got {chunks}")
    at = axis(x, dim)
    if x.shape[at]:
        return split(x, -(-x.shape[at] // chunks), at)
    size = x.size(at)
    each = (size + (chunks - 1)) // chunks
    return split(x, [sz.clamp(size - each * i, 0, each) for i in range(chunks)], at)


def unbind(x: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of `x` along `dim`, without that dimension."""
    x = as_tensor(x)
    at = axis(x, dim)
    return tuple(select(x, at, i) for i in range(_static(x, at, "unbind")))


def select(x: Any, dim: int, index: int) -> Tensor:
    """Slice `index` of `x` along `dim`, without that dimension; a negative index counts from the end."""
    x = as_tensor(x)
    at = axis(x, dim)
    return squeeze(narrow(x, at, index, 1), at)


def narrow(x: Any, dim: int, start: int | Size, length: int | Size) -> Tensor:
    """`length` slices of `x` along `dim` from `start` on; a negative start counts from the end."""
    if not isinstance(start, Size) and not isinstance(length, Size):
        return dispatch("narrow", x, dim=dim, start=start, length=length)
    x = as_tensor(x)
    at = axis(x, dim)
    first = start if isinstance(start, Size) or start >= 0 else x.size(at) + start
    return sz.between(x, at, first, length)


def slice(x: Any, slice_tup_list: Sequence[Sequence[Dim]]) -> Tensor:
    """`(start, stop, step)` along each leading dimension, as Python slices; None is the default of each."""
    x, slices = as_tensor(x), slice_tup_list
    if len(slices) > x.rank:
        raise fail(f"expected at most {x.rank} slices of {x.desc}, got {len(slices)}")
    full = [*slices, *[(None, None, None)] * (x.rank - len(slices))]
    filled = [(start or 0, END if stop is None else stop, 1 if step is None else step) for start, stop, step in full]
    start, stop, step = zip(*filled, strict=True) if filled else ((), (), ())
    return dispatch("slice", x, start=start, stop=stop, step=step)


def flip(x: Any, dims: int | Sequence[int]) -> Tensor:
    """`x` with the order along `dims` reversed."""
    x = as_tensor(x)
    axes = [axis(x, d, scalar=True) for d in as_list(dims)]
    return dispatch("flip", x, dims=axes) if x.rank else x


def roll(x: Any, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """`x` with its elements moved by `shifts` along `dims`; elements that are moved beyond the end reappear at the
    front; without `dims` as one flattened dimension.
    """
    x = as_tensor(x)
    if dims is None:
        return reshape_as(roll(reshape(x, (-1,)), shifts, 0), x)
    pair = [[v] if isinstance(v, int) else list(v) for v in (shifts, dims)]
    if len(pair[0]) != len(pair[1]):
        raise fail(f"expected one shift per dimension, got {shifts} and {dims}")
    return dispatch("roll", x, shifts=pair[0], dims=pair[1])


def _triangle(name: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, diagonal: int = 0) -> Tensor:
        return dispatch(name, x, diagonal=diagonal)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


tril = _triangle("tril", "Each matrix of `x`, with zeros above the diagonal number `diagonal`.")
triu = _triangle("triu", "Each matrix of `x`, with zeros below the diagonal number `diagonal`.")
