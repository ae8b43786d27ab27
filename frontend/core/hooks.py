"""Functions that users hang on tensors and modules, and the handles that take them off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oneflow.frontend.core.errors import refuse

Hook = Callable[..., Any]


class Hooks:
    """Functions in the order in which they are called; `version` counts changes, `changes` those of all hooks."""

    __slots__ = ("_functions", "version")
    changes = 0

    def __init__(self) -> None:
        self._functions: list[Handle] = []
        self.version = 0

    def add(self, function: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Adds a function behind the others, or before them; the handle removes it.

        Raises:
            TypeError: it cannot be called.
        """
        if not callable(function):
            raise TypeError(f"expected a function to call as a hook, got {function!r}")
        handle = Handle(self, function, with_kwargs)
        self._functions.insert(0 if prepend else len(self._functions), handle)
        self._changed()
        return handle

    @staticmethod
    def invalidate_guards() -> None:
        """Has all be looked at that watches hooks or attributes."""
        Hooks.changes += 1

    def discard(self, handle: Handle) -> None:
        """Removes a function, if it is there."""
        if handle in self._functions:
            self._functions.remove(handle)
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        Hooks.changes += 1

    def apply(self, grad: Any) -> Any:
        """A gradient, a tensor, after all of them.

        Raises:
            RuntimeError: one gives something else than a gradient or None.
        """
        for hook in self:
            changed = hook.function(grad)
            if changed is not None and getattr(changed, "desc", None) != grad.desc:
                raise refuse(f"expected a hook to give a gradient of type {grad.desc} or None, got {changed!r}")
            grad = grad if changed is None else changed
        return grad

    def __iter__(self) -> Iterator[Handle]:
        return iter(tuple(self._functions))

    def __bool__(self) -> bool:
        return bool(self._functions)


class Handle:
    """One hook: `remove()`, or the end of a `with`, takes it off."""

    def __init__(self, hooks: Hooks, function: Hook, with_kwargs: bool) -> None:
        self._hooks, self.function, self.with_kwargs = hooks, function, with_kwargs

    def remove(self) -> None:
        """Takes the hook off; a second time does nothing."""
        self._hooks.discard(self)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class VersionGuard:
    """Whether some hooks are what they were: one comparison, as long as none of any object changes.

    So it is for attributes of modules, whose changes count as those of hooks do.
    """

    def __init__(self) -> None:
        self._versions: list[tuple[Callable[[], Any], Any]] = []
        self._seen = Hooks.changes

    def watch(self, version: Callable[[], Any]) -> None:
        """Adds what is the same as long as `version` gives the same."""
        self._versions.append((version, version()))

    def __bool__(self) -> bool:
        return bool(self._versions)

    def __call__(self) -> bool:
        if self._seen != Hooks.changes:
            seen = Hooks.changes
            if any(version() != then for version, then in self._versions):
                return False
            self._seen = seen
        return True
