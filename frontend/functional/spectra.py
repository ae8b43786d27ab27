"""Spectra of signals in time: `stft`."""

from __future__ import annotations

from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.padding import pad
from oneflow.frontend.functional.shape import unsqueeze
from oneflow.frontend.functional.source import ones

__all__ = ["stft"]


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
    return_complex: bool = False,
) -> Tensor:
    """The transforms of overlapping frames of one signal, or of a batch of signals, of float32 or float64.

    Args:
        input: the signals: (length) or (batch, length).
        n_fft: the elements of a frame.
        hop_length: the distance between the starts of frames; a quarter of a frame by default.
        win_length: the elements of `window`, which is in the middle of a frame; the length of a frame by default.
        window: the factors of frames; ones by default.
        center: whether the signals are padded at both ends, so that frame t has its middle at t * hop_length.
        pad_mode: the mode of padding, as in `nn.functional.pad`.
        normalized: whether the result is divided by sqrt(n_fft).
        onesided: whether the first n_fft // 2 + 1 frequencies are kept alone.
        return_complex: whether the result is complex; else its parts are a last dimension of 2.

    Returns:
        (batch, frequencies, frames), without the batch for one signal.

    Raises:
        OneFlowError: an argument has another shape, or a number is out of its range.
    """
    x = as_tensor(input)
    hop = n_fft // 4 if hop_length is None else hop_length
    wide = n_fft if win_length is None else win_length
    if x.rank not in (1, 2):
        raise fail(f"expected signals of rank 1 or 2 for stft, got {x.desc}")
    if n_fft < 1 or hop < 1 or not 1 <= wide <= n_fft:
        raise fail(
            "expected n_fft and hop_length of at least 1 and win_length from 1 to n_fft for stft, got"
            f" {n_fft}, {hop} and {wide}"
        )
    signals = unsqueeze(x, 0) if x.rank == 1 else x
    if center:
        signals = pad(signals, [n_fft // 2] * 2, pad_mode)
    frames = dispatch("unfold_tensor", signals, dimension=1, size=n_fft, step=hop)
    options = {"n_fft": n_fft, "hop_length": hop, "win_length": wide, "center": center, "pad_mode": pad_mode}
    options |= {"normalized": normalized, "onesided": onesided, "return_complex": return_complex}
    spectrum = dispatch("stft", frames, _window(window, wide, n_fft, frames), **options)
    return unsqueeze(spectrum, 0) if x.rank == 2 and x.desc.shape[:1] == (1,) else spectrum  # type: ignore[index]


def _window(window: Any, size: int, n_fft: int, frames: Tensor) -> Tensor | None:
    """The window in the middle of a frame, None for a window of ones."""
    if window is None and size == n_fft:
        return None
    values = ones(size, dtype=frames.dtype) if window is None else as_tensor(window)
    if values.desc.shape != (size,):
        raise fail(f"expected a window of win_length {size} elements for stft, got {values.desc}")
    before = (n_fft - size) // 2
    return pad(values, [before, n_fft - size - before])
