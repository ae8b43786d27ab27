"""MLIR's execution engine by its C interface.

Calls through ctypes release the interpreter lock (GIL), so that several threads generate code at once; the bindings
do not release it.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any, ClassVar

from oneflow.dialect._mlir import C_LIBRARY, ir


class _Text(ctypes.Structure):
    """`MlirStringRef`."""

    _fields_: ClassVar = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


def _text(text: str | Path) -> _Text:
    data = str(text).encode()
    return _Text(data, len(data))


#: The result types and argument types of the functions that are used.
_ENGINE = ctypes.c_void_p
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "Create": (_ENGINE, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool]),
    "Destroy": (None, [_ENGINE]),
    "Lookup": (ctypes.c_void_p, [_ENGINE, _Text]),
    "RegisterSymbol": (None, [_ENGINE, _Text, ctypes.c_void_p]),
    "DumpToObjectFile": (None, [_ENGINE, _Text]),
}  # fmt: skip


@functools.cache
def _interface() -> dict[str, Any]:
    library = ctypes.CDLL(str(C_LIBRARY))
    functions = {name: library[f"mlirExecutionEngine{name}"] for name in _FUNCTIONS}
    for name, (result, arguments) in _FUNCTIONS.items():
        functions[name].restype, functions[name].argtypes = result, arguments
    return functions


def _handle(module: ir.Module) -> int:
    """The address of a module in the C interface."""
    capsule, interface = module._CAPIPtr, ctypes.pythonapi
    interface.PyCapsule_GetName.restype, interface.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    interface.PyCapsule_GetPointer.restype = ctypes.c_void_p
    interface.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(interface.PyCapsule_GetPointer(capsule, interface.PyCapsule_GetName(capsule)))


class Engine:
    """The code of a module of the LLVM dialect, generated at the first lookup; its memory lives as long as the
    engine.

    `level` is the optimization level of LLVM (0 to 3), `pic` requests position-independent code.
    """

    def __init__(self, module: ir.Module, level: int, pic: bool) -> None:
        """Translates and optimises the module.

        Raises:
            RuntimeError: the module does not translate to LLVM IR.
        """
        self._engine: int | None = _interface()["Create"](_handle(module), level, 0, None, True, pic)
        if not self._engine:
            raise RuntimeError("expected a module of the LLVM dialect that translates; see MLIR's message on stderr")

    def declare(self, name: str) -> None:
        """Declares the external symbol `name`, so that code that calls it links in the process; such code must not
        run.
        """
        _interface()["RegisterSymbol"](self._engine, _text(name), 1)

    def address(self, name: str) -> int:
        """The address of a function.

        Raises:
            RuntimeError: a symbol is missing.
        """
        address = _interface()["Lookup"](self._engine, _text(name))
        if not address:
            raise RuntimeError("expected the compiled program to link; see the JIT's message on stderr")
        return int(address)

    def write(self, path: Path) -> None:
        """Writes the generated code as an object file."""
        _interface()["DumpToObjectFile"](self._engine, _text(path))

    def __del__(self, destroy: Any = _interface) -> None:
        if getattr(self, "_engine", None):
            destroy()["Destroy"](self._engine)
