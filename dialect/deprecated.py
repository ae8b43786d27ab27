"""Names of the previous release that users write. Each stands for today's name for one release and warns once.

A release removes the rows that the release before it has added.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

#: Today's names by the scope of a name, a regular expression, and by the previous release's name.
RENAMED: dict[str, dict[str, str]] = {
    "pass": {
        "oneflow-claim-positions": "oneflow-deterministic-scatter",
        "oneflow-compute-padded": "oneflow-fuse-padding",
    },
    "option of oneflow-form-kernels": {"beside": "epilogue"},
    "slot of an operator": {"by_parts": "sharded_decomposition", "withheld": "unoffered"},
    r"argument of flow\.ops\.reduce_(all|any|max|min|nansum|prod|sum)": {"x": "input_tensor"},
    r"argument of flow\.ops\.(multi_tensor_)?(adadelta|adagrad|adam|ftrl|lamb|lars|momentum|rmsprop|sgd)"
    r"_update(_with_cast)?": {"lr_scale": "learning_rate_scale"},
}


class DeprecatedName(DeprecationWarning):
    """A name of the previous release."""


def current_name(scope: str, name: str) -> str:
    """Today's name for `name`, with a `DeprecatedName` at its first use if that is another one."""
    for pattern, names in RENAMED.items():
        if name in names and re.fullmatch(pattern, scope):
            _warn(scope, name, names[name])
            return names[name]
    return name


def current_names(scope: str, attributes: Mapping[str, T]) -> dict[str, T]:
    """Values by name, under today's names.

    Raises:
        TypeError: a value is given under both of its names.
    """
    values: dict[str, T] = {}
    for name, value in attributes.items():
        current = current_name(scope, name)
        if current in values:
            raise TypeError(f"{scope}: expected one value of {current}, got one for each of its names")
        values[current] = value
    return values


@functools.cache
def _warn(scope: str, name: str, current: str) -> None:
    warnings.warn(f"{scope}: {name} is now {current}; the next release removes the old name", DeprecatedName, 4)
