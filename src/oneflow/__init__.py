"""oneflow-mlir: OneFlow's operators as an MLIR dialect defined in Python.

    import oneflow as flow

What `flow.` offers is listed in `oneflow.frontend.api` and loaded at its first use, so that tools which need only
the dialect start fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneflow.frontend.api import *  # noqa: F403

__version__ = "0.2.0"
_API = "oneflow.frontend.api"
_PACKAGES = (
    "amp", "asyncs", "autograd", "backends", "boxing", "comm", "cuda", "distributed", "distributions", "env",
    "experimental", "fft", "hub", "jit", "linalg", "mock_torch", "nn", "one_embedding", "optim", "sbp", "special", "sysconfig",
    "testing", "typing", "utils", "version",
)  # fmt: skip
_LAYERS = frozenset(("dialect", "passes", "lowering", "runtime", "frontend", "tools"))


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"oneflow.{name}")
    if name.startswith("__") or name in _LAYERS:  # `from oneflow import dialect` imports the folder then
        raise AttributeError(f"module 'oneflow' has no attribute {name!r}")
    api = importlib.import_module(_API)
    if not hasattr(api, name):
        raise AttributeError(f"module 'oneflow' has no attribute {name!r}")
    value = globals()[name] = getattr(api, name)  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return [*importlib.import_module(_API).__all__, *_PACKAGES]
