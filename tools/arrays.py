"""Arrays in files: .npy, .npz and .safetensors, by suffix.

bfloat16 travels through .npy and .npz as two raw bytes, which NumPy writes of it. Imports NumPy and safetensors.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from oneflow.tools.files import FileError

SUFFIXES = (".npy", ".npz", ".safetensors")
_BROKEN = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, SafetensorError)


def _suffix(path: str) -> str:
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise FileError(f"{path}: expected a file name that ends in {', '.join(SUFFIXES)}")
    return suffix


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of a file by name; the one of an .npy file has the name ''.

    Raises:
        FileError: the file cannot be read.
    """
    suffix = _suffix(path)
    if not Path(path).is_file():
        raise FileError(f"cannot read {path}: {'is a directory' if Path(path).is_dir() else 'no such file'}")
    try:
        if suffix == ".safetensors":
            return safetensors.load_file(path)
        loaded = np.load(path, allow_pickle=False)
        return {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except _BROKEN as error:
        raise FileError(f"cannot read {path}: not a valid {suffix} file: {error}") from None


def write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name; an .npy file takes one.

    Raises:
        FileError: the file cannot be written, or is an .npy file and there are several arrays.
    """
    suffix = _suffix(path)
    if suffix == ".npy" and len(arrays) != 1:
        raise FileError(f"{path}: expected one result, got {len(arrays)} ({', '.join(arrays)}); write an .npz file")
    try:
        if suffix == ".npy":
            np.save(path, next(iter(arrays.values())))
        elif suffix == ".npz":
            np.savez(path, **arrays)  # type: ignore[arg-type]
        else:
            safetensors.save_file({k: np.ascontiguousarray(a) for k, a in arrays.items()}, path)
    except (OSError, SafetensorError) as error:
        raise FileError(f"cannot write {path}: {error}") from None
