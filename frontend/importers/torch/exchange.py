"""Tensors of PyTorch as arrays and back, in the same memory; element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.arrays import Data, to_data
from oneflow.frontend.importers.torch.errors import UnsupportedError

DTYPES: dict[torch.dtype, DType] = {getattr(torch, d.name): d for d in dtypes.DTYPES}
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def dtype_of(dtype: torch.dtype) -> DType:
    """The element type.

    Raises:
        UnsupportedError: the dialect has no such type.
    """
    if dtype not in DTYPES:
        raise UnsupportedError([f"the element type {dtype}"])
    return DTYPES[dtype]


def to_array(tensor: torch.Tensor) -> Data:
    """The elements of a tensor, in its memory."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.device.type != "cpu":
        return to_data(tensor.contiguous())
    if tensor.dtype is torch.bfloat16:  # NumPy's own exchange does not know the type
        return tensor.view(torch.int16).numpy().view(_BFLOAT16) if tensor.dim() else _scalar(tensor)
    array: np.ndarray = tensor.resolve_conj().resolve_neg().numpy()  # complex tensors may be lazy conjugates
    return array


def _scalar(tensor: torch.Tensor) -> np.ndarray:
    """A bfloat16 tensor without dimensions."""
    vector: np.ndarray = tensor.reshape(1).view(torch.int16).numpy().view(_BFLOAT16)
    return vector.reshape(())


def to_tensor(array: Data) -> torch.Tensor:
    """An array as a tensor, in its memory."""
    if not isinstance(array, np.ndarray):
        return torch.from_dlpack(array)
    if array.dtype is _BFLOAT16 or array.dtype == _BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
