"""The one module that imports SciPy, when it is first used: by references of operators, and to solve for layouts."""

from __future__ import annotations

import importlib
from typing import Any

HINT = "pip install 'oneflow-mlir[sbp]'"


class _Scipy:
    """SciPy's modules by name: `scipy.special`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return importlib.import_module(f"scipy.{name}")
        except ImportError:
            raise ImportError(f"expected SciPy, which references and the solver of layouts use ({HINT})") from None


scipy = _Scipy()
