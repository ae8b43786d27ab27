"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.errors import fail
from oneflow.frontend.importers.torch.aten.gradients import pulled_back
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.matmul: "matmul", F.mv: "mv", F.mm: "mm", F.bmm: "bmm", F.linear: "linear", F.dot: "dot", F.vdot: "vdot",
    F.outer: "outer ger",
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


@aten("_scaled_mm.default")
def scaled_mm(a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any = None, scale_result: Any = None,
              out_dtype: Any = None, use_fast_accum: bool = False) -> Any:  # fmt: skip
    return F._scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)


@aten("_scaled_mm_v2.default")
def scaled_mm_by_recipe(a: Any, b: Any, scale_a: Any, recipe_a: Any, swizzle_a: Any, scale_b: Any, recipe_b: Any,
                        swizzle_b: Any, bias: Any, out_dtype: Any, contraction_dim: Any = (),
                        use_fast_accum: bool = False) -> Any:  # fmt: skip
    left, right = ([F.ScalingType(n) for n in recipe] for recipe in (recipe_a, recipe_b))
    swizzled = {"swizzle_a": any(swizzle_a), "swizzle_b": any(swizzle_b)}
    return F.scaled_mm(
        a, b, scale_a, left, scale_b, right, **swizzled, bias=bias, output_dtype=out_dtype,
        contraction_dim=contraction_dim, use_fast_accum=use_fast_accum,
    )  # fmt: skip


@aten("transformers.grouped_mm_fallback.default")
def grouped_mm(x: Any, weight: Any, ends: Any) -> Any:
    """Rows times the matrix of their group, which ends where `ends` says; every group has a product of all rows."""
    groups = F.searchsorted(F.cast(ends, dtypes.int64), F.arange(x.size(0)), right=True)
    own = F.eq(F.unsqueeze(F.arange(weight.size(0)), 1), groups)
    return F.sum(F.where(F.unsqueeze(own, 2), F.matmul(F.unsqueeze(x, 0), weight), 0.0), 0)


@aten("_grouped_mm.default")
def grouped_mm_of_gpus(x: Any, weight: Any, ends: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    if x.rank != 2 or weight.rank != 3 or bias is not None:
        raise fail(f"a product of groups of {x.desc} and {weight.desc}")
    return grouped_mm(x, weight, ends)


@aten("transformers.grouped_mm_fallback_backward.default")
def grouped_mm_backward(x: Any, weight: Any, ends: Any, grad: Any) -> Any:
    return pulled_back(lambda v, w: grouped_mm(v, w, ends), grad, x, weight)


@aten("tensordot.default")
def tensordot(a: Any, b: Any, dims: Any, other_dims: Any) -> Any:
    return F.tensordot(a, b, (dims, other_dims))
