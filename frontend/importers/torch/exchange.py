"""Tensors of PyTorch as arrays and back, in the same memory; element types."""

from __future__ import annotations

import numpy as np
import torch

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.arrays import Data, to_data
from oneflow.frontend.importers.torch.errors import UnsupportedError

DTYPES: dict[torch.dtype, DType] = {getattr(torch, d.name): d for d in dtypes.DTYPES}


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
    if not tensor.is_cpu:
        return to_data(tensor.contiguous())
    dtype = DTYPES.get(tensor.dtype)
    if dtype is not None and not dtype.is_native:  # NumPy's own exchange does not know the type
        vector: np.ndarray = tensor.unsqueeze(-1).view(_bits(dtype)).numpy().view(dtype.numpy)
        return vector[..., 0]
    if tensor.is_conj() or tensor.is_neg():  # a lazy conjugate, or a part of one
        tensor = tensor.resolve_conj().resolve_neg()
    array: np.ndarray = tensor.numpy()
    return array


def _bits(dtype: DType) -> torch.dtype:
    """The integers that stand for a type that NumPy lacks."""
    return torch.uint8 if dtype.bits == 8 else torch.int16


def to_tensor(array: Data) -> torch.Tensor:
    """An array as a tensor, in its memory."""
    if not isinstance(array, np.ndarray):
        return torch.from_dlpack(array)
    dtype = dtypes.BY_NUMPY.get(array.dtype)
    if dtype is not None and not dtype.is_native:
        codes = np.uint8 if dtype.bits == 8 else np.int16
        return torch.from_numpy(array.view(codes)).view(getattr(torch, dtype.name))
    return torch.from_numpy(array)
