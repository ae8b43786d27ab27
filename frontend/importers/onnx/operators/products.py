"""Matrix products and sums of products."""

from __future__ import annotations

import functools
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.table import builder, rows

rows({"MatMul": F.matmul})


@builder("Gemm")
def _gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
    broadcast: int = 0,
) -> Tensor:
    if transB and not transA and alpha == beta == 1 and c is not None and c.rank == 1 and c.shape[0] == b.shape[0]:
        return F.linear(a, b, c)
    product = F.matmul(F.t(a) if transA else a, F.t(b) if transB else b)
    product = product if alpha == 1 else F.cast(F.mul(product, alpha), a.dtype)
    return product if c is None else F.add(product, c if beta == 1 else F.cast(F.mul(c, beta), a.dtype))


@builder("MatMulInteger")
def _matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    left, right = shifted(a, a_zero_point, -1), shifted(b, b_zero_point, None)
    return F.matmul(left, right)


def shifted(x: Tensor, zero_point: Tensor | None, axis: int | None = None) -> Tensor:
    """Integers less their zero point, as int32; zero points of rows are a column (`axis` is -1)."""
    wide = F.cast(x, dtypes.int32)
    if zero_point is None:
        return wide
    zero = F.cast(zero_point, dtypes.int32)
    return F.sub(wide, F.unsqueeze(zero, -1) if axis == -1 and zero.rank == 1 and zero.shape[0] != 1 else zero)


@builder("Einsum")
def _einsum(*xs: Tensor, equation: str) -> Tensor:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise OnnxError(f"expected {len(terms)} operands for {equation!r}, got {len(xs)}")
    extra = max(x.rank - len(t.replace("...", "")) for x, t in zip(xs, terms, strict=True))
    labels_of_terms = [_labels(t, x.rank) for x, t in zip(xs, terms, strict=True)]
    if arrow:
        result = _labels(right, len(right.replace("...", "")) + extra)
    else:
        every = [c for t in labels_of_terms for c in t]
        result = [c for c in dict.fromkeys(every) if c.isdigit()]
        result += sorted(c for c in set(every) if every.count(c) == 1 and not c.isdigit())
    unknown = [c for c in result if not any(c in t for t in labels_of_terms)]
    if unknown or len(set(result)) < len(result):
        raise OnnxError(f"expected different labels of operands in the result of {equation!r}, got {right!r}")
    factors = [_diagonal(x, t) for x, t in zip(xs, labels_of_terms, strict=True)]
    while len(factors) > 1:
        (a, of_a), (b, of_b), *rest = factors
        needed = {*result, *(c for _, t in rest for c in t)}
        factors = [_contracted(a, of_a, b, of_b, needed), *rest]
    x, labels = factors[0]
    summed = [i for i, c in enumerate(labels) if c not in result]
    x = F.sum(x, summed, dtype=x.dtype) if summed else x
    labels = [c for c in labels if c in result]
    return F.permute(x, [labels.index(c) for c in result]) if labels != result else x


def _labels(term: str, rank: int) -> list[str]:
    """The labels of a term; dimensions of an ellipsis are numbered from the last."""
    before, dots, after = term.partition("...")
    count = rank - len(before) - len(after)
    return [*before, *(str(i) for i in reversed(range(count if dots else 0))), *after]


def _diagonal(x: Tensor, labels: list[str]) -> tuple[Tensor, list[str]]:
    """A factor with each label once: the diagonal of equal labels."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            others = [i for i in range(x.rank) if i not in (first, second)]
            n, sizes = x.size(first), [x.size(i) for i in others]
            flat = F.reshape(F.permute(x, [*others, first, second]), [*sizes, n * n])
            x = F.getitem(flat, (..., slice(None, None, n + 1)))
            labels = [labels[i] for i in others] + [label]
    return x, labels


def _contracted(a: Tensor, of_a: list[str], b: Tensor, of_b: list[str], needed: set[str]) -> tuple[Tensor, list[str]]:
    """The product of two factors, summed over labels that nothing else needs: one stack of matrix products."""
    a, of_a = _without(a, of_a, {*of_b, *needed})
    b, of_b = _without(b, of_b, {*of_a, *needed})
    shared = [c for c in of_a if c in of_b]
    batch, inner = [c for c in shared if c in needed], [c for c in shared if c not in needed]
    rows, columns = [c for c in of_a if c not in shared], [c for c in of_b if c not in shared]
    if not inner and (not rows or not columns):
        return _multiplied(a, of_a, b, of_b)
    sizes = dict(zip([*of_b, *of_a], [*b.sizes(), *a.sizes()], strict=True))
    left, right = (
        F.permute(x, [labels.index(c) for c in (*batch, *order)])
        for x, labels, order in ((a, of_a, (*rows, *inner)), (b, of_b, (*inner, *columns)))
    )

    def size(of: list[str]) -> Any:
        return functools.reduce(lambda n, c: n * sizes[c], of, 1)

    lead = [sizes[c] for c in batch]
    stacked = F.matmul(
        F.reshape(left, [*lead, size(rows), size(inner)]), F.reshape(right, [*lead, size(inner), size(columns)])
    )
    labels = [*batch, *rows, *columns]
    return F.reshape(stacked, [sizes[c] for c in labels]), labels


def _without(x: Tensor, labels: list[str], wanted: set[str]) -> tuple[Tensor, list[str]]:
    """A factor summed over labels that occur nowhere else."""
    summed = [i for i, c in enumerate(labels) if c not in wanted]
    return (F.sum(x, summed, dtype=x.dtype) if summed else x), [c for c in labels if c in wanted]


def _multiplied(a: Tensor, of_a: list[str], b: Tensor, of_b: list[str]) -> tuple[Tensor, list[str]]:
    """The element-wise product over all labels."""
    labels = [*of_a, *(c for c in of_b if c not in of_a)]

    def spread(x: Tensor, of: list[str]) -> Tensor:
        order = [c for c in labels if c in of]
        x = F.permute(x, [of.index(c) for c in order]) if order != of else x
        sizes = iter(x.sizes())
        return F.reshape(x, [next(sizes) if c in of else 1 for c in labels])

    return F.mul(spread(a, of_a), spread(b, of_b)), labels
