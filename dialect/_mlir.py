"""The one door to the MLIR bindings.

Everything else in the project imports MLIR from here, so another wheel that serves MLIR >= 23 with
`dialects.ext` needs a change in this file alone.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch_mlir import _mlir_libs, ir, passmanager

if TYPE_CHECKING:
    from torch_mlir import execution_engine, rewrite
    from torch_mlir.dialects import (
        affine,
        arith,
        bufferization,
        builtin,
        cf,
        ext,
        func,
        irdl,
        linalg,
        llvm,
        math,
        memref,
        scf,
        tensor,
        transform,
        vector,
    )

#: The library that has MLIR's C interface.
C_LIBRARY = Path(_mlir_libs.__file__).with_name("libTorchMLIRAggregateCAPI.so")
VERSION = "torch-mlir 20261001"

__all__ = [
    "C_LIBRARY",
    "VERSION",
    "affine",
    "arith",
    "bufferization",
    "builtin",
    "cf",
    "execution_engine",
    "ext",
    "func",
    "has_no_module",
    "ir",
    "irdl",
    "linalg",
    "llvm",
    "math",
    "memref",
    "passmanager",
    "rewrite",
    "scf",
    "tensor",
    "transform",
    "vector",
]

#: The modules that are not dialects.
_LIBRARIES = frozenset(("execution_engine", "rewrite"))


def __getattr__(name: str) -> Any:
    """Imports the module of a dialect when it is first needed: a program needs few, and some take long to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = ir.__name__.rpartition(".")[0] + ("" if name in _LIBRARIES else ".dialects")
    module = globals()[name] = importlib.import_module(f"{package}.{name}")
    return module


def has_no_module(dialect: str) -> None:
    """Registers an empty module for a dialect, so that the bindings do not search the disk at every operation."""
    name = f"{ir.__name__.rpartition('.')[0]}.dialects.{dialect}"
    sys.modules.setdefault(name, ModuleType(name))
