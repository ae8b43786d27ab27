"""`flow.experimental`: operators with kernels in Python, one folder each.

    op = flow.experimental.custom_op_module("user_relu", folder)
    op.py_api().cpp_def().py_kernel().build_load()
    op.api.user_relu_forward(x)

`folder/user_relu/` holds `user_relu_cpp_def.cpp` (the registrations of `user_relu_forward`, and if it is
differentiated of `user_relu_backward`), `user_relu_py_api.py` (functions around them), `user_relu_py_kernel.py`
(`forward(args)` and `backward(args)` on NumPy arrays) and `user_relu_cpp_kernel.cpp`, as far as requested.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from oneflow.dialect.lazy import lazy
from oneflow.dialect.record import REGISTRY, Operator
from oneflow.frontend import sysconfig
from oneflow.runtime.user_ops.numpy_kernel import numpy_kernel

__all__ = ["CustomOpModule", "custom_op_module"]

library = lazy("oneflow.runtime.user_ops.library")


class CustomOpModule:
    """The folder of one operator; `build_load` builds and loads the requested parts."""

    def __init__(self, op_type_name: str, module_path: str) -> None:
        self.name, self.folder = op_type_name, Path(module_path) / op_type_name
        self.api: Any = None
        self._api: Path | None = None
        self._kernels: Path | None = None
        self._sources: list[Path] = []

    def py_api(self) -> CustomOpModule:
        """Loads `<name>_py_api.py` as `api`."""
        self._api = self._file("py_api.py")
        return self

    def cpp_def(self) -> CustomOpModule:
        """Registers the operators of `<name>_cpp_def.cpp`."""
        self._sources.append(self._file("cpp_def.cpp"))
        return self

    def cpp_kernel(self) -> CustomOpModule:
        """Adds the kernels of `<name>_cpp_kernel.cpp`."""
        self._sources.append(self._file("cpp_kernel.cpp"))
        return self

    def py_kernel(self) -> CustomOpModule:
        """Makes `forward` and `backward` of `<name>_py_kernel.py` the kernels of `<name>_forward` and `_backward`."""
        self._kernels = self._file("py_kernel.py")
        return self

    def build_load(self) -> CustomOpModule:
        """Compiles and loads the requested parts.

        Raises:
            LibraryError: a source does not compile or registers something wrong, or a kernel is missing.
        """
        if self._sources:
            library.load_library(_build(self.name, self._sources))
        if self._kernels is not None:
            _set_kernels(self.name, self._kernels)
        if self._api is not None:
            self.api = _import(self._api)
        return self

    def _file(self, ending: str) -> Path:
        path = self.folder / f"{self.name}_{ending}"
        if not path.is_file():
            raise library.LibraryError(f"expected the file {path}, got no such file")
        return path


def custom_op_module(op_type_name: str, module_path: str) -> CustomOpModule:
    """The operator in the folder `op_type_name` of `module_path`; see the description of this module."""
    return CustomOpModule(op_type_name, module_path)


def _build(name: str, sources: list[Path]) -> Path:
    """A library of C++ files, in a temporary folder."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise library.LibraryError(f"expected a C++ compiler to build {name} (g++ or c++), found none")
    target = Path(tempfile.mkdtemp(prefix="oneflow-op-")) / f"{name}.so"
    flags = [*sysconfig.get_compile_flags(), *sysconfig.get_link_flags()]
    command = [compiler, "-O2", "-fPIC", "-shared", *map(str, sources), "-o", str(target), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise library.LibraryError(f"cannot build {name}:\n{done.stderr.strip()}")
    return target


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _set_kernels(name: str, path: Path) -> None:
    """Registers the functions of a file as the kernels of the operators with their names."""
    if f"{name}_forward" not in REGISTRY:
        raise library.LibraryError(
            f"{path}: expected an operator {name}_forward for its kernel; register it and call cpp_def()"
        )
    module = _import(path)
    for function in ("forward", "backward"):
        record = REGISTRY.operators.get(f"{name}_{function}")
        if record is None:
            continue
        if callable(kernel := getattr(module, function, None)):
            kernel = numpy_kernel(_taking_a_tuple(kernel))
            REGISTRY.operators[record.name] = dataclasses.replace(record, kernel=kernel, in_place=None)
        elif _declares_python_kernel(record):
            raise library.LibraryError(
                f"{path} has no {function}, the kernel of {record.name}; add `def {function}(args):`"
            )


def _declares_python_kernel(record: Operator) -> bool:
    """Whether an operator declares that its kernel is in Python."""
    tag = record.signature.attr_by_name.get("device_sub_tag")
    return tag is not None and tag.default == "py"


def _taking_a_tuple(function: Callable[[tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """A function of one tuple of all arrays, as a function of the operands of a call."""

    def kernel(*operands: Any) -> Any:
        arrays: list[Any] = []
        for operand in operands:
            arrays.extend(operand if isinstance(operand, tuple) else () if operand is None else (operand,))
        return function(tuple(arrays))

    return kernel
