"""Testing operators and programs: samples, the checks every operator gets, and lit's configuration.

`flow.testing.check_op`, `Sample`, `t` and `v` are what tests of a user's operators need; they are loaded at their
first use, so that lit's configuration stays light.
"""

import importlib
from typing import Any

_HOMES = {"check_op": "user", "Sample": "sample", "Bad": "sample", "t": "sample", "v": "sample"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'oneflow.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"oneflow.testing.{home}"), name)
