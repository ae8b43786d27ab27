"""oneflow-mlir: OneFlow's operators as an MLIR dialect defined in Python.

    import oneflow as flow

What `flow.` offers is listed in `oneflow.frontend.api` and loaded at its first use, so that tools which need only
the dialect start fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # type checkers see the names that `__getattr__` finds
    from oneflow._functions import _scaled_mm as _scaled_mm
    from oneflow.frontend.api import *  # noqa: F403
    from oneflow._tensor_types import *  # noqa: F403
    from oneflow.frontend.functional_c import Functions
    from oneflow.frontend.oneflow_v0.variables import *  # noqa: F403
    from oneflow.frontend.tracing.activation_checkpointing import *  # noqa: F403
    from oneflow.frontend.tracing.autograd import *  # noqa: F403
    from oneflow.frontend.tracing.control_flow import *  # noqa: F403
    from oneflow._functions import *  # type: ignore[assignment]  # noqa: F403  (`flow.trace` is `trace.trace`)
    from oneflow import (
        amp as amp,
        asyncs as asyncs,
        autograd as autograd,
        backends as backends,
        boxing as boxing,
        comm as comm,
        cuda as cuda,
        distributed as distributed,
        distributions as distributions,
        env as env,
        experimental as experimental,
        fft as fft,
        hub as hub,
        jit as jit,
        linalg as linalg,
        mock_torch as mock_torch,
        nn as nn,
        one_embedding as one_embedding,
        optim as optim,
        sbp as sbp,
        special as special,
        sysconfig as sysconfig,
        testing as testing,
        typing as typing,
        utils as utils,
        version as version,
    )

    _C: Functions

__version__ = "0.2.0"
_API = "oneflow.frontend.api"
_PACKAGES = (
    "amp", "asyncs", "autograd", "backends", "boxing", "comm", "cuda", "distributed", "distributions", "env",
    "experimental", "fft", "hub", "jit", "linalg", "mock_torch", "nn", "one_embedding", "optim", "sbp", "special", "sysconfig",
    "testing", "typing", "utils", "version",
)  # fmt: skip
_LAYERS = frozenset(("dialect", "passes", "lowering", "runtime", "frontend", "tools"))


if not TYPE_CHECKING:

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
