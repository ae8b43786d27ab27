"""`flow.fft`: discrete Fourier transforms.

`n` or `s` are the sizes of the transformed dimensions, to which the input is cut or padded with zeros (-1 keeps a
size). `norm` scales: "backward", the default, scales the inverse transforms by 1 / n, "forward" the others, and
"ortho" both by 1 / sqrt(n). Integers are converted to the default type of floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.rules import to_float

__all__ = [
    "fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
]  # fmt: skip

Dims = Sequence[int] | None
#: OneFlow's codes of the factor of a transform: 1, 1 / sqrt(n), 1 / n.
_PLAIN, _BY_ROOT, _BY_SIZE = 0, 1, 2
_NORMS = ("backward", "ortho", "forward")
_LAST_TWO = (-2, -1)


def _mode(norm: str | None, forward: bool) -> int:
    """OneFlow's code of the factor of a transform.

    Raises:
        OneFlowError: the norm is unknown.
    """
    name = norm or "backward"
    if name not in _NORMS:
        raise fail(f"expected norm to be one of {', '.join(_NORMS)} or None, got {norm!r}")
    return _BY_ROOT if name == "ortho" else _BY_SIZE if (name == "forward") == forward else _PLAIN


def scaled(name: str, x: Tensor, sizes: Sequence[Any], mode: int, **attrs: Any) -> Tensor:
    """A transform of these sizes, with a factor by OneFlow's code; of dynamic sizes, the result is divided."""
    count = math.prod(sizes)
    if not isinstance(count, Size) or mode == _PLAIN:
        known = count if isinstance(count, int) else 1
        factor = {_PLAIN: 1.0, _BY_ROOT: 1 / math.sqrt(max(known, 1)), _BY_SIZE: 1 / max(known, 1)}[mode]
        return dispatch(name, x, norm_mode=mode, norm_fct=factor, **attrs)
    plain = dispatch(name, x, norm_mode=_PLAIN, norm_fct=1.0, **attrs)
    real = F.cast(count, dtypes.float64)
    return F.div(plain, F.cast(F.sqrt(real) if mode == _BY_ROOT else real, plain.dtype.part))


def _dims(x: Tensor, s: Dims, dim: Dims) -> tuple[list[int], list[int]]:
    """The transformed dimensions and their sizes, -1 for sizes that are kept.

    Raises:
        OneFlowError: a dimension is given twice, or there are more sizes than dimensions.
    """
    sizes = None if s is None else list(s)
    if dim is None:
        count = x.rank if sizes is None else len(sizes)
        if count > x.rank:
            raise fail(f"expected at most the {x.rank} sizes of {x.desc} in s, got {sizes}")
        dims = list(range(x.rank - count, x.rank))
    else:
        dims = [sh.axis(x, d) for d in dim]
    if len(set(dims)) != len(dims):
        raise fail(f"expected every dimension once in dim, got {list(dim or ())}")
    if sizes is not None and len(sizes) != len(dims):
        raise fail(f"expected as many sizes in s as dimensions, got {sizes} for {dims}")
    if sizes is not None and any(n < 1 and n != -1 for n in sizes):
        raise fail(f"expected sizes of at least 1, or -1, for a transform, got {sizes}")
    return dims, [-1] * len(dims) if sizes is None else sizes


