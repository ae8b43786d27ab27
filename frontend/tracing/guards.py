"""Guards: conditions under which a traced program still holds, evaluated before each run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import Leaf


@dataclass(frozen=True)
class Guard:
    """A value that was read while the function was traced; the program holds while `get` gives the same.

    A guard that is not `lasting` never holds again once it has failed, unless `may_return` says so; programs with
    such a guard are dropped.
    """

    get: Callable[[], Any]
    value: Any
    lasting: bool = True
    may_return: Callable[[], bool] | None = None

    @property
    def may_hold_again(self) -> bool:
        """Whether the guard holds, or may hold again later."""
        return self.lasting or (self.holds if self.may_return is None else self.may_return())

    @property
    def holds(self) -> bool:
        """Whether the value is the same as in the trace."""
        return not self.differs(self.get())

    def differs(self, now: Any) -> bool:
        """Whether `now` is another value than that of the trace; tensors are compared by identity."""
        then = self.value
        return now is not then and (isinstance(now, Tensor) or isinstance(then, Tensor) or bool(now != then))


class GradientPresence:
    """The guard on which leaves have a gradient and which have none."""

    def __init__(self) -> None:
        self._leaves: list[Leaf] = []
        self._absent: list[bool] = []

    def watch(self, leaf: Leaf) -> None:
        """Adds a leaf as it is now."""
        self._leaves.append(leaf)
        self._absent.append(leaf.grad is None)

    def __bool__(self) -> bool:
        return bool(self._leaves)

    def __call__(self) -> bool:
        return [leaf.grad is None for leaf in self._leaves] == self._absent
