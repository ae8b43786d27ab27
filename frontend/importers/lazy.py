"""Functions that need packages of other frameworks, which are imported at the first call."""

from __future__ import annotations

import importlib
from typing import Any


def _member(module: str, name: str, package: str) -> Any:
    """A function of a module that needs a package.

    Raises:
        ImportError: the package is not installed; the message states how to install the package.
    """
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"expected the package {package}, which models in its format need: pip install 'oneflow-mlir[{package}]'"
        ) from error
    return getattr(importlib.import_module(f"oneflow.frontend.importers.{module}"), name)


def from_onnx(model: Any, *, device: Any = None, max_programs: int = 64) -> Any:
    """The program of an ONNX model: a module that is called with the model's inputs, by position or by name.

    Args:
        model: the path of a model, whose constants may be in files next to it; its bytes; or a `ModelProto`.
        device: where the program runs; see `flow.compile`.
        max_programs: how many programs are kept for different values of inputs that decide shapes or branches.

    Raises:
        ImportError: the package `onnx` is not installed.
        OneFlowError: the model is malformed, or uses unsupported features; the message names the node and its
            operator.
    """
    return _member("onnx.program", "from_onnx", "onnx")(model, device=device, max_programs=max_programs)


def to_onnx(fn: Any, *arguments: Any, path: Any = None) -> Any:
    """The ONNX model of a function, a module or an imported model, as a `ModelProto`.

    Args:
        fn: a function of tensors, a module, or the result of `flow.compile` or `flow.from_onnx`.
        arguments: its arguments: `TensorSpec`s, whose None are dynamic sizes, or arrays and tensors, of whose
            shapes and types the specs are made. The default for an imported model is the inputs of its file.
        path: a file that the model is written to.

    Raises:
        ImportError: the package `onnx` is not installed.
        OneFlowError: an operator has no counterpart in ONNX; the message names the operator and its line.
    """
    return _member("onnx.writer", "to_onnx", "onnx")(fn, *arguments, path=path)


def from_torch(model: Any, args: Any = (), kwargs: Any = None, *, dynamic_shapes: Any = None) -> Any:
    """A PyTorch model as a module of this library: see `importers.torch.module.TorchModule`.

    Args:
        model: a `torch.nn.Module`, or a `torch.export.ExportedProgram`, which needs no further arguments.
        args: example arguments; sizes of 2 and more may be dynamic.
        kwargs: example arguments by name.
        dynamic_shapes: the dynamic dimensions, in the form of `torch.export.export`.

    Raises:
        ImportError: PyTorch is not installed.
        OneFlowError: the model has operators that have no counterpart; all are named.
    """
    return _member("torch.module", "from_torch", "torch")(model, args, kwargs, dynamic_shapes=dynamic_shapes)


def read_torch(path: str) -> Any:
    """A file that `torch.export.save` wrote, as from `from_torch`.

    Raises:
        ImportError: PyTorch is not installed.
        OneFlowError: the file is not such a file, or the model has operators that have no counterpart.
    """
    return _member("torch.module", "read_torch", "torch")(path)


def load_torch(path: Any) -> Any:
    """The contents of a file of `torch.save`: see `importers.torch.state.load_state`.

    Raises:
        ImportError: PyTorch is not installed.
        OneFlowError: the file is malformed, or has other objects than tensors and plain values.
    """
    return _member("torch.state", "load_state", "torch")(path)
