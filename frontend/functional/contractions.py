"""Sums of products of tensors over labelled dimensions: `einsum`, `tensordot`.

Operands are joined two by two, from left to right, each pair by one batched matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.products import matmul
from oneflow.frontend.functional.rules import as_common
from oneflow.frontend.functional.scattering import diagonal

__all__ = ["einsum", "tensordot"]

#: The labels of the dimensions of a tensor.
Labels = list[str]


def einsum(equation: str, *operands: Any) -> Tensor:
    """The sum of products that an equation such as "ij,jk->ik" states: letters are labels of dimensions. A label that
    the result lacks is summed over. A label that occurs twice in one operand selects the diagonal. "..." stands
        for all further dimensions, which broadcast. Without "->" the result has the labels that occur once, in
        alphabetical order, after the dimensions of "...". Operands may be given as one list.

        Raises:
            OneFlowError: the equation does not fit the operands.
    """
    listed = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    if not isinstance(equation, str) or not listed:
        raise fail(f"expected an equation and at least one operand for einsum, got {equation!r} and {len(listed)}")
    tensors = as_common(*map(as_tensor, listed))
    terms, result = _parse(equation, tensors)
    parts = [_diagonals(x, term) for x, term in zip(tensors, terms, strict=True)]
    parts = _without_ones(equation, parts)
    x, labels = parts[0]
    for number, (other, others) in enumerate(parts[1:], 2):
        later = {label for _, term in parts[number:] for label in term}
        x, labels = _joined(x, labels, other, others, later | set(result))
    summed = [i for i, label in enumerate(labels) if label not in result]
    x = r.sum(x, summed, dtype=x.dtype) if summed else x
    labels = [label for label in labels if label in result]
    for label in result:  # a dimension that was of size 1 in every operand
        if label not in labels:
            x, labels = sh.unsqueeze(x, 0), [label, *labels]
    return sh.permute(x, [labels.index(label) for label in result]) if labels != result else x


def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """The sum of products over dimensions of `a` and `b`: the last of `a` with the first of `b` where `dims` is a
    number, else the dimensions of a pair of lists, one with one. A dimension of size 1 is repeated.

    Raises:
        OneFlowError: the dimensions do not exist, one occurs twice, or their sizes differ.
    """
    a, b = as_common(a, b)
    if isinstance(dims, Tensor):
        dims = dims.item() if dims.numel() == 1 else dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.rank, b.rank):
            raise fail(f"expected dims in [0, {min(a.rank, b.rank)}] for tensordot, got {dims}")
        dims = list(range(a.rank - dims, a.rank)), list(range(dims))
    axes = [[sh.axis(x, d) for d in sh.as_list(dim)] for x, dim in zip((a, b), dims, strict=True)]
    if len(axes[0]) != len(axes[1]):
        raise fail(f"expected as many dimensions of each operand for tensordot, got {dims}")
    if any(len(set(side)) < len(side) for side in axes):
        raise fail(f"expected each dimension of an operand once for tensordot, got {dims}")
    for i, j in zip(*axes, strict=True):
        if a.shape[i] != b.shape[j] and None not in (a.shape[i], b.shape[j]) and 1 not in (a.shape[i], b.shape[j]):
            raise fail(f"expected equal sizes for tensordot, got dimension {i} of {a.desc} and {j} of {b.desc}")
    a, b = (
        _folded(x, [at for at, other in zip(own, others, strict=True) if y.shape[other] == 1 != x.shape[at]])
        for x, y, own, others in ((a, b, axes[0], axes[1]), (b, a, axes[1], axes[0]))
    )
    labels = [[f"{side}{i}" for i in range(x.rank)] for side, x in (("a", a), ("b", b))]
    for i, j in zip(*axes, strict=True):
        labels[1][j] = labels[0][i]
    kept = set(labels[0]) ^ set(labels[1])
    return _joined(a, labels[0], b, labels[1], kept)[0]


def _folded(x: Tensor, axes: Sequence[int]) -> Tensor:
    """`x` summed over dimensions, which have the size 1 then."""
    return r.sum(x, axes, True) if axes else x


def _parse(equation: str, tensors: Sequence[Tensor]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result; dimensions of "..." have numbers, counted from the last."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(tensors):
        raise fail(f"expected {len(texts)} operands for einsum {equation!r}, got {len(tensors)}")
    terms = [_labels(equation, text, x.rank) for text, x in zip(texts, tensors, strict=True)]
    ellipsis_rank = max((sum(label.isdigit() for label in term) for term in terms), default=0)
    dots = [str(n) for n in reversed(range(ellipsis_rank))]
    if arrow:
        before, has_dots, after = right.partition("...")
        result = [*before, *(dots if has_dots else []), *after]
    else:
        letters = [label for term in terms for label in term if not label.isdigit()]
        result = [*dots, *sorted(label for label in set(letters) if letters.count(label) == 1)]
    known = {label for term in terms for label in term}
    wrong = [label for label in result if label not in known or result.count(label) > 1]
    if wrong:
        raise fail(f"expected on the right of einsum {equation!r} letters of its left, each once, got {wrong[0]!r}")
    return terms, result


def _labels(equation: str, text: str, rank: int) -> Labels:
    before, dots, after = text.partition("...")
    if not all(c.isalpha() and c.isascii() for c in before + after):
        raise fail(f"expected letters, one for each dimension, and ... in einsum {equation!r}, got {text!r}")
    free = rank - len(before + after)
    if free < 0 or (free and not dots):
        raise fail(f"expected an operand of {len(before + after)} dimensions for {text!r} of einsum, got {rank}")
    return [*before, *(str(n) for n in reversed(range(free))), *after]


def _diagonals(x: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """A tensor without labels that occur twice: their dimensions are replaced by the diagonal."""
    while repeated := [label for label in labels if labels.count(label) > 1]:
        first = labels.index(repeated[0])
        second = labels.index(repeated[0], first + 1)
        if x.shape[first] != x.shape[second]:
            raise fail(f"expected equal sizes of {repeated[0]!r} in einsum, got {x.desc}")
        x = diagonal(x, 0, first, second)
        labels = [*(label for i, label in enumerate(labels) if i not in (first, second)), repeated[0]]
    return x, labels


def _without_ones(equation: str, parts: Sequence[tuple[Tensor, Labels]]) -> list[tuple[Tensor, Labels]]:
    """Operands without the dimensions of size 1 that broadcast to another operand's.

    Raises:
        OneFlowError: sizes of one label differ.
    """
    sizes: dict[str, Any] = {}
    for x, labels in parts:
        for label, size in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, None, known) and known is not None:
                raise fail(f"expected one size of {label!r} in einsum {equation!r}, got {known} and {size}")
    kept_names = []
    for x, labels in parts:
        ones = [i for i, label in enumerate(labels) if x.shape[i] == 1 and sizes[label] != 1]
        kept = [label for i, label in enumerate(labels) if i not in ones]
        kept_names.append((sh.squeeze(x, ones) if ones else x, kept))
    return kept_names


def _joined(a: Tensor, at: Labels, b: Tensor, bt: Labels, kept: set[str]) -> tuple[Tensor, Labels]:
    """The product of two tensors, summed over the labels that are not kept."""
    a, at = _summed(a, at, kept | set(bt))
    b, bt = _summed(b, bt, kept | set(at))
    batch = [label for label in at if label in bt and label in kept]
    inner = [label for label in at if label in bt and label not in kept]
    rows = [label for label in at if label not in bt]
    columns = [label for label in bt if label not in at]
    product = matmul(_grouped(a, at, (batch, rows, inner)), _grouped(b, bt, (batch, inner, columns)))
    sizes = dict(zip([*bt, *at], [*b.sizes(), *a.sizes()], strict=True))
    labels = [*batch, *rows, *columns]
    return sh.reshape(product, [sizes[label] for label in labels]), labels


def _summed(x: Tensor, labels: Labels, kept: set[str]) -> tuple[Tensor, Labels]:
    summed = [i for i, label in enumerate(labels) if label not in kept]
    return (r.sum(x, summed, dtype=x.dtype) if summed else x), [label for label in labels if label in kept]


def _grouped(x: Tensor, labels: Labels, groups: Sequence[Labels]) -> Tensor:
    """A tensor with one dimension for each group of labels."""
    order = [labels.index(label) for group in groups for label in group]
    x = sh.permute(x, order) if order != list(range(x.rank)) else x
    sizes = iter(x.sizes())
    return sh.reshape(x, [math.prod([next(sizes) for _ in group]) for group in groups])
