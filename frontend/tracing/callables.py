"""What can be compiled: functions, methods, partial functions, objects with `__call__`; all others are refused."""

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
    """A function that is compiled, and how it becomes a method: `kind` is None, staticmethod or classmethod."""

    function: Callable[..., Any]
    kind: type | None = None

    @classmethod
    def of(cls, fn: Any) -> Callee:
        """What `fn` calls.

        Raises:
            CallError: it is nothing that is called with tensors and returns them; the message says what to pass.
        """
        kind = type(fn) if isinstance(fn, (staticmethod, classmethod)) else None
        function = fn.__func__ if kind else fn
        if not callable(function):
            raise CallError(f"expected a function of tensors, got {function!r}")
        if inspect.isclass(function):
            name = function.__name__
            raise CallError(f"expected a function of tensors, got the class {name}; pass an object or a method of it")
        if isinstance(function, np.ufunc):
            name = function.__name__
            raise CallError(
                f"expected a function of tensors, NumPy's {name} takes arrays; write flow.{name} or its like"
            )
        called = function if inspect.isroutine(function) else type(function).__call__
        for refused, what in _REFUSED.items():
            if refused(function) or refused(called):
                raise CallError(f"expected a function that returns tensors, {_name(function)} is {what}")
        _expect_signature(function)
        return cls(function, kind)

    @property
    def name(self) -> str:
        """What it is called."""
        return _name(self.function)

    @property
    def awaits_self(self) -> bool:
        """Whether the first parameter is what a method is called on, by its name."""
        first = next(iter(inspect.signature(self.function).parameters), "")
        return self.kind is classmethod or (first in ("self", "cls") and not hasattr(self.function, "__self__"))

    @property
    def method_key(self) -> str:
        """The attribute of an object in which what is compiled for it is kept."""
        return f"{self.name} (compiled)"

    def bound(self, instance: Any, owner: type | None, own: Any, make: Callable[..., Any]) -> Any:
        """`own`, compiled by `make` for what it is a method of; kept there, so that programs live as long."""
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
    """What was compiled for a method of `target`; copies and pickles of the target have nothing of it."""

    target: Any = None
    own: Any = None
    compiled: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledMethod, ()


def value_key(value: Any) -> Any:
    """What tells one plain value from another: 1, 1.0 and True differ, and -0.0 from 0.0; NaN is itself."""
    return type(value), repr(value) if isinstance(value, float) else value


def settings_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """What tells apart the numbers, strings and flags of the object that a method is of, or that is called."""
    owner = owner_of(fn)
    if inspect.isfunction(owner) or inspect.isclass(owner) or inspect.ismodule(owner):
        return {}
    return {k: value_key(v) for k, v in simple_attributes(owner).items()}


def filled(arguments: inspect.BoundArguments, values: dict[str, Any]) -> inspect.BoundArguments:
    """The same arguments with other values; those of the caller stay as they are."""
    return inspect.BoundArguments(arguments.signature, OrderedDict(arguments.arguments | values))


def owner_of(fn: Callable[..., Any]) -> Any:
    """The object that a method is of, or what is called."""
    return getattr(fn, "__self__", fn)


def simple_attributes(owner: Any) -> dict[str, Any]:
    """The numbers, strings and flags of an object as it is read: its own, and those that its classes give."""
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


#: Functions that return something else than what they compute.
_REFUSED: dict[Callable[[Any], bool], str] = {
    inspect.iscoroutinefunction: "a coroutine; compile the function that it awaits",
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
        CallError: they do not fit its parameters.
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
