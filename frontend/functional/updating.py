"""Functions whose result may overwrite their first argument: functions with a parameter `inplace`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor

_INPLACE = inspect.Parameter("inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation="bool")


def with_inplace(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function with a last positional parameter `inplace`, which updates the first argument and returns it."""
    plain = inspect.signature(function)
    given_by_name = [p for p in plain.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    positional = [p for p in plain.parameters.values() if p not in given_by_name]
    signature = plain.replace(parameters=[*positional, _INPLACE, *given_by_name])

    count = len(positional)

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) <= count and "inplace" not in kwargs:
            return function(*args, **kwargs)
        arguments = signature.bind(*args, **kwargs).arguments
        inplace = arguments.pop("inplace")
        result = function(**arguments)
        return updated(next(iter(arguments.values())), result, f"{function.__name__}_") if inplace else result

    either.__signature__ = signature  # type: ignore[attr-defined]
    either.__doc__ = f"{function.__doc__}\n\nWith `inplace` the argument becomes the result, and is what is given."
    return either


def updated(x: Any, result: Tensor, writer: str) -> Tensor:
    """`x` updated in place by a result.

    Raises:
        OneFlowError: the argument is no tensor.
    """
    if not isinstance(x, Tensor):
        raise fail(f"expected a tensor to update in place, got {type(x).__name__}; write flow.tensor(x)")
    if result is not x:
        current_builder().assign(x, result, writer)
    return x
