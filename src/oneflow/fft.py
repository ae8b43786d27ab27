"""Discrete Fourier transforms: `flow.fft`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import fft as _module
from oneflow.frontend.fft import *  # noqa: F403

__all__ = _module.__all__
