"""Views that a traced function makes of tensors from outside: as in eager mode they show later updates of those.

A view is computed again, where it is read, from what its tensor is by then. Imports `eager`, `tape`, `views`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.frontend.eager import EagerTensor
from oneflow.frontend.tape import MODE, set_grad_enabled
from oneflow.frontend.tensor import Tensor
from oneflow.frontend.views import PARTS


@dataclass
class Made:
    """A view: the call that makes it, what its first operand was then, and what came of that.

    `like` is an array that lies in another as this does in the tensor from outside, of any values; `recorded` says
    whether gradients see the view.
    """

    tensor: Tensor
    name: str
    operands: Sequence[Any]
    attrs: Mapping[str, Any]
    like: np.ndarray
    recorded: bool
    read: Any
    value: Tensor


class Shown:
    """The views of one trace."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._made: dict[int, Made] = {}

    def add(self, name: str, operands: Sequence[Any], attrs: Mapping[str, Any], result: Tensor) -> None:
        """Notes the result of an operator that may show elements of its first operand."""
        like = self._like(operands[0])
        if like is None:
            return
        shape = tuple(d or 0 for d in result.desc.shape or ())
        part = PARTS[name](attrs, shape)(like) if name in PARTS else like
        if np.may_share_memory(part, like):  # else it is a copy in eager mode too
            read = self._builder.read(operands[0])
            self._made[id(result)] = Made(result, name, operands, attrs, part, MODE.recording, read, result)

    def forget(self, result: Tensor) -> None:
        """Notes that a result shows nobody's elements."""
        self._made.pop(id(result), None)

    def values(self) -> Iterator[Tensor]:
        """What the views were when they were read last."""
        return (made.value for made in self._made.values())

    def present(self, tensor: Tensor) -> Tensor:
        """What a tensor of the trace is now."""
        made = self._made.get(id(tensor))
        if made is None:
            return tensor
        now = self._builder.read(made.operands[0])
        if now is not made.read:
            rest = [self._builder.read(x) if isinstance(x, Tensor) else x for x in made.operands[1:]]
            with set_grad_enabled(made.recorded):
                made.read, made.value = now, self._builder.call(made.name, now, *rest, **made.attrs)[0]
        return made.value

    def _like(self, tensor: Any) -> np.ndarray | None:
        """Where elements are in the tensor from outside that they are of; None where they are of none."""
        if not isinstance(tensor, EagerTensor):
            made = self._made.get(id(tensor))
            return None if made is None else made.like
        return tensor.shows.like() if tensor.is_view else np.empty(tensor.handle.handle.shape, np.bool_)
