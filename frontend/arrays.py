"""What counts as an array: NumPy arrays and scalars, and whatever speaks DLPack or the array interface.

Imports NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes

_PROTOCOLS = ("__dlpack__", "__array_interface__", "__array__")


def is_array(value: Any) -> bool:
    """Whether `value` is an array of some kind (Python numbers and lists are not)."""
    return isinstance(value, (np.ndarray, np.generic)) or any(hasattr(type(value), p) for p in _PROTOCOLS)


def to_array(value: Any) -> np.ndarray:
    """An array of any kind as a NumPy array, without a copy where its memory can be shared.

    Raises:
        TypeError: its element type is none of ours.
    """
    if not isinstance(value, (np.ndarray, np.generic)) and hasattr(value, "__dlpack__"):
        array = _from_dlpack(value)
    else:
        array = np.asarray(value)
    dtypes.from_numpy(array.dtype)
    return array


def _from_dlpack(value: Any) -> np.ndarray:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, ValueError) as error:
        name = type(value).__name__
        raise TypeError(f"cannot read {name} through DLPack: {error}; pass it as a NumPy array") from None