def _resized(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """`x` cut or padded with zeros at the ends of dimensions."""
    for dim, size in zip(dims, sizes, strict=True):
        known = x.desc.shape[dim] if x.desc.shape else None
        if size == -1 or size == known:
            continue
        if known is None:
            raise fail(f"expected a static size of dimension {dim} to make it {size}, got {x.desc}")
        missing = [0, 0] * (x.rank - 1 - dim) + [0, size - known]
        x = F.narrow(x, dim, 0, size) if size < known else F.pad(x, missing)
    return x


def _sizes_of(x: Tensor, dims: Sequence[int]) -> list[Any]:
    return [x.size(d) for d in dims]


def _complex(x: Any, s: Dims, dim: Dims, norm: str | None, forward: bool) -> Tensor:
    """The transform of complex numbers, or of reals, into complex numbers."""
    x = to_float(x)
    dims, sizes = _dims(x, s, dim)
    x = _resized(x, dims, sizes)
    if not dims:
        return x if x.dtype.is_complex else F.cast(x, x.dtype.complex)
    factor = _sizes_of(x, dims), _mode(norm, forward)
    if x.dtype.is_complex:
        return scaled("fft_c2c", x, *factor, dims=dims, forward=forward)
    spectrum = scaled("fft_r2c", x, *factor, dims=dims, onesided=False)
    return spectrum if forward else F.conj(spectrum)


def _from_real(x: Any, s: Dims, dim: Dims, norm: str | None, forward: bool, name: str) -> Tensor:
    """The half spectrum of reals; the half spectrum of the inverse transform is the conjugate."""
    x = to_float(x)
    if x.dtype.is_complex:
        raise fail(f"expected real numbers for {name}, got {x.desc}")
    dims, sizes = _dims(x, s, dim)
    if not dims:
        raise fail(f"expected at least one dimension for {name}, got dim={list(dim or ())} of {x.desc}")
    x = _resized(x, dims, sizes)
    spectrum = scaled("fft_r2c", x, _sizes_of(x, dims), _mode(norm, forward), dims=dims, onesided=True)
    return spectrum if forward else F.conj(spectrum)


def _to_real(x: Any, s: Dims, dim: Dims, norm: str | None, forward: bool, name: str) -> Tensor:
    """Reals from a half spectrum by the inverse transform; the forward one reads the conjugates."""
    x = to_float(x)
    x = x if x.dtype.is_complex else F.cast(x, x.dtype.complex)
    dims, sizes = _dims(x, s, dim)
    if not dims:
        raise fail(f"expected at least one dimension for {name}, got dim={list(dim or ())} of {x.desc}")
    last = sizes[-1]
    if last == -1:
        half = x.shape[dims[-1]]
        if half is None or half < 2:
            raise fail(f"expected a static size of at least 2 of the last dimension, or n, for {name}, got {x.desc}")
        last = 2 * (half - 1)
    x = _resized(x, dims, [*sizes[:-1], last // 2 + 1])
    factor = [*_sizes_of(x, dims)[:-1], last], _mode(norm, forward)
    return scaled("fft_c2r", F.conj(x) if forward else x, *factor, dims=dims, last_dim_size=last)


def _one(n: int | None) -> list[int] | None:
    return None if n is None else [n]


def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The transform along one dimension."""
    return _complex(input, _one(n), [dim], norm, True)


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse transform along one dimension."""
    return _complex(input, _one(n), [dim], norm, False)


def fftn(input: Any, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform along several dimensions, all by default."""
    return _complex(input, s, dim, norm, True)


def ifftn(input: Any, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse transform along several dimensions, all by default."""
    return _complex(input, s, dim, norm, False)


def fft2(input: Any, s: Dims = None, dim: Dims = _LAST_TWO, norm: str | None = None) -> Tensor:
    """`fftn` along the last two dimensions."""
    return fftn(input, s, dim, norm)


def ifft2(input: Any, s: Dims = None, dim: Dims = _LAST_TWO, norm: str | None = None) -> Tensor:
    """`ifftn` along the last two dimensions."""
    return ifftn(input, s, dim, norm)


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 elements of the transform of reals; the others are their conjugates."""
    return _from_real(input, _one(n), [dim], norm, True, "rfft")


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: n reals, by default twice as many as elements, less 2."""
    return _to_real(input, _one(n), [dim], norm, False, "irfft")


def rfftn(input: Any, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform of reals along several dimensions, with half of the last dimension."""
    return _from_real(input, s, dim, norm, True, "rfftn")


def irfftn(input: Any, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`."""
    return _to_real(input, s, dim, norm, False, "irfftn")


def rfft2(input: Any, s: Dims = None, dim: Dims = _LAST_TWO, norm: str | None = None) -> Tensor:
    """`rfftn` along the last two dimensions."""
    return rfftn(input, s, dim, norm)


def irfft2(input: Any, s: Dims = None, dim: Dims = _LAST_TWO, norm: str | None = None) -> Tensor:
    """`irfftn` along the last two dimensions."""
    return irfftn(input, s, dim, norm)


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The transform, which is real, of a signal whose second half is the conjugates of the first, which is given."""
    return _to_real(input, _one(n), [dim], norm, True, "hfft")


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: half of the inverse transform of reals."""
    return _from_real(input, _one(n), [dim], norm, False, "ihfft")


def hfftn(input: Any, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """`fft` along all but the last of several dimensions, then `hfft` along that."""
    return _to_real(input, s, dim, norm, True, "hfftn")


def ihfftn(input: Any, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`."""
    return _from_real(input, s, dim, norm, False, "ihfftn")


def hfft2(input: Any, s: Dims = None, dim: Dims = _LAST_TWO, norm: str | None = None) -> Tensor:
    """`hfftn` along the last two dimensions."""
    return hfftn(input, s, dim, norm)


def ihfft2(input: Any, s: Dims = None, dim: Dims = _LAST_TWO, norm: str | None = None) -> Tensor:
    """`ihfftn` along the last two dimensions."""
    return ihfftn(input, s, dim, norm)
