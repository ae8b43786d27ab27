"""Callables that can be compiled: functions, methods, partial functions, objects with `__call__`; all others are
refused.
"""

from __future__ import annotations

import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np

from oneflow.frontend.core.errors import CallError, user_location


@dataclass(frozen=True)
class Callee:
    """A compiled function and its kind of method: `kind` is None, staticmethod or classmethod."""

    function: Callable[..., Any]
    kind: type | None = None

    @classmethod
    def of(cls, fn: Any) -> Callee:
        """The function that `fn` calls.

        Raises:
            CallError: `fn` is no function from tensors to tensors; the message states what to pass.
        """
        kind = type(fn) if isinstance(fn, (staticmethod, classmethod)) else None
        function = fn.__func__ if kind else fn
        if not callable(function):
            raise CallError(f"expected a function of tensors, got {function!r}")
        if inspect.isclass(function):
            name = function.__name__
            raise CallError(
                f"expected a function of tensors, got the class {name}; pass an object or a method of the class"
            )
        if isinstance(function, np.ufunc):
            name = function.__name__
            raise CallError(
                f"expected a function of tensors, got NumPy's {name}, a function of arrays; write flow.{name} or a "
                f"similar function"
            )
        called = function if inspect.isroutine(function) else type(function).__call__
        for refused, what in _REFUSED.items():
            if refused(function) or refused(called):
                raise CallError(f"expected a function that returns tensors, {_name(function)} is {what}")
        _expect_signature(function)
        return cls(function, kind)

    @property
    def name(self) -> str:
        """The name of the function."""
        return _name(self.function)

    @property
    def takes_self(self) -> bool:
        """Whether the first parameter has the name `self` or `cls`."""
        first = next(iter(inspect.signature(self.function).parameters), "")
        return self.kind is classmethod or (first in ("self", "cls") and not hasattr(self.function, "__self__"))

    @property
    def method_key(self) -> str:
        """The attribute of an object that holds the compiled method."""
        return f"{self.name} (compiled)"

    def bound(self, instance: Any, owner: type | None, own: Any, make: Callable[..., Any]) -> Any:
        """The compiled method `own` of an object, made by `make`; stored on the object, so that programs live as long
        as the object.
        """
        target = owner if self.kind is classmethod else instance
        if target is None or self.kind is staticmethod:
            return own
        method = getattr(target, "__dict__", {}).get(self.method_key)
        if method is None or method.target is not target or method.own is not own:
            method = CompiledMethod(target, own, make(MethodType(self.function, target)))
            _store(target, self.method_key, method)
        return method.compiled


@dataclass(frozen=True)
class CompiledMethod:
    """The compiled methods of `target`, which copies and pickles of the target do not contain."""

    target: Any = None
    own: Any = None
    compiled: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledMethod, ()


def value_key(value: Any) -> Any:
    """The key of a plain value: 1, 1.0 and True have different keys, and so do -0.0 and 0.0; NaN equals NaN."""
    return type(value), repr(value) if isinstance(value, float) else value


def settings_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The key of the numbers, strings and flags of the object of a method, or of a called object."""
    owner = owner_of(fn)
    if inspect.isfunction(owner) or inspect.isclass(owner) or inspect.ismodule(owner):
        return {}
    return {k: value_key(v) for k, v in simple_attributes(owner).items()}


def filled(arguments: inspect.BoundArguments, values: dict[str, Any]) -> inspect.BoundArguments:
    """The same arguments with other values; the caller's arguments do not change."""
    return inspect.BoundArguments(arguments.signature, OrderedDict(arguments.arguments | values))


def owner_of(fn: Callable[..., Any]) -> Any:
    """The object of a method, or the called object."""
    return getattr(fn, "__self__", fn)


def simple_attributes(owner: Any) -> dict[str, Any]:
    """The numbers, strings and flags of an object: its own attributes, and the attributes of its classes."""
    names = {name: None for base in reversed(type(owner).__mro__) for name, v in vars(base).items() if _is_simple(v)}
    names |= {name: None for name, v in getattr(owner, "__dict__", {}).items() if _is_simple(v)}
    values = {name: getattr(owner, name, None) for name in names if not name.startswith("__")}
    return {name: v for name, v in values.items() if _is_simple(v)}


def _is_simple(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str))


def _store(target: Any, key: str, value: Any) -> None:
    if isinstance(target, type):
        type.__setattr__(target, key, value)
    elif hasattr(target, "__dict__"):
        target.__dict__[key] = value


#: Functions that do not return their computed value.
_REFUSED: dict[Callable[[Any], bool], str] = {
    inspect.iscoroutinefunction: "a coroutine; compile the awaited function",
    inspect.isasyncgenfunction: "a generator; return the tensors, as a list",
    inspect.isgeneratorfunction: "a generator; return the tensors, as a list",
}


def _expect_signature(function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        name = _name(function)
        raise CallError(
            f"expected a function whose parameters are known, {name} is written in C; use oneflow's, or a lambda "
            "that calls it"
        ) from None


def _name(function: Any) -> str:
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def bind(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """Arguments under the names of `fn`'s parameters, defaults filled in.

    Raises:
        CallError: the arguments do not fit the parameters.
    """
    signature = inspect.signature(fn)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise CallError(f"{entry_name(fn)}{signature}: {error} ({user_location()})") from None
    bound.apply_defaults()
    return bound


def entry_name(fn: Callable[..., Any]) -> str:
    """A name for the program of `fn`."""
    return re.sub(r"\W", "_", getattr(fn, "__name__", type(fn).__name__)).strip("_") or "main"
