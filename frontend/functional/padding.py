"""Tensors with a border."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional.gathering import index_select
from oneflow.frontend.functional.shape import cat, narrow, reshape, squeeze, unsqueeze
from oneflow.frontend.functional.source import arange, full

__all__ = [
    "pad",
]

#: The operators whose borders are made of the elements inside.
_MIRRORS = {"reflect": "reflection_pad", "replicate": "replication_pad"}


def as_batch(x: Tensor, spatial: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Images as a batch, one of 1 for a single image, and a function that drops the added dimension of results."""
    if x.rank != spatial + 1:
        return x, lambda result: result
    return unsqueeze(x, 0), lambda result: squeeze(result, 0)


def pad(x: Any, pad: Sequence[int | Size], mode: str = "constant", value: float = 0) -> Tensor:
    """`x` with a border: `(before, after)` of the last dimension, then of the one before it, and so on.

    `mode` is "constant", for `value` everywhere, or for one, two or three spatial dimensions of images "reflect" and
    "replicate", which mirror them at their outermost elements or repeat these, and "circular". Negative amounts cut.
    """
    x, amounts = as_tensor(x), list[Any](pad)
    if len(amounts) % 2 or len(amounts) > 2 * x.rank:
        text = f"expected pairs of (before, after) for at most {x.rank} dimensions"
        raise fail(f"{text}, got {len(amounts)} numbers {amounts}")
    if mode == "constant":
        return _filled(x, amounts, value)
    spatial = len(amounts) // 2
    if mode not in (*_MIRRORS, "circular"):
        raise fail(f'expected mode "constant", "reflect", "replicate" or "circular" for pad, got {mode!r}')
    if not 1 <= spatial <= 3 or x.rank not in (spatial + 1, spatial + 2):
        raise fail(f"expected images of {spatial} spatial dimensions for mode {mode!r} and {amounts}, got {x.desc}")
    images, drop_batch = as_batch(x, spatial)
    return drop_batch(_circular(images, amounts) if mode == "circular" else _mirrored(images, amounts, mode))


def _filled(x: Tensor, amounts: Sequence[int], value: float) -> Tensor:
    pairs = [(0, 0)] * (x.rank - len(amounts) // 2)
    pairs += [(amounts[i], amounts[i + 1]) for i in range(len(amounts) - 2, -1, -2)]
    if any(isinstance(n, Size) for n in amounts):
        return _extended(x, pairs, value)
    before, after = ([p[side] for p in pairs] for side in (0, 1))
    return dispatch("pad", x, padding_before=before, padding_after=after, **_fill(x, value))


def _extended(x: Tensor, pairs: Sequence[tuple[Any, Any]], value: float) -> Tensor:
    """Borders of dynamic sizes, which do not cut: one dimension after the other."""
    for dim, pair in enumerate(pairs):
        sizes = x.sizes()
        first, last = (full((*sizes[:dim], n, *sizes[dim + 1 :]), value, dtype=x.dtype) for n in pair)
        x = cat([first, x, last], dim) if any(isinstance(n, Size) or n for n in pair) else x
    return x


def _fill(x: Tensor, value: float) -> dict[str, float]:
    """The attribute of a border's value that elements of the type of `x` are made from."""
    if x.dtype.is_inexact:
        return {"floating_constant_value": float(value)}
    if not math.isfinite(value):
        raise fail(f"expected a finite value for pad of {x.desc}, got {value}")
    return {"integral_constant_value": int(value)}


def _mirrored(x: Tensor, amounts: Sequence[int], mode: str) -> Tensor:
    """Pads up to two dimensions at once. Borders of a volume are padded in two steps, with the same result."""
    if any(isinstance(n, Size) for n in amounts):
        for number, pair in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
            x = _gathered(x, x.rank - 1 - number, *pair, mode)
        return x
    if len(amounts) < 6:
        return dispatch(f"{_MIRRORS[mode]}{len(amounts) // 2}d", x, padding=list(amounts))
    n, c, depth, *plane = x.sizes()
    wide = _mirrored(reshape(x, (n, c * depth, *plane)), amounts[:4], mode)
    *_, height, width = wide.sizes()
    outer = _mirrored(reshape(wide, (n, c, depth, height * width)), [0, 0, *amounts[4:]], mode)
    return reshape(outer, (n, c, outer.size(2), height, width))


def _gathered(x: Tensor, dim: int, before: Any, after: Any, mode: str) -> Tensor:
    """A border of dynamic size along one dimension: the elements at the positions of the result."""
    size = x.size(dim)
    at = e.sub(arange(size + before + after), before)
    if mode == "reflect":
        at = e.add(e.neg(e.abs(e.sub(e.abs(at), size - 1))), size - 1)
    else:
        at = e.maximum(e.minimum(at, size - 1), 0)
    return index_select(x, dim, at)


def _circular(x: Tensor, amounts: Sequence[int]) -> Tensor:
    for number, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        dim = x.rank - 1 - number
        size = x.size(dim)
        if min(before, after) < 0 or (isinstance(size, int) and max(before, after) > size):
            raise fail(f"expected circular padding of 0 to {size} along dimension {dim}, got {(before, after)}")
        x = cat([narrow(x, dim, size - before, before), x, narrow(x, dim, 0, after)], dim)
    return x
