"""Saving and loading: nested dicts and lists of tensors and plain values, as safetensors.

A flat dict of tensors, such as `state_dict` gives, becomes a file with the same names as PyTorch's users write. Any
other structure is kept in the metadata of the file. A file is written under a temporary name and then renamed: a
program that is killed leaves the old file, and the next writer removes the temporary one. `pickle` takes tensors and
modules too.
"""

from __future__ import annotations

import contextlib
import copyreg
import fcntl
import glob
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save as to_bytes

from oneflow.frontend.core.arrays import is_array, is_on_ranks, to_array
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.env import get_rank
from oneflow.frontend.nn.module import Parameter
from oneflow.runtime.safetensors_files import read_safetensors

STRUCTURE = "oneflow.structure"

_Pickled = tuple[Callable[..., EagerTensor], tuple[Any, ...]]


def _reduced(tensor: EagerTensor) -> _Pickled:
    """The state that `pickle` keeps: values, element type and whether the tensor is a leaf, but not the device.

    Raises:
        TypeError: the tensor is global, or a gradient flows through it.
    """
    if is_on_ranks(tensor.storage):
        raise TypeError("expected a tensor of one device to pickle, got a global one; pickle x.to_local()")
    if tensor.requires_grad and not tensor.is_leaf:
        raise TypeError(f"expected a leaf to pickle, got the result {tensor.desc} of an operator; pickle x.detach()")
    return _unpickled, (type(tensor), to_array(tensor.storage), tensor.requires_grad)


def _unpickled(kind: type[EagerTensor], array: np.ndarray, requires_grad: bool) -> EagerTensor:
    tensor = object.__new__(kind)
    EagerTensor.__init__(tensor, wrapped(array).variable)
    tensor.requires_grad_(requires_grad)
    return tensor


for _kind in (EagerTensor, Parameter):
    copyreg.pickle(_kind, _reduced)


def save(value: Any, path: str | os.PathLike[str], global_dst_rank: int | None = None) -> None:
    """Writes a nested structure of dicts (of strings or integers), lists, tuples, tensors and plain values to a file.

    With `global_dst_rank`, all ranks call the function, which gathers global tensors, and this rank writes the file.

    Raises:
        TypeError: the structure has a value of another type.
    """
    tensors: dict[str, np.ndarray] = {}
    structure = _pack(value, "", tensors)
    flat = isinstance(value, dict) and all(isinstance(v, EagerTensor) or is_array(v) for v in value.values())
    metadata = {} if flat and value else {STRUCTURE: json.dumps(structure)}
    if global_dst_rank in (None, get_rank()):
        _replace(Path(path), to_bytes(tensors, metadata={"format": "pt", **metadata}))


def load(path: str | os.PathLike[str]) -> Any:
    """The contents of a file written by `save`, or the dict of tensors of any other safetensors file.

    Raises:
        FileNotFoundError: there is no such file.
        IsADirectoryError: it is a folder.
        ValueError: it is no safetensors file, or was cut off.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(f"expected {os.fspath(path)} to be a safetensors file, got a folder; name one in it")
    try:
        return _read(path)
    except SafetensorError as error:
        raise ValueError(f"expected {os.fspath(path)} to be a safetensors file: {error}") from None


def _read(path: str | os.PathLike[str]) -> Any:
    arrays, metadata = read_safetensors(path)
    tensors = {name: wrapped(array) for name, array in arrays.items()}
    return _unpack(json.loads(metadata[STRUCTURE]), tensors) if STRUCTURE in metadata else tensors


def _pack(value: Any, path: str, tensors: dict[str, np.ndarray]) -> Any:
    """The structure with names in place of tensors; the tensors are added to `tensors`."""
    if isinstance(value, EagerTensor) or is_array(value):
        array = value.array if isinstance(value, EagerTensor) else to_array(value)
        tensors[path] = np.array(array, order="C")
        return {"tensor": path}
    if isinstance(value, dict):
        wrong = next((k for k in value if not isinstance(k, (str, int)) or isinstance(k, bool)), None)
        if wrong is not None:
            raise TypeError(f"expected strings or integers as keys, got {wrong!r} at {path or 'the top'}")
        return {"dict": [[k, _pack(v, f"{path}.{k}" if path else str(k), tensors)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        items = [_pack(v, f"{path}.{i}" if path else str(i), tensors) for i, v in enumerate(value)]
        return {"list" if isinstance(value, list) else "tuple": items}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise TypeError(f"expected tensors and plain values to save, got {type(value).__name__} at {path or 'the top'}")


def _unpack(structure: dict[str, Any], tensors: dict[str, EagerTensor]) -> Any:
    ((kind, content),) = structure.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "value":
        return content
    if kind == "dict":
        return {k: _unpack(v, tensors) for k, v in content}
    items = [_unpack(v, tensors) for v in content]
    return items if kind == "list" else tuple(items)


def _replace(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    _remove_unfinished(path)
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(name, "xb") as file:
            _lock(file)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(name, path)
        _sync_folder(path.parent)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _remove_unfinished(path: Path) -> None:
    """Removes temporary files of killed writers, whose locks are free."""
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}"):
        # an empty one may be about to be locked
        with contextlib.suppress(OSError), open(unfinished, "rb") as file:
            if os.fstat(file.fileno()).st_size and _lock(file):
                unfinished.unlink()


def _lock(file: BinaryIO) -> bool:
    """Whether the file is now locked, until it is closed or its writer is killed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Writes the names in a folder to the disk, where the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
