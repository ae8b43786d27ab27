"""Discrete Fourier transforms of any length along any axes, on the host by NumPy's pocketfft.

A transform has no factor of its own; `norm_fct` scales the result (1, 1 / n or 1 / sqrt(n) for n elements), and
`norm_mode` is OneFlow's number for that choice. Gradients are transforms: the gradient of a linear map is its
adjoint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import PartsBuilder, composed
from oneflow.dialect.composite import composite
from oneflow.dialect.numpy_kernel import numpy_kernel
from oneflow.dialect.record import Call, define, no_grad, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_pairs, expect_rank, letters
from oneflow.dialect.tensor_desc import Dim, Shape, TensorDesc

#: The operators become calls of an external kernel.
EXTERNAL = frozenset({"external"})
#: The forms of transforms that `fourier_of_pairs` computes.
FORMS = ("c2c", "r2c", "r2c_full", "c2r")


def _axes(op: Call, rank: int) -> tuple[int, ...]:
    """The transformed axes counted from the front."""
    axes = op.normalize_axes(op.dims, rank, "dims")
    if not axes:
        raise op.error("expected at least one axis in dims, got []")
    return axes


def _resized(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _expect_sizes(op: Call, axes: Sequence[int], sizes: Shape, resizes: bool) -> None:
    """Checks that the transformed axes have elements, and static sizes where the sizes of the result differ."""
    transformed_sizes = [sizes[op.normalize_axis(a, len(sizes))] for a in axes]
    if 0 in transformed_sizes or (resizes and None in transformed_sizes):
        raise op.error(f"expected static sizes of at least 1 along axes {list(axes)}, got {op.operands[0]}")


def _expect_half(op: Call, name: str, got: Dim, axis: int, size: int) -> None:
    """Checks the size of a half spectrum, of which a transform to reals makes `size` elements."""
    expect_dim(op, f"axis {axis} of {name}, half of a spectrum of {size},", got, size // 2 + 1)


def _factors(op: Call) -> Factors:
    """The axes that are not transformed can be split."""
    names = " ".join(letters(op.input.shape, _axes(op, op.input.rank)))
    return Factors(f"{names} -> {names}", "joint")


def transformed(x: np.ndarray, form: str, axes: Sequence[int], forward: bool, factor: float, size: int) -> np.ndarray:
    """The transform of an array in its precision; `form` is the attribute of `fourier_of_pairs`."""
    sizes = [size if form == "c2r" and a == axes[-1] else x.shape[a] for a in axes]
    function: Any = {"r2c": np.fft.rfftn, "c2r": np.fft.irfftn}.get(form, np.fft.fftn if forward else np.fft.ifftn)
    unscaled = "backward" if forward else "forward"
    return np.asarray(function(x, s=sizes, axes=axes, norm=unscaled) * x.real.dtype.type(factor))


def _in_double(x: Any, form: str, axes: Sequence[int], forward: bool, factor: float, size: int = 0) -> Any:
    """The reference of a transform: computed in double precision and rounded once."""
    double = np.complex128 if form.startswith("c") else np.float64
    spectrum = transformed(x.astype(double), form, axes, forward, factor, size)
    part = dtypes.from_numpy(x.dtype).part
    return spectrum.astype(part.numpy if form == "c2r" else part.complex.numpy)


def _transform(ops: PartsBuilder, op: Call, form: str, forward: bool, size: int = 0) -> Value:
    """The transform on pairs of reals along a last axis."""
    x = ops.view_as_real(op.input) if form.startswith("c") else op.input
    attrs = {"dims": _axes(op, op.input.rank), "form": form, "forward": forward, "factor": op.norm_fct, "size": size}
    pairs = ops.call("fourier_of_pairs", x, **attrs)[0]
    result: Value = pairs if form == "c2r" else ops.view_as_complex(pairs)
    return result


@operator("fft_c2c(input, dims: list_int64, forward: bool, norm_mode: int32, norm_fct: double) -> out")
class FftC2c:
    """The transform of complex numbers along `dims`: exp(-2 pi i j k / n) if `forward`, else its conjugates."""

    sbp = _factors
    traits = EXTERNAL

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "input", op.input, dtypes.COMPLEX)
        _expect_sizes(op, _axes(op, op.input.rank), op.input.shape, False)
        desc: TensorDesc = op.input
        return desc

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"input": lambda: ops.fft_c2c(dout, **{**op.attrs, "forward": not op.forward})}

    def parts(ops: PartsBuilder, op: Call) -> Value:
        return _transform(ops, op, "c2c", op.forward)

    def reference(x: Any, *, dims: Any, forward: Any, norm_fct: Any) -> Any:
        return _in_double(x, "c2c", dims, forward, norm_fct)


@operator("fft_r2c(input, dims: list_int64, norm_mode: int32, norm_fct: double, onesided: bool) -> out")
class FftR2c:
    """The transform of reals along `dims`; if `onesided`, the last of them keeps its first n // 2 + 1 elements."""

    sbp = _factors
    traits = EXTERNAL

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "input", op.input, dtypes.PARTS, only_real=True)
        axes, shape = _axes(op, op.input.rank), op.input.shape
        _expect_sizes(op, axes, shape, op.onesided)
        if op.onesided:
            shape = _resized(shape, axes[-1], shape[axes[-1]] // 2 + 1)
        return TensorDesc(shape, op.input.dtype.complex)

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        last = _axes(op, op.input.rank)[-1]
        missing = op.input.shape[last] - dout.shape[last] if op.onesided else 0
        scale = {"norm_mode": op.norm_mode, "norm_fct": op.norm_fct}

        def dx() -> Value:
            after = [missing if i == last else 0 for i in range(dout.rank)]
            padded = ops.pad(dout, padding_before=[0] * dout.rank, padding_after=after) if missing else dout
            return ops.call("real", ops.fft_c2c(padded, dims=op.dims, forward=False, **scale))[0]

        return {"input": dx}

    def parts(ops: PartsBuilder, op: Call) -> Value:
        return _transform(ops, op, "r2c" if op.onesided else "r2c_full", True)

    def reference(x: Any, *, dims: Any, norm_fct: Any, onesided: Any) -> Any:
        return _in_double(x, "r2c" if onesided else "r2c_full", dims, True, norm_fct)


def _halves(ops: Builder, size: int, rank: int, axis: int, like: Value) -> Value:
    """How many elements of a whole spectrum of `size` each element of the half stands for: 1 or 2."""
    at = ops.call("arange", dtype=dtypes.int64, integer_delta=1, integer_limit=size // 2 + 1)[0]
    rest = ops.scalar_fmod(at * 2, has_int_operand=True, int_operand=size)
    counts = ops.cast(ops.scalar_logical_not_equal(rest, has_int_operand=True), dtype=like.dtype) + 1.0
    shaped: Value = ops.reshape(counts, shape=[-1 if i == axis else 1 for i in range(rank)])
    return shaped


@operator("fft_c2r(input, dims: list_int64, norm_mode: int32, norm_fct: double, last_dim_size: int64) -> out")
class FftC2r:
    """The backward transform of a half spectrum along `dims`, whose last has `last_dim_size` elements in the result.

    Elements of the spectrum that are real for real results are taken as real.
    """

    sbp = _factors
    traits = EXTERNAL

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "input", op.input, dtypes.COMPLEX)
        axes = _axes(op, op.input.rank)
        shape = _resized(op.input.shape, axes[-1], op.last_dim_size)
        _expect_sizes(op, axes, shape, True)
        _expect_half(op, "input", op.input.shape[axes[-1]], axes[-1], op.last_dim_size)
        return TensorDesc(shape, op.input.dtype.part)

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        axis, rank = _axes(op, op.input.rank)[-1], op.input.rank

        def dx() -> Value:
            scale = {"norm_mode": op.norm_mode, "norm_fct": op.norm_fct}
            half = ops.fft_r2c(dout, dims=op.dims, onesided=True, **scale)
            value: Value = half * _halves(ops, op.last_dim_size, rank, axis, half)
            return value

        return {"input": dx}

    def parts(ops: PartsBuilder, op: Call) -> Value:
        return _transform(ops, op, "c2r", False, op.last_dim_size)

    def reference(x: Any, *, dims: Any, norm_fct: Any, last_dim_size: Any) -> Any:
        return _in_double(x, "c2r", dims, False, norm_fct, last_dim_size)


def _pairs_types(op: Call) -> TensorDesc:
    expect_dtype(op, "in", op.in_, dtypes.PARTS, only_real=True)
    if op.form not in FORMS:
        raise op.error(f"expected form to be one of {', '.join(FORMS)}, got {op.form!r}")
    shape = op.in_.shape
    if op.form.startswith("c"):
        expect_pairs(op, "in", op.in_)
        shape = shape[:-1]
    axes = _axes(op, len(shape))
    last = axes[-1]
    if op.form == "c2r":
        _expect_half(op, "in", shape[last], last, op.size)
        shape = _resized(shape, last, op.size)
    _expect_sizes(op, axes, shape, op.form in ("r2c", "c2r"))
    if op.form == "c2r":
        return TensorDesc(shape, op.in_.dtype)
    if op.form == "r2c":
        shape = _resized(shape, last, shape[last] // 2 + 1)
    return TensorDesc((*shape, 2), op.in_.dtype)


def _numpy_pairs(x: Any, *, dims: Any, form: Any, forward: Any, factor: Any, size: Any) -> Any:
    numbers = np.ascontiguousarray(x).view(np.result_type(x, np.complex64))[..., 0] if form.startswith("c") else x
    spectrum = transformed(numbers, form, dims, forward, factor, size)
    return spectrum if form == "c2r" else np.stack([spectrum.real, spectrum.imag], -1)


def _pairs_factors(op: Call) -> Factors:
    parts = 1 if op.form.startswith("c") else 0
    unsplit = (*_axes(op, op.in_.rank - parts), *range(op.in_.rank - parts, op.in_.rank))
    names = " ".join(letters(op.in_.shape, unsplit))
    result = names.rpartition(" ")[0] if op.form == "c2r" else f"{names} _" if op.form.startswith("r") else names
    return Factors(f"{names} -> {result}", "joint")


define(
    "fourier_of_pairs(in, dims: list_int64, form: string, forward: bool, factor: double, size: int64 = 0) -> out",
    doc="A transform whose complex numbers are pairs of reals along a last axis: what the operators above become.\n\n"
    "`form` is c2c, r2c (a half spectrum), r2c_full or c2r (of `size` elements along the last of `dims`).",
    types=_pairs_types, sbp=_pairs_factors,
    grad=no_grad("is made after gradients are built"), reference=_numpy_pairs, kernel=numpy_kernel(_numpy_pairs),
)  # fmt: skip


def _check_stft(op: Call) -> None:
    expect_rank(op, "input", op.input, 3)
    expect_dtype(op, "input", op.input, dtypes.PARTS)
    if op.onesided and op.input.dtype.is_complex:
        raise op.error(f"expected onesided to be false for complex numbers, got {op.input}")
    size = op.input.shape[2]
    if None in (op.input.shape[0], size) or op.n_fft not in (0, size):
        raise op.error(
            f"expected a static number of signals, and frames of a static size that is n_fft, got {op.input}"
            f" and {op.n_fft}"
        )
    if op.window is not None and not op.window.compatible(TensorDesc((size,), op.input.dtype)):
        raise op.error(f"expected a window of {size} elements of {op.input.dtype.mlir}, got {op.window}")


def _write_stft(ops: Builder, op: Call) -> Value:
    frames = op.input if op.window is None else op.input * op.window
    factor = 1 / math.sqrt(frames.shape[2]) if op.normalized else 1.0
    scale = {"dims": [2], "norm_mode": 0, "norm_fct": factor}
    if frames.dtype.is_complex:
        frequencies = ops.fft_c2c(frames, forward=True, **scale)
    else:
        frequencies = ops.fft_r2c(frames, onesided=op.onesided, **scale)
    spectrum: Value = ops.transpose(frequencies, perm=[0, 2, 1])
    if spectrum.shape[0] == 1:
        spectrum = ops.squeeze(spectrum, axes=[0])
    return spectrum if op.return_complex else ops.call("view_as_real", spectrum)[0]


def _stft_factors(op: Call) -> Factors:
    """Frames can be split."""
    _, frames, _ = letters(op.input.shape, (0, 2))
    lead = [] if op.input.shape[0] == 1 else ["_"]
    operands = [f"_ {frames} _", *(["_"] if op.window is not None else [])]
    result = " ".join([*lead, "_", frames, *([] if op.return_complex else ["_"])])
    return Factors(f"{', '.join(operands)} -> {result}", "each")


def _numpy_stft(x: Any, window: Any, *, normalized: Any, onesided: Any, return_complex: Any) -> Any:
    wide = x.astype(np.result_type(x, np.float64)) * (1 if window is None else window)
    transform = np.fft.rfft if onesided else np.fft.fft
    spectrum = transform(wide, axis=2, norm="ortho" if normalized else "backward").swapaxes(1, 2)
    spectrum = spectrum[0] if len(x) == 1 else spectrum
    if return_complex:
        return spectrum.astype(np.result_type(x, np.complex64))
    return np.stack([spectrum.real, spectrum.imag], -1).astype(x.real.dtype)


composite(
    "stft(input, window?, n_fft: int32 = 0, hop_length: int32 = 0, win_length: int32 = 0, center: bool = True,"
    " pad_mode: string = 'reflect', normalized: bool = False, onesided: bool = False,"
    " return_complex: bool = False) -> out",
    "The spectra of the frames of signals, (signals, frames, elements), as (signals, frequencies, frames, 2), the\n"
    "last axis being the parts unless `return_complex`; without the first axis for one signal.\n\n"
    "The attributes that say how a signal is cut into frames change nothing.",
    write=_write_stft, reference=_numpy_stft, check=_check_stft, parts=composed,
    sbp=_stft_factors, unoffered="splits of signals: a shard of one signal has no axis in the result",
    traits=EXTERNAL,
)  # fmt: skip
