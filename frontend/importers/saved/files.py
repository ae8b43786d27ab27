"""`flow.load` and `flow.save`: this library's files, and those of OneFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from oneflow.frontend import serialization
from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.importers.saved.graphs import PROGRAM, load_graph, save_graph
from oneflow.frontend.importers.saved.pickles import read_pickle
from oneflow.frontend.importers.saved.variables import read_variables
from oneflow.frontend.nn.graph import Graph

#: What a folder of OneFlow has: a pickle whose tensors are in folders, or the mark of a finished snapshot.
PICKLE, SNAPSHOT = "pickled_data", "snapshot_done"
#: The first byte of a pickle.
_PICKLED = b"\x80"


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Writes a nested structure of dicts (of strings or integers), lists, tuples, tensors and plain values to a file.

    A graph, which has been called, is written to a folder: its program, and a folder for each variable, as OneFlow
    writes them (`load_graph`).

    Raises:
        TypeError: something in it is none of these.
        SavedError: the graph has not been called, or trains.
    """
    if isinstance(value, Graph):
        save_graph(value, Path(path))
    else:
        serialization.save(value, path)


def load(path: str | os.PathLike[str]) -> Any:
    """The contents of a file that `save` wrote, of another safetensors file, or of what OneFlow's `save` wrote.

    OneFlow's files are pickles, which are read without running anything in them, and folders: graphs (see
    `load_graph`), pickles whose tensors are in folders, and snapshots of variables, which are dicts by name.

    Raises:
        FileNotFoundError: there is no such file.
        IsADirectoryError: it is a folder of another kind.
        ValueError: it is no such file, is malformed, or was cut off.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path)
    if path.is_file():
        with open(path, "rb") as file:
            if file.read(1) == _PICKLED:
                file.seek(0)
                return read_pickle(file.read())
    return serialization.load(path)


def _load_folder(path: Path) -> Any:
    if (path / PROGRAM).is_file():
        return load_graph(path)
    if (path / PICKLE).is_file():
        return read_pickle((path / PICKLE).read_bytes(), path)
    if (path / SNAPSHOT).is_file():
        return {name: wrapped(array) for name, array in read_variables(path).items()}
    return serialization.load(path)
