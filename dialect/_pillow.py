"""The one module that imports Pillow, when it is first used: by operators that decode images."""

from __future__ import annotations

import importlib
from typing import Any

HINT = "pip install 'oneflow-mlir[image]'"


class _Pillow:
    """Pillow's modules by name: `pillow.Image`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return importlib.import_module(f"PIL.{name}")
        except ImportError:
            raise ImportError(f"expected Pillow, which decodes images ({HINT})") from None


pillow = _Pillow()
