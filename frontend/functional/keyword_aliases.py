"""The names of parameters by which programs for OneFlow and PyTorch give arguments: `flow.relu(input=x)`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from oneflow.dialect.deprecated import has_previous_names, takes_previous_names

#: Functions whose parameters have further names: each name, and the parameter that it stands for.
KEYWORD_ALIASES = {
    "concatenate": {"axis": "dim"},
    "divide": {"dividend": "input", "divisor": "other"},
    "dot": {"tensor": "other"},
    "one_hot": {"tensor": "x"},
    "pow": {"exponent": "other"},
    "split": {"tensor": "x"},
    "swapaxes": {"axis0": "dim0", "axis1": "dim1"},
    "true_divide": {"dividend": "input", "divisor": "other"},
    "where": {"input": "x", "other": "y"},
}


def keyword_aliases(name: str, function: Callable[..., Any]) -> dict[str, str]:
    """The further names of a function's parameters; a first parameter `x` is `input` too."""
    first = next(iter(inspect.signature(function).parameters), None)
    return {**({"input": "x"} if first == "x" else {}), **KEYWORD_ALIASES.get(name, {})}


def with_keyword_aliases(function: Callable[..., Any], aliases: dict[str, str]) -> Callable[..., Any]:
    """A function that takes arguments by further names of its parameters."""
    if not aliases:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        return function(*args, **{aliases.get(name, name): value for name, value in kwargs.items()})

    return call


def with_all_names(name: str, function: Callable[..., Any], aliases: dict[str, str]) -> Callable[..., Any]:
    """The function `flow.<name>`, which takes arguments by further names and by names of the previous release."""
    function, scope = with_keyword_aliases(function, aliases), f"argument of flow.{name}"
    return takes_previous_names(scope)(function) if has_previous_names(scope) else function
