"""Complex numbers and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.angle: "angle", F.complex: "complex", F.conj: "_conj conj_physical _conj_physical", F.imag: "imag",
    F.polar: "polar", F.real: "real", F.view_as_complex: "view_as_complex view_as_complex_copy",
    F.view_as_real: "view_as_real view_as_real_copy",
})  # fmt: skip


def _scale(sizes: Sequence[int], normalization: int) -> dict[str, Any]:
    """The attributes of the factor: 1, 1 / sqrt(n) or 1 / n, with the same numbers in PyTorch and OneFlow."""
    factor = math.prod(sizes) ** (0.0, -0.5, -1.0)[normalization]
    return {"norm_mode": normalization, "norm_fct": factor}


def _sizes(x: Any, dim: Sequence[int]) -> list[int]:
    return [x.size(d) for d in dim]


@aten("_fft_c2c.default")
def complex_to_complex(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    if not dim:
        return x
    return dispatch("fft_c2c", x, dims=list(dim), forward=forward, **_scale(_sizes(x, dim), normalization))


@aten("_fft_r2c.default")
def real_to_complex(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    return dispatch("fft_r2c", x, dims=list(dim), onesided=onesided, **_scale(_sizes(x, dim), normalization))


@aten("_fft_c2r.default")
def complex_to_real(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    scale = _scale([*_sizes(x, dim)[:-1], last_dim_size], normalization)
    return dispatch("fft_c2r", x, dims=list(dim), last_dim_size=last_dim_size, **scale)


@aten("resolve_conj.default", "resolve_neg.default")
def resolved(x: Any) -> Any:
    return x


@aten("sgn.default")
def direction(x: Any) -> Any:
    """x / |x|, 0 at 0."""
    if not x.dtype.is_complex:
        return F.sign(x)
    size = F.abs(x)
    return F.div(x, F.where(F.eq(size, 0.0), 1.0, size))
