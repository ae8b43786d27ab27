"""Fourier transforms as products with cosines and sines."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.host import expect_small
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.importers.onnx.types import NAMES


def _transformed(x: Tensor, axis: int, length: int, inverse: bool, onesided: bool) -> Tensor:
    """The transform along an axis of numbers whose last dimension holds the real and the imaginary part."""
    size = int(x.shape[axis] or 0)
    used = min(size, length)
    parts = F.movedim(F.narrow(x, axis, 0, used), axis, -1)
    real, imaginary = F.select(parts, -2, 0), F.select(parts, -2, 1) if parts.shape[-2] == 2 else None
    if inverse and onesided and imaginary is not None:
        return _real(real, imaginary, axis, length)
    count = length // 2 + 1 if onesided else length
    expect_small(used * count, "factors of a Fourier transform")
    angle = 2 * np.pi * np.outer(np.arange(used), np.arange(count)) / length * (1 if inverse else -1)
    scale = 1 / length if inverse else 1
    cos, sin = (as_tensor((f(angle) * scale).astype(x.dtype.numpy)) for f in (np.cos, np.sin))
    a, b = F.matmul(real, cos), F.matmul(real, sin)
    if imaginary is not None:
        a, b = F.sub(a, F.matmul(imaginary, sin)), F.add(b, F.matmul(imaginary, cos))
    return F.stack([F.movedim(v, -1, axis) for v in (a, b)], -1)


def _real(real: Tensor, imaginary: Tensor, axis: int, length: int) -> Tensor:
    """The real numbers whose transform has these frequencies in its first half; the second half mirrors the first."""
    used = int(real.shape[-1] or 0)
    number = np.arange(used)
    angle = 2 * np.pi * np.outer(number, np.arange(length)) / length
    weight = np.where((number == 0) | (2 * number == length), 1, 2)[:, None] / length
    cos, sin = (as_tensor((f(angle) * weight).astype(real.dtype.numpy)) for f in (np.cos, np.sin))
    real_part = F.sub(F.matmul(real, cos), F.matmul(imaginary, sin))
    return F.unsqueeze(F.movedim(real_part, -1, axis), -1)


@builder("DFT", known="dft_length axis")
def _dft(
    x: Tensor, dft_length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0, node: Any
) -> Tensor:
    default = 1 if node.version < 20 else -2
    at = (default if axis is None else int(np.asarray(axis).reshape(-1)[0])) % x.rank
    size = int(x.shape[at] or 0)
    count = 2 * (size - 1) if inverse and onesided else size
    length = count if dft_length is None else int(dft_length.reshape(-1)[0])
    return _transformed(x, at, length, bool(inverse), bool(onesided))


@builder("STFT", known="frame_step frame_length")
def _stft(
    x: Tensor, frame_step: np.ndarray, window: Tensor | None = None, frame_length: Any = None, *, onesided: int = 1
) -> Tensor:
    length = int(window.shape[0] or 0) if frame_length is None and window is not None else int(frame_length)
    step, size = int(frame_step), int(x.shape[1] or 0)
    count = (size - length) // step + 1
    signal = F.unsqueeze(x, -1) if x.rank == 2 else x
    frames = F.stack([F.narrow(signal, 1, i * step, length) for i in range(count)], 1)
    if window is not None:
        frames = F.mul(frames, F.unsqueeze(window, -1))
    return _transformed(frames, 2, length, False, bool(onesided))


@builder("MelWeightMatrix", known="bins length rate low high")
def _mel_weight_matrix(
    bins: np.ndarray,
    length: np.ndarray,
    rate: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    output_datatype: int = 1,
) -> Tensor:
    """Triangles of weights over the frequencies of a spectrum, equally spaced in mels."""
    count, size, sampling = int(bins), int(length), float(rate)
    expect_small(size * count, "weights of mels")
    first, last = (2595 * np.log10(1 + float(v) / 700) for v in (low, high))
    mels = first + np.arange(count + 2) * (last - first) / (count + 2)
    bin_edges = ((size + 1) * (700 * (10 ** (mels / 2595) - 1)) // sampling).astype(int)
    matrix = np.zeros((size // 2 + 1, count))
    for i in range(count):
        lower, centre, upper = bin_edges[i : i + 3]
        if centre == lower:
            matrix[centre, i] = 1
        else:
            matrix[lower : centre + 1, i] = (np.arange(lower, centre + 1) - lower) / (centre - lower)
        if upper > centre:
            matrix[centre:upper, i] = (upper - np.arange(centre, upper)) / (upper - centre)
    return as_tensor(matrix.astype(NAMES[output_datatype]))
