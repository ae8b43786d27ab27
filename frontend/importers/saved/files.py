"""`flow.load` and `flow.save`: this library's files, and OneFlow's files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from oneflow.dialect.sbp import B
from oneflow.frontend import serialization
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.global_view import to_global
from oneflow.frontend.importers.lazy import load_torch
from oneflow.frontend.importers.saved.graphs import PROGRAM, load_graph, save_graph
from oneflow.frontend.importers.saved.pickles import read_pickle
from oneflow.frontend.importers.saved.variables import read_variables
from oneflow.frontend.methods.methods import to
from oneflow.frontend.nn.graph import Graph
from oneflow.frontend.nn.module import Module
from oneflow.runtime.global_array import Placement

#: The files by which a folder of OneFlow is recognized: a pickle whose tensors are in folders, or the mark of a
#: finished snapshot.
PICKLE, SNAPSHOT = "pickled_data", "snapshot_done"
#: How a pickle begins, and an archive of `torch.save`.
_PICKLED, _ARCHIVED = b"\x80", b"PK"
#: The end of the length of a safetensors file's header, in 8 bytes, and the start of the header.
_SAFETENSORS = b"\0\0\0{"


def save(value: Any, path: str | os.PathLike[str], global_dst_rank: int | None = None) -> None:
    """Writes a nested structure of dicts (of strings or integers), lists, tuples, tensors and plain values to a file.

    With `global_dst_rank`, all ranks call the function, which gathers global tensors, and this rank writes the file.

    A graph, which has been called, is written to a folder: its program, and a folder for each variable, as OneFlow
    writes them (`load_graph`).

    Raises:
        TypeError: the object contains a value of another type.
        SavedError: the graph has not been called, or trains.
    """
    if isinstance(value, Graph):
        save_graph(value, Path(path))
    else:
        serialization.save(value, path, global_dst_rank)


def load(
    path: str | os.PathLike[str],
    global_src_rank: int | None = None,
    map_location: Any = None,
    *,
    support_pytorch_format: bool = True,
) -> Any:
    """The contents of a file that `save` wrote, of another safetensors file, or of the output of OneFlow's `save`.

    OneFlow's files are pickles, which are read without running code, and folders: graphs (see
    `load_graph`), pickles whose tensors are in folders, and snapshots of variables, which are dicts by name. Files of
    `torch.save` are read where PyTorch is installed.

    Args:
        path: the file or the folder.
        global_src_rank: the rank of the global tensors that the tensors become; all ranks read the file. None for
            tensors of this process.
        map_location: the device of the tensors, or a function of a tensor and the device where it was ("cpu").
        support_pytorch_format: whether files of `torch.save` are read; otherwise they are of another kind.

    Raises:
        FileNotFoundError: the file does not exist.
        IsADirectoryError: the path is a folder of another kind.
        ValueError: the file is of another kind, malformed, or truncated.
    """
    path = Path(path)
    content = _load_folder(path) if path.is_dir() else _load_file(path, support_pytorch_format)
    if global_src_rank is not None:
        return to_global(content, Placement("cpu", [global_src_rank]), B)
    return content if map_location is None else _moved(content, map_location)


def _load_file(path: Path, support_pytorch_format: bool) -> Any:
    with open(path, "rb") as file:
        begin = file.read(9)
    if begin[5:] == _SAFETENSORS:  # the length of the header before it may have the bytes of the other formats
        return serialization.load(path)
    if begin.startswith(_PICKLED):
        return read_pickle(path.read_bytes())
    if not begin.startswith(_ARCHIVED):
        return serialization.load(path)
    if not support_pytorch_format:
        raise ValueError(f"expected a file of OneFlow, got {path} of torch.save; pass support_pytorch_format=True")
    return load_torch(path)


def _moved(content: Any, map_location: Any) -> Any:
    """The content with its tensors and modules on a device, or as a function says."""
    if isinstance(content, Module):
        return content.to(map_location)
    leaves, tree = flatten(content)
    move = map_location if callable(map_location) else lambda x, _: to(x, map_location)
    return tree.unflatten([move(x, "cpu") if isinstance(x, Tensor) else x for x in leaves])


def _load_folder(path: Path) -> Any:
    if (path / PROGRAM).is_file():
        return load_graph(path)
    if (path / PICKLE).is_file():
        return read_pickle((path / PICKLE).read_bytes(), path)
    if (path / SNAPSHOT).is_file():
        return {name: wrapped(array) for name, array in read_variables(path).items()}
    return serialization.load(path)
