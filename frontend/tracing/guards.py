"""What a program of a traced function depends on besides its arguments, to be looked at before each run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import Leaf


@dataclass(frozen=True)
class Guard:
    """Something that was so when the function was traced: the program is for that alone.

    What is not `lasting` is never so again once it is not, unless it `may_return`; a program that depends on it is given
    up then.
    """

    get: Callable[[], Any]
    value: Any
    lasting: bool = True
    may_return: Callable[[], bool] | None = None

    @property
    def may_hold_again(self) -> bool:
        """Whether it is still so, or may be again."""
        return self.lasting or (self.holds if self.may_return is None else self.may_return())

    @property
    def holds(self) -> bool:
        """Whether it is still so."""
        return not self.differs(self.get())

    def differs(self, now: Any) -> bool:
        """Whether it is something else now; tensors are compared by identity."""
        then = self.value
        return now is not then and (isinstance(now, Tensor) or isinstance(then, Tensor) or bool(now != then))


class GradientPresence:
    """Whether leaves have gradients that had one when that was read, and others have none."""

    def __init__(self) -> None:
        self._leaves: list[Leaf] = []
        self._absent: list[bool] = []

    def watch(self, leaf: Leaf) -> None:
        """Adds a leaf as it is."""
        self._leaves.append(leaf)
        self._absent.append(leaf.grad is None)

    def __bool__(self) -> bool:
        return bool(self._leaves)

    def __call__(self) -> bool:
        return [leaf.grad is None for leaf in self._leaves] == self._absent
