"""Reading safetensors files, with the element types that the library's readers for NumPy lack."""

from __future__ import annotations

import json
import os

import numpy as np
from safetensors import safe_open

from oneflow.dialect import dtypes

#: The names of types that are read here.
_READ_HERE = {"F8_E4M3": dtypes.float8_e4m3fn.numpy, "F8_E5M2": dtypes.float8_e5m2.numpy}


def read_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a file by name, and its metadata.

    Raises:
        SafetensorError: it is no safetensors file.
    """
    arrays: dict[str, np.ndarray] = {}
    with safe_open(str(path), framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118 (not a dict)
            dtype = _READ_HERE.get(file.get_slice(name).get_dtype())
            arrays[name] = file.get_tensor(name) if dtype is None else _read(path, name, dtype)
        return arrays, file.metadata() or {}


def _read(path: str | os.PathLike[str], name: str, dtype: np.dtype) -> np.ndarray:
    """An array: the file is the length of a header, the header in JSON with offsets, and the elements."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        described = json.loads(file.read(length))[name]
        first, last = described["data_offsets"]
        file.seek(8 + length + first)
        return np.frombuffer(bytearray(file.read(last - first)), dtype).reshape(described["shape"])
