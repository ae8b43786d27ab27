"""Names of the previous release that users write. Each stands for today's name for one release and warns once.

A release removes the rows that the release before it has added.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

#: Today's names by the scope of a name, a regular expression, and by the previous release's name. None stands for a
#: name that has no effect.
RENAMED: dict[str, dict[str, str | None]] = {
    "pass": {
        "oneflow-claim-positions": "oneflow-deterministic-scatter",
        "oneflow-compute-padded": "oneflow-fuse-padding",
        "oneflow-recognise-attention": "oneflow-recognize-attention",
    },
    "option of oneflow-form-kernels": {"beside": None, "processors": "gpu"},
    "slot of an operator": {"by_parts": "sharded_decomposition", "withheld": "unoffered"},
    "attribute of flow.OneFlowError": {"place": "location"},
    r"argument of flow\.ops\.reduce_(all|any|max|min|nansum|prod|sum)": {"x": "input_tensor"},
    r"argument of flow\.ops\.(multi_tensor_)?(adadelta|adagrad|adam|ftrl|lamb|lars|momentum|rmsprop|sgd)"
    r"_update(_with_cast)?": {"lr_scale": "learning_rate_scale"},
    r"argument of flow\.ops\.multi_tensor_momentum_update(_with_cast)?": {"beta": "momentum"},
    r"argument of flow\.ops\.scalar_bitwise_(and|or|xor)": {"int_operand": "operand", "has_int_operand": None},
    r"argument of flow\.round": {"x": "input"},
    r"argument of flow\.slice": {"slices": "slice_tup_list"},
    r"argument of flow\.masked_select": {"key": "mask"},
    r"argument of flow\.device": {"name": "type"},
    r"argument of flow\.cuda\.stream": {"chosen": "target"},
    r"argument of flow\.cuda\.(Stream|current_stream|empty_cache|[gs]et_device(_\w+)?|(max_)?memory_allocated"
    r"|reset_peak_memory_stats|synchronize)": {"place": "device"},
}
#: Options whose values have changed with their names: today's text for the previous release's text.
CONVERTED: dict[tuple[str, str], Callable[[str], str]] = {
    ("option of oneflow-form-kernels", "processors"): lambda text: (
        str(int(text) > 0).lower() if text.isdecimal() else text
    ),
}
#: Modules of this project: a warning is reported at the innermost line of another module.
OWN_PACKAGE = "oneflow"


class DeprecatedName(DeprecationWarning):
    """A name of the previous release."""


def current_name(scope: str, name: str) -> str:
    """Today's name for `name`, with a `DeprecatedName` at its first use if that is another name."""
    return _current(scope, name) or name


def current_names(scope: str, attributes: Mapping[str, T]) -> dict[str, T]:
    """Values by name, under today's names, without the values of names that have no effect.

    Raises:
        TypeError: a value is given under both of its names.
    """
    values: dict[str, T] = {}
    for name, value in attributes.items():
        current = _current(scope, name)
        if current in values:
            raise TypeError(f"{scope}: expected one value of {current}, got one for each of its names")
        if current is not None:
            values[current] = value
    return values


def current_options(scope: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Options of the command line under today's names, with today's texts.

    Raises:
        TypeError: an option is given under both of its names.
    """
    converted = {name: CONVERTED.get((scope, name), str)(text) for name, text in texts.items()}
    return current_names(scope, converted)


def takes_previous_names(scope: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator of functions whose arguments may have the names of the previous release."""

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            named: dict[str, object] = current_names(scope, kwargs) if kwargs else kwargs
            return function(*args, **named)  # type: ignore[arg-type]

        return call

    return wrap


def has_previous_names(scope: str) -> bool:
    """Whether the previous release had other names in a scope."""
    return any(re.fullmatch(pattern, scope) for pattern in RENAMED)


def warn_deprecated(text: str) -> None:
    """Warns at the user's line, once for each text."""
    if text not in _WARNED:
        _WARNED.add(text)
        warnings.warn(f"{text}; the next release refuses the old form", DeprecatedName, _stack_level())


#: The texts of the warnings that were given.
_WARNED: set[str] = set()


def _current(scope: str, name: str) -> str | None:
    for pattern, names in RENAMED.items():
        if name in names and re.fullmatch(pattern, scope):
            current = names[name]
            warn_deprecated(f"{scope}: {name} {'is now ' + current if current else 'has no effect'}")
            return current
    return name


def _stack_level() -> int:
    """The level of the innermost line outside this package, for the caller's call of `warnings.warn`.

    Python hides deprecation warnings at lines of libraries, so the line must be the user's.
    """
    level, frame = 1, sys._getframe(1).f_back
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == OWN_PACKAGE:
        level, frame = level + 1, frame.f_back
    return level + 1
