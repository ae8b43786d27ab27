"""Modules that are imported when they are first used, so that a command loads no more than it needs.

    dump = lazy("oneflow.runtime.cuda.dump")
    dump.dump_kernels(..)

The import direction between folders holds for these modules too.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class LazyModule:
    """Stands for a module until one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        # The name is looked up each time: a module's names may be replaced.
        module = sys.modules.get(self._name)
        if module is None or is_being_imported(module):  # `import_module` takes longer, and waits for other threads
            module = importlib.import_module(self._name)
        return getattr(module, name)


def lazy(name: str) -> Any:
    """The module called `name`, which is imported when one of its names is first asked for."""
    return LazyModule(name)


def is_being_imported(module: ModuleType) -> bool:
    """Whether the code of a module still runs; only the thread that imports it sees this, since others wait."""
    return bool(getattr(module.__spec__, "_initializing", False))


class OptionalPackage:
    """The modules of a package of an extra by name, each imported when it is first asked for."""

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        self._package, self._purpose, self._extra = package, purpose, extra

    def __getattr__(self, name: str) -> Any:
        try:
            return importlib.import_module(f"{self._package}.{name}")
        except ImportError:
            hint = f"pip install 'oneflow-mlir[{self._extra}]'"
            raise ImportError(f"expected {self._purpose} ({hint})") from None
