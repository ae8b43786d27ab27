"""Functions that need PyTorch, which is imported at the first call."""

from __future__ import annotations

import importlib
from typing import Any


def _importer() -> Any:
    """The module of the importer.

    Raises:
        ImportError: PyTorch is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module("oneflow.frontend.importers.torch.module")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        wanted = "expected the package torch, which models in its format need: pip install 'oneflow-mlir[torch]'"
        raise ImportError(wanted) from error


def from_torch(model: Any, args: Any = (), kwargs: Any = None, *, dynamic_shapes: Any = None) -> Any:
    """A PyTorch model as a module of this library: see `importers.torch.module.TorchModule`.

    Args:
        model: a `torch.nn.Module`, or a `torch.export.ExportedProgram`, which needs no further arguments.
        args: example arguments; sizes of 2 and more may be dynamic.
        kwargs: example arguments by name.
        dynamic_shapes: the dynamic dimensions, as `torch.export.export` takes them.

    Raises:
        ImportError: PyTorch is not installed.
        OneFlowError: the model has operators that have no counterpart; all are named.
    """
    return _importer().from_torch(model, args, kwargs, dynamic_shapes=dynamic_shapes)


def read_torch(path: str) -> Any:
    """A file that `torch.export.save` wrote, as `from_torch` gives it.

    Raises:
        ImportError: PyTorch is not installed.
        OneFlowError: the file is not such a file, or the model has operators that have no counterpart.
    """
    return _importer().read_torch(path)
