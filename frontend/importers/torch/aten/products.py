"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.matmul: "matmul mv", F.mm: "mm", F.bmm: "bmm", F.linear: "linear", F.dot: "dot vdot",
})  # fmt: skip


def _scaled(x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    product = product if alpha == 1 else F.mul(product, alpha)
    if beta == 0:
        return product
    return F.add(product, x if beta == 1 else F.mul(x, beta))


@aten("addmm.default", "baddbmm.default", "addmv.default")
def addmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _scaled(x, F.matmul(a, b), beta, alpha)


@aten("addbmm.default")
def addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _scaled(x, F.sum(F.matmul(a, b), 0), beta, alpha)


@aten("addr.default")
def addr(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _scaled(x, F.mul(F.unsqueeze(a, 1), b), beta, alpha)


@aten("outer.default", "ger.default")
def outer(a: Any, b: Any) -> Any:
    return F.mul(F.unsqueeze(a, 1), b)


@aten("linalg_cross.default")
def cross(a: Any, b: Any, *, dim: int = -1) -> Any:
    turned = [F.mul(F.roll(x, -1, dim), F.roll(y, -2, dim)) for x, y in ((a, b), (b, a))]
    return F.sub(*turned)


@aten("einsum.default")
def einsum(equation: str, operands: Any, *, path: Any = None) -> Any:
    """Two operands as a product of stacks of matrices; more one after the other."""
    terms, result = _axes(equation, operands)
    while len(terms) > 1:
        (a, x), (b, y), *rest = terms
        later = {c for axes, _ in rest for c in axes} | set(result)
        terms = [_joined(a, x, b, y, later), *rest]
    axes, x = terms[0]
    summed = [i for i, c in enumerate(axes) if c not in result]
    x = F.sum(x, summed) if summed else x
    kept = [c for c in axes if c in result]
    return F.permute(x, *[kept.index(c) for c in result]) if kept else x


def _axes(equation: str, operands: Any) -> tuple[list[tuple[str, Any]], str]:
    """The letters of the dimensions of each operand, and those of the result; digits stand for an ellipsis."""
    text = equation.replace(" ", "")
    given, arrow, result = text.partition("->")
    parts = given.split(",")
    spare = [x.rank - len(p.replace("...", "")) if "..." in p else 0 for p, x in zip(parts, operands, strict=True)]
    letters = "0123456789"[: max(spare)]
    named = [p.replace("...", letters[len(letters) - n :]) for p, n in zip(parts, spare, strict=True)]
    if not arrow:
        every = "".join(named)
        result = "..." + "".join(sorted(c for c in set(every) if every.count(c) == 1 and c not in letters))
    return list(zip(named, operands, strict=True)), result.replace("...", letters)


def _joined(a: str, x: Any, b: str, y: Any, later: set[str]) -> tuple[str, Any]:
    """The product of two operands, summed over the dimensions that nothing later has."""
    batch = [c for c in a if c in b and c in later]
    inner = [c for c in a if c in b and c not in later]
    x, left = _without(a, x, {*b, *later})
    y, right = _without(b, y, {*a, *later})
    rows, columns = [c for c in left if c not in b], [c for c in right if c not in a]
    sizes = dict(zip(right, y.sizes(), strict=True)) | dict(zip(left, x.sizes(), strict=True))
    x = _stacked(x, left, [batch, rows, inner], sizes)
    y = _stacked(y, right, [batch, inner, columns], sizes)
    axes = [*batch, *rows, *columns]
    return "".join(axes), F.reshape(F.matmul(x, y), [sizes[c] for c in axes])


def _without(axes: str, x: Any, kept: set[str]) -> tuple[Any, str]:
    """An operand summed over the dimensions that are in nothing else."""
    summed = [i for i, c in enumerate(axes) if c not in kept]
    return (F.sum(x, summed) if summed else x), "".join(c for c in axes if c in kept)


def _stacked(x: Any, axes: str, groups: list[list[str]], sizes: dict[str, Any]) -> Any:
    """An operand with a dimension for each group of its dimensions."""
    x = F.permute(x, *[axes.index(c) for group in groups for c in group])
    shape = []
    for group in groups:
        count = 1
        for c in group:
            count = sizes[c] * count
        shape.append(count)
    return F.reshape(x, shape)
