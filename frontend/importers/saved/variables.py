"""Variables in folders, as OneFlow writes them: `meta` has the shape and the element type, `out` the elements.

The elements are in row-major order and little-endian. `meta` is the text of a protocol buffer:

    shape {
      dim: 3
      dim: 4
    }
    data_type: kFloat
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend.core.errors import OneFlowError

META, ELEMENTS = "meta", "out"
#: OneFlow's names of element types in `meta`.
_NAMES = {
    "kBool": "bool", "kChar": "int8", "kInt8": "int8", "kInt16": "int16", "kInt32": "int32", "kInt64": "int64",
    "kUInt8": "uint8", "kUInt16": "uint16", "kUInt32": "uint32", "kUInt64": "uint64", "kFloat16": "float16",
    "kBFloat16": "bfloat16", "kFloat": "float32", "kDouble": "float64", "kComplex64": "complex64",
    "kComplex128": "complex128",
}  # fmt: skip
_META = re.compile(r"\s*shape\s*\{(?P<dims>(?:\s*dim:\s*\d+)*)\s*\}\s*data_type:\s*(?P<type>\w+)\s*")
#: More bytes than any `meta` has.
_MAX_META_BYTES = 1 << 16


class SavedError(OneFlowError):
    """A file of OneFlow that is malformed, or has unsupported features."""


def inside(folder: Path, name: str) -> Path:
    """The path of a name in a folder.

    Raises:
        SavedError: the name leads out of the folder.
    """
    path = folder / name
    if not name or "\0" in name or not path.resolve().is_relative_to(folder.resolve()):
        raise SavedError(f"{folder}: expected names of what is in the folder, got {name!r}")
    return path


def is_variable(folder: Path) -> bool:
    """Whether a folder holds a variable."""
    return (folder / META).is_file() and (folder / ELEMENTS).is_file()


def read_variable(folder: Path) -> np.ndarray:
    """The array of a variable's folder.

    Raises:
        SavedError: a file is missing or malformed, or their sizes disagree.
    """
    if not is_variable(folder):
        raise SavedError(f"expected {folder} to be a variable, a folder with the files {META} and {ELEMENTS}")
    with open(folder / META, "rb") as file:
        text = file.read(_MAX_META_BYTES).decode("utf-8", "replace")
    match = _META.fullmatch(text)
    name = _NAMES.get(match["type"]) if match is not None else None
    if match is None or name is None:
        known = ", ".join(_NAMES)
        what = f"a shape and a data type of {known}" if match is None else f"a data type of {known}"
        raise SavedError(f"expected {what} in {folder / META}, got {text[:80]!r}")
    shape = tuple(int(n) for n in re.findall(r"\d+", match["dims"]))
    dtype = dtypes.BY_NAME[name].numpy
    expected, size = math.prod(shape) * dtype.itemsize, os.path.getsize(folder / ELEMENTS)
    if size != expected:
        raise SavedError(f"expected {expected} bytes in {folder / ELEMENTS} for {name}{list(shape)}, got {size}")
    return np.fromfile(folder / ELEMENTS, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)


def read_variables(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of all variables in a folder, by the names of their folders.

    Raises:
        SavedError: one is malformed.
    """
    return {path.name: read_variable(path) for path in sorted(folder.iterdir()) if is_variable(path)}


def write_variable(folder: Path, array: np.ndarray) -> None:
    """Writes a variable's folder.

    Raises:
        SavedError: OneFlow has no such element type.
    """
    name = next((code for code, name in _NAMES.items() if dtypes.BY_NAME[name].numpy == array.dtype), None)
    if name is None:
        raise SavedError(f"expected an element type of {', '.join(_NAMES.values())}, got {array.dtype}")
    folder.mkdir(parents=True, exist_ok=True)
    dims = "".join(f"  dim: {size}\n" for size in array.shape)
    (folder / META).write_text(f"shape {{\n{dims}}}\ndata_type: {name}\n")
    (folder / ELEMENTS).write_bytes(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
