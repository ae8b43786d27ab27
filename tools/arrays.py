"""Arrays in files: .npy, .npz and .safetensors, by suffix.

Types that NumPy lacks, bfloat16 and floats of 8 bits, travel through .npy and .npz as raw bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from oneflow.runtime.safetensors_files import read_safetensors
from oneflow.tools.files import FileError

SUFFIXES = (".npy", ".npz", ".safetensors")
#: The first bytes of a file of each kind.
_BEGINNINGS = {".npy": b"\x93NUMPY", ".npz": b"PK"}


def _suffix(path: str) -> str:
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise FileError(f"expected a file name that ends in {', '.join(SUFFIXES)}, got {path!r}")
    return suffix


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of a file by name; the array of an .npy file has the name ''.

    Raises:
        FileError: the file cannot be read.
    """
    suffix = _suffix(path)
    if not Path(path).is_file():
        raise FileError(f"cannot read {path}: {'is a directory' if Path(path).is_dir() else 'no such file'}")
    _expect_format(path, suffix)
    try:
        if suffix == ".safetensors":
            return read_safetensors(path)[0]
        loaded = np.load(path, allow_pickle=False)
        return {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except MemoryError as error:
        raise FileError(f"cannot read {path}: expected arrays that fit in memory: {error}") from None
    except Exception as error:  # Readers of corrupt files raise all kinds of exceptions.
        raise FileError(f"cannot read {path}: not a valid {suffix} file: {error}") from None


def _expect_format(path: str, suffix: str) -> None:
    """Refuses a file whose content does not match its suffix.

    Raises:
        FileError: the content does not match, or the file cannot be read.
    """
    wanted = _BEGINNINGS.get(suffix, b"")
    try:
        with open(path, "rb") as file:
            begin = file.read(len(wanted))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from None
    if begin != wanted:
        got = f"a file that begins with {begin!r}" if begin else "an empty file"
        raise FileError(f"cannot read {path}: expected a {suffix} file in NumPy's format, got {got}")


def check_output(path: str, names: Sequence[str]) -> None:
    """Refuses, before a run, a file to which results of these names cannot be written.

    Raises:
        FileError: its suffix is none of ours, an .npy file has to hold one array, or its folder does not exist.
    """
    if _suffix(path) == ".npy" and len(names) != 1:
        raise FileError(f"{path}: expected one result, got {len(names)} ({', '.join(names)}); write an .npz file")
    if Path(path).is_dir() or not Path(path).parent.is_dir():
        raise FileError(f"cannot write {path}: {'is a directory' if Path(path).is_dir() else 'no such folder'}")


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """An array whose type the files of NumPy have: the type of raw bytes in place of a type that NumPy lacks."""
    return array if array.dtype.isbuiltin == 1 else np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}")


def write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name; an .npy file holds one array.

    Raises:
        FileError: the file cannot be written, or is an .npy file and there are several arrays.
    """
    check_output(path, list(arrays))
    suffix = _suffix(path)
    try:
        if suffix == ".npy":
            np.save(path, _as_bytes(next(iter(arrays.values()))))
        elif suffix == ".npz":
            np.savez(path, **{k: _as_bytes(a) for k, a in arrays.items()})  # type: ignore[arg-type]
        else:
            Path(path).write_bytes(safetensors.save({k: np.asarray(a, order="C") for k, a in arrays.items()}))
    except (OSError, SafetensorError) as error:
        raise FileError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
