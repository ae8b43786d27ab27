"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.matmul: "matmul", F.mv: "mv", F.mm: "mm", F.bmm: "bmm", F.linear: "linear", F.dot: "dot", F.vdot: "vdot",
    F.outer: "outer ger", F.tensordot: "tensordot",
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


@aten("linalg_cross.default")
def cross(a: Any, b: Any, *, dim: int = -1) -> Any:
    return F.cross(a, b, dim)


@aten("einsum.default")
def einsum(equation: str, operands: Any, *, path: Any = None) -> Any:
    return F.einsum(equation, *operands)
