"""Complex numbers and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.fft import scaled
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.angle: "angle", F.complex: "complex", F.conj: "_conj _conj_copy conj_physical _conj_physical", F.imag: "imag",
    F.neg: "_neg_view _neg_view_copy", F.polar: "polar", F.real: "real",
    F.view_as_complex: "view_as_complex view_as_complex_copy",
    F.view_as_real: "view_as_real view_as_real_copy",
})  # fmt: skip


def _sizes(x: Any, dim: Sequence[int]) -> list[Any]:
    return [x.size(d) for d in dim]


@aten("_fft_c2c.default")
def complex_to_complex(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    if not dim:
        return x
    return scaled("fft_c2c", x, _sizes(x, dim), normalization, dims=list(dim), forward=forward)


@aten("_fft_r2c.default")
def real_to_complex(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    return scaled("fft_r2c", x, _sizes(x, dim), normalization, dims=list(dim), onesided=onesided)


@aten("_fft_c2r.default")
def complex_to_real(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    sizes = [*_sizes(x, dim)[:-1], last_dim_size]
    return scaled("fft_c2r", x, sizes, normalization, dims=list(dim), last_dim_size=last_dim_size)


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
