"""Spectra of signals in time, `stft`, and signals of spectra, `istft`."""

from __future__ import annotations

import math
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.elementwise import abs, div, lt, mul
from oneflow.frontend.functional.padding import pad
from oneflow.frontend.functional.reduction import amin
from oneflow.frontend.functional.rules import as_common
from oneflow.frontend.functional.shape import expand, narrow, squeeze, transpose, unsqueeze
from oneflow.frontend.functional.source import ones, zeros

__all__ = ["istft", "stft"]


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:
    """The transforms of overlapping frames of one signal, or of a batch of signals; floats or complex numbers.

    Args:
        input: the signals: (length) or (batch, length).
        n_fft: the elements of a frame.
        hop_length: the distance between the starts of frames; a quarter of a frame by default.
        win_length: the elements of `window`, which is in the middle of a frame; the length of a frame by default.
        window: the factors of frames; ones by default.
        center: whether the signals are padded at both ends, so that frame t has its middle at t * hop_length.
        pad_mode: the mode of padding, as in `nn.functional.pad`.
        normalized: whether the result is divided by sqrt(n_fft).
        onesided: whether the first n_fft // 2 + 1 frequencies are kept alone; by default of real signals and windows.
        return_complex: whether the result is complex, by default of complex signals and windows; else its parts are a
            last dimension of 2.

    Returns:
        (batch, frequencies, frames), without the batch for one signal.

    Raises:
        OneFlowError: an argument has another shape, or a number is out of its range.
    """
    x, factors = (as_tensor(input), None) if window is None else as_common(input, window)
    if onesided and x.dtype.is_complex:
        raise fail(f"expected onesided to be False for stft of complex signals or windows, got {x.desc}")
    onesided = not x.dtype.is_complex if onesided is None else onesided
    return_complex = x.dtype.is_complex if return_complex is None else return_complex
    if x.rank not in (1, 2):
        raise fail(f"expected signals of rank 1 or 2 for stft, got {x.desc}")
    hop, wide = _frame_sizes(n_fft, hop_length, win_length, "stft")
    signals = unsqueeze(x, 0) if x.rank == 1 else x
    if center:
        signals = pad(signals, [n_fft // 2] * 2, pad_mode)
    frames = dispatch("unfold_tensor", signals, dimension=1, size=n_fft, step=hop)
    options = {"n_fft": n_fft, "hop_length": hop, "win_length": wide, "center": center, "pad_mode": pad_mode}
    options |= {"normalized": normalized, "onesided": onesided, "return_complex": return_complex}
    spectrum = dispatch("stft", frames, _window(factors, wide, n_fft, frames, "stft"), **options)
    return unsqueeze(spectrum, 0) if x.rank == 2 and x.desc.shape[:1] == (1,) else spectrum  # type: ignore[index]


def _window(window: Any, size: int, n_fft: int, frames: Tensor, name: str) -> Tensor | None:
    """The window in the middle of a frame, None for a window of ones."""
    if window is None and size == n_fft:
        return None
    values = ones(size, dtype=frames.dtype) if window is None else as_tensor(window)
    if values.desc.shape != (size,):
        raise fail(f"expected a window of win_length {size} elements for {name}, got {values.desc}")
    before = (n_fft - size) // 2
    return pad(values, [before, n_fft - size - before])


def _frame_sizes(n_fft: int, hop_length: int | None, win_length: int | None, name: str) -> tuple[int, int]:
    """The distance between the starts of frames and the elements of the window, with their defaults.

    Raises:
        OneFlowError: a number is out of its range.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    wide = n_fft if win_length is None else win_length
    if n_fft < 1 or hop < 1 or not 1 <= wide <= n_fft:
        raise fail(
            f"expected n_fft and hop_length of at least 1 and win_length from 1 to n_fft for {name}, got"
            f" {n_fft}, {hop} and {wide}"
        )
    return hop, wide


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signals of spectra as from `stft`: sums of the windowed frames over sums of squared windows, the inverse by
    least squares.

    Args:
        input: complex spectra: (frequencies, frames) or (batch, frequencies, frames).
        n_fft: the elements of a frame.
        hop_length: the distance between the starts of frames; a quarter of a frame by default.
        win_length: the elements of `window`, which is in the middle of a frame; the length of a frame by default.
        window: the factors of frames; ones by default.
        center: whether half a frame is cut off at the start, and without `length` at the end.
        normalized: whether the spectra were divided by sqrt(n_fft).
        onesided: whether the spectra have the first n_fft // 2 + 1 frequencies alone; by default by their number.
        length: the elements of a signal; zeros follow the last frame.
        return_complex: whether the signals are complex, as signals under complex windows are.

    Raises:
        OneFlowError: an argument has another shape, a number is out of its range, or the windows at an element of the
            signal are zero.
    """
    x = as_tensor(input)
    hop, wide = _frame_sizes(n_fft, hop_length, win_length, "istft")
    if x.rank not in (2, 3) or not x.dtype.is_complex or None in x.shape:
        raise fail(
            f"expected complex spectra (frequencies, frames) of static sizes, or a batch, for istft, got {x.desc}"
        )
    half = x.shape[-2] != n_fft if onesided is None else onesided
    if x.shape[-2] != (n_fft // 2 + 1 if half else n_fft) or (half and return_complex):
        raise fail(
            f"expected spectra of n_fft = {n_fft} frequencies for istft, or for real signals of {n_fft // 2 + 1} if"
            f" onesided, got {x.desc}, onesided={onesided} and return_complex={return_complex}"
        )
    window = None if window is None else as_tensor(window)
    if window is not None and window.dtype.is_complex and not return_complex:
        raise fail(f"expected return_complex to be True for istft with a complex window, got {window.desc}")
    if length is not None and length < 0:
        raise fail(f"expected length to be at least 0 for istft, got {length}")
    spectra = transpose(x if x.rank == 3 else unsqueeze(x, 0), -2, -1)
    frames = _frames(spectra, n_fft, 1 / (math.sqrt(n_fft) if normalized else n_fft), half)
    frames = frames if half or return_complex else dispatch("real", frames)
    factors = _window(window, wide, n_fft, frames, "istft")
    factors = ones(n_fft, dtype=frames.dtype) if factors is None else factors
    signals = _overlapped(mul(frames, factors), 1, hop)
    weights = _overlapped(expand(mul(factors, factors), (x.shape[-1], n_fft)), 0, hop)
    result = _cut(signals, weights, n_fft // 2 if center else 0, length)
    return result if x.rank == 3 else squeeze(result, 0)


def _frames(spectra: Tensor, size: int, factor: float, half: bool) -> Tensor:
    """The inverse transforms along the last of three dimensions."""
    scale = {"dims": [2], "norm_mode": 2, "norm_fct": factor}
    if half:
        return dispatch("fft_c2r", spectra, last_dim_size=size, **scale)
    return dispatch("fft_c2c", spectra, forward=False, **scale)


def _overlapped(frames: Tensor, dimension: int, hop: int) -> Tensor:
    """The sums of overlapping frames, which begin every `hop` elements along `dimension`."""
    *batch, count, size = frames.shape
    signals = zeros(*batch, size + hop * (count - 1), dtype=frames.dtype)
    return dispatch("unfold_tensor_grad", frames, signals, dimension=dimension, size=size, step=hop)


def _cut(signals: Tensor, weights: Tensor, start: int, length: int | None) -> Tensor:
    """The quotient of signals and weights from an element on, with zeros at the end where `length` is longer.

    Raises:
        OneFlowError: a weight is zero.
    """
    end = signals.shape[-1]
    stop = end - start if length is None else min(start + length, end)
    signals, weights = narrow(signals, -1, start, stop - start), narrow(weights, -1, start, stop - start)
    if stop > start and current_builder().eager and bool(lt(amin(abs(weights)), 1e-11)):
        raise fail("expected windows that overlap without gaps for istft, got a sum of squared windows that is zero")
    result = div(signals, weights)
    return result if length is None else pad(result, [0, start + length - stop])
