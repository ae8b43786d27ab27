"""Testing of operators and programs: samples, the checks of every operator, and the configuration of lit.

`flow.testing.check_op`, `Sample`, `t` and `v` are for tests of user operators. The names are imported at first use,
so that the configuration of lit loads quickly.
"""

import importlib
from typing import Any

_HOMES = {"check_op": "user_operators", "Sample": "sample", "Bad": "sample", "t": "sample", "v": "sample"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'oneflow.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"oneflow.testing.{home}"), name)
