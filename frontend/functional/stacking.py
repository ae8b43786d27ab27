"""Functions that join and split tensors along the dimensions in their names, and broadcast several tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.shape import Shape
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.index_parts import broadcast_sizes
from oneflow.frontend.functional.rules import describe

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors", "column_stack", "dsplit",
    "dstack", "hsplit", "hstack", "meshgrid", "row_stack", "tensor_split", "tile", "vsplit", "vstack",
]  # fmt: skip


def _with_rank(rank: int, new_axes: dict[int, tuple[int, ...]]) -> Callable[..., Any]:
    """The function that expands tensors to at least `rank` dimensions; `new_axes` has the positions of new axes by
    the rank.
    """

    def function(*tensors: Any) -> Any:
        operands = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
        expanded = [_unsqueezed(as_tensor(x), new_axes) for x in operands]
        return (
            expanded[0]
            if len(tensors) == 1 and expanded and not isinstance(tensors[0], (list, tuple))
            else tuple(expanded)
        )

    return describe(
        function,
        f"atleast_{rank}d",
        f"Tensors, with dimensions of size 1 added to tensors of less than {rank} dimensions.",
    )


def _unsqueezed(x: Tensor, new_axes: dict[int, tuple[int, ...]]) -> Tensor:
    for position in new_axes.get(x.rank, ()):
        x = sh.unsqueeze(x, position)
    return x


atleast_1d = _with_rank(1, {0: (0,)})
atleast_2d = _with_rank(2, {0: (0, 0), 1: (0,)})
atleast_3d = _with_rank(3, {0: (0, 0, 0), 1: (0, 2), 2: (2,)})


def _several(tensors: Sequence[Any], name: str) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, (list, tuple)) or not tensors:
        raise fail(f"expected a list of at least one tensor for {name}, got {tensors!r}")
    return [as_tensor(x) for x in tensors]


def hstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along dimension 1; vectors and scalars along dimension 0."""
    operands = [_unsqueezed(x, {0: (0,)}) for x in _several(tensors, "hstack")]
    return sh.cat(operands, 0 if operands[0].rank == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along dimension 0; vectors are rows."""
    return sh.cat([_unsqueezed(x, {0: (0, 0), 1: (0,)}) for x in _several(tensors, "vstack")], 0)


row_stack = vstack


def dstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along dimension 2, which is added where missing."""
    return sh.cat([_unsqueezed(x, {0: (0, 0, 0), 1: (0, 2), 2: (2,)}) for x in _several(tensors, "dstack")], 2)


def column_stack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along dimension 1; vectors are columns."""
    return sh.cat([_unsqueezed(x, {0: (0, 0), 1: (1,)}) for x in _several(tensors, "column_stack")], 1)


def tensor_split(x: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`x` split along `dim` into a number of chunks, the first ones larger by one, or before each of a list of
    positions.
    """
    x = as_tensor(x)
    at = sh.axis(x, dim)
    size = x.shape[at]
    if size is None:
        raise fail(f"expected a static size of dimension {dim} for tensor_split, got {x.desc}")
    sections = indices_or_sections.tolist() if isinstance(indices_or_sections, Tensor) else indices_or_sections
    if isinstance(sections, int):
        if sections < 1:
            raise fail(f"expected at least 1 section for tensor_split, got {sections}")
        sizes = [size // sections + int(i < size % sections) for i in range(sections)]
        bounds = [sum(sizes[:i]) for i in range(sections + 1)]
    else:
        bounds = [0, *(slice(0, i).indices(size)[1] for i in sections), size]
    pairs = itertools.pairwise(bounds)
    return tuple(sh.narrow(x, at, start, max(end - start, 0)) for start, end in pairs)


def _splitting(name: str, dim: int, least: int) -> Callable[..., tuple[Tensor, ...]]:
    def function(x: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
        x = as_tensor(x)
        if x.rank < least:
            raise fail(f"expected a tensor of at least {least} dimensions for {name}, got {x.desc}")
        at = 0 if x.rank == 1 else dim
        size = x.shape[at]
        if isinstance(indices_or_sections, int) and (indices_or_sections < 1 or (size or 0) % indices_or_sections):
            raise fail(f"expected sections that divide dimension {at} of {x.desc}, got {indices_or_sections}")
        return tensor_split(x, indices_or_sections, at)

    return describe(
        function, name, f"`tensor_split` along dimension {dim}, into sections of one size, or at positions of a list."
    )


hsplit = _splitting("hsplit", 1, 1)
vsplit = _splitting("vsplit", 0, 2)
dsplit = _splitting("dsplit", 2, 3)


def tile(x: Any, *dims: Any) -> Tensor:
    """`x` repeated `dims[i]` times along each dimension; fewer numbers than dimensions are for the last ones."""
    x, times = as_tensor(x), sh.as_arguments(dims)
    return sh.repeat(x, *([1] * (x.rank - len(times))), *times)


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape that shapes broadcast to.

    Raises:
        OneFlowError: the shapes are incompatible, or there is none.
    """
    sizes = [tuple(s) if isinstance(s, (tuple, list)) else (s,) for s in shapes]
    if not sizes:
        raise fail("expected at least one shape or tensor to broadcast, got none")
    broadcast = broadcast_sizes(sizes)
    for shape in sizes:
        for size, common in zip(reversed(shape), reversed(broadcast), strict=False):
            if not isinstance(size, Size) and not isinstance(common, Size) and size not in (1, common):
                raise fail(f"expected shapes that broadcast, got {' and '.join(str(list(s)) for s in sizes)}")
    return Shape(broadcast)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Tensors in the shape that they broadcast to."""
    listed = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    operands = [as_tensor(x) for x in listed]
    shape = broadcast_shapes(*(x.sizes() for x in operands))
    return tuple(sh.expand(x, *shape) for x in operands)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """For each of several vectors its elements along a dimension of its own of a common grid.

    `indexing="xy"` exchanges the first two dimensions.

    Raises:
        OneFlowError: there is none, one is no vector or number, element types differ, or `indexing` is another.
    """
    operands = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    vectors = [_unsqueezed(as_tensor(x), {0: (0,)}) for x in operands]
    if indexing not in ("ij", "xy"):
        raise fail(f'expected indexing to be "ij" or "xy", got {indexing!r}')
    wrong = next((x for x in vectors if x.rank != 1), None)
    if wrong is not None:
        raise fail(f"expected vectors for meshgrid, got {wrong.desc}")
    types = sorted({x.dtype.mlir for x in vectors})
    if len(types) != 1:
        text = f"expected vectors of one element type for meshgrid, got {', '.join(types) or 'no vector'}"
        raise fail(text, kind=TypeError if types else ValueError)
    axes = list(range(len(vectors)))
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    sizes = [vectors[axis].size(0) for axis in axes]  # exchanging two dimensions is its own inverse
    counts = [[-1 if i == at else 1 for i in range(len(sizes))] for at in axes]
    shaped = [sh.reshape(x, count) for x, count in zip(vectors, counts, strict=True)]
    return tuple(sh.expand(x, *sizes) for x in shaped)
