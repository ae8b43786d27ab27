"""Hooks: functions that users register on tensors and modules, and the handles that remove hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oneflow.frontend.core.errors import refuse

Hook = Callable[..., Any]


class Hooks:
    """Hooks in the order of their calls.

    `version` counts the changes of these hooks, `changes` the changes of all hooks and of all attributes of modules.
    """

    __slots__ = ("_functions", "version")
    changes = 0

    def __init__(self) -> None:
        self._functions: list[Handle] = []
        self.version = 0

    def add(self, function: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Adds a hook after the others, or before the others; the handle removes the hook.

        Raises:
            TypeError: `function` is not callable.
        """
        if not callable(function):
            raise TypeError(f"expected a function to call as a hook, got {function!r}")
        handle = Handle(self, function, with_kwargs)
        self._functions.insert(0 if prepend else len(self._functions), handle)
        self._changed()
        return handle

    @staticmethod
    def invalidate_guards() -> None:
        """Makes the guards of all programs compare their versions again: attributes of a module have changed."""
        Hooks.changes += 1

    def discard(self, handle: Handle) -> None:
        """Removes a hook, if the hook is registered."""
        if handle in self._functions:
            self._functions.remove(handle)
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        Hooks.changes += 1

    def apply(self, grad: Any) -> Any:
        """A gradient, as a tensor, after all hooks.

        Raises:
            RuntimeError: a hook returns a value that is neither a gradient nor None.
        """
        for hook in self:
            changed = hook.function(grad)
            if changed is not None and getattr(changed, "desc", None) != grad.desc:
                raise refuse(f"expected a hook to return a gradient of type {grad.desc} or None, got {changed!r}")
            grad = grad if changed is None else changed
        return grad

    def __iter__(self) -> Iterator[Handle]:
        return iter(tuple(self._functions))

    def __bool__(self) -> bool:
        return bool(self._functions)


class Handle:
    """A hook: `remove()`, or the end of a `with`, removes the hook."""

    def __init__(self, hooks: Hooks, function: Hook, with_kwargs: bool) -> None:
        self._hooks, self.function, self.with_kwargs = hooks, function, with_kwargs

    def remove(self) -> None:
        """Removes the hook; a second time does nothing."""
        self._hooks.discard(self)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
