"""MLIR's execution engine by its C interface: calls through ctypes leave the interpreter's lock.

So several threads generate code at once, which the bindings do not let them.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from oneflow.dialect._mlir import C_LIBRARY, ir


class _Text(ctypes.Structure):
    """MLIR's reference to text."""

    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


def _text(text: str | Path) -> _Text:
    data = str(text).encode()
    return _Text(data, len(data))


#: Results and arguments of the functions that are used.
_ENGINE = ctypes.c_void_p
_FUNCTIONS = {
    "Create": (_ENGINE, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool]),
    "Destroy": (None, [_ENGINE]),
    "Lookup": (ctypes.c_void_p, [_ENGINE, _Text]),
    "RegisterSymbol": (None, [_ENGINE, _Text, ctypes.c_void_p]),
    "DumpToObjectFile": (None, [_ENGINE, _Text]),
}  # fmt: skip


@functools.cache
def _interface() -> dict[str, Any]:
    library = ctypes.CDLL(str(C_LIBRARY))
    found = {name: library[f"mlirExecutionEngine{name}"] for name in _FUNCTIONS}
    for name, (result, arguments) in _FUNCTIONS.items():
        found[name].restype, found[name].argtypes = result, arguments
    return found


def _handle(module: ir.Module) -> int:
    """The address that the C interface knows a module by."""
    capsule, interface = module._CAPIPtr, ctypes.pythonapi
    interface.PyCapsule_GetName.restype, interface.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    interface.PyCapsule_GetPointer.restype = ctypes.c_void_p
    interface.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(interface.PyCapsule_GetPointer(capsule, interface.PyCapsule_GetName(capsule)))


class Engine:
    """Code of a module of the LLVM dialect; made when it is first looked up. Its memory lives as long as this.

    `level` is LLVM's effort, `pic` makes code that may lie anywhere.
    """

    def __init__(self, module: ir.Module, level: int, pic: bool) -> None:
        """Translates and optimises the module.

        Raises:
            RuntimeError: it does not translate.
        """
        self._engine: int | None = _interface()["Create"](_handle(module), level, 0, None, True, pic)
        if not self._engine:
            raise RuntimeError("expected a module of the LLVM dialect that translates; see MLIR's message on stderr")

    def declare(self, name: str) -> None:
        """Has code that calls `name`, which is made elsewhere, link in the process; it is not to be run there."""
        _interface()["RegisterSymbol"](self._engine, _text(name), 1)

    def address(self, name: str) -> int:
        """Where a function lies.

        Raises:
            RuntimeError: a symbol is missing.
        """
        found = _interface()["Lookup"](self._engine, _text(name))
        if not found:
            raise RuntimeError("expected the compiled program to link; see the JIT's message on stderr")
        return int(found)

    def write(self, path: Path) -> None:
        """Writes the code, once it is made, as an object file."""
        _interface()["DumpToObjectFile"](self._engine, _text(path))

    def __del__(self, destroy: Any = _interface) -> None:
        if getattr(self, "_engine", None):
            destroy()["Destroy"](self._engine)
