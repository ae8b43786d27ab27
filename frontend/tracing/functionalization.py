"""What tensors of a trace are by now: those that the function updates in place, and views, which show that.

An update gives a tensor another value; programs stay functions of values. A view is computed again, where it is read,
from what its tensor is by then, and an update of it is one of that tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import MODE, set_grad_enabled
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.eager.views import VIEW_FUNCTIONS
from oneflow.frontend.tracing.states import with_gradient_of
from oneflow.frontend.tracing.view_inverses import VIEW_INVERSES

#: Operators whose results are copies where elements do not follow each other.
RESHAPES = frozenset(("reshape", "reshape_like"))
#: Operators after which element follows element where that was so before.
DENSE = RESHAPES | {"squeeze", "expand_dims", "stop_gradient"}


@dataclass
class TracedView:
    """A view: the call that makes it, what its first operand was then, and what came of that.

    `recorded` says whether gradients see the view.
    """

    tensor: Tensor
    name: str
    operands: Sequence[Any]
    attrs: Mapping[str, Any]
    recorded: bool
    read: Any
    value: Tensor


class Functionalization:
    """The tensors of one trace that are not what they were made as."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._views: dict[int, TracedView] = {}
        self._confirmed: set[int] = set()
        self._updated: dict[int, tuple[Tensor, Tensor]] = {}

    def add(self, name: str, operands: Sequence[Any], attrs: Mapping[str, Any], result: Tensor) -> None:
        """Notes the result of an operator that may show elements of its first operand."""
        if isinstance(operands[0], Tensor):
            read = self._builder.read(operands[0])
            recorded = MODE.recording and name != "stop_gradient"
            self._views[id(result)] = TracedView(result, name, operands, attrs, recorded, read, result)

    def forget(self, result: Tensor) -> None:
        """Notes that a result shows nobody's elements."""
        self._views.pop(id(result), None)

    def values(self) -> Iterator[Tensor]:
        """What updated tensors are, and what views were when they were read last."""
        yield from (now for _, now in self._updated.values())
        yield from (view.value for view in self._views.values())

    def present(self, tensor: Tensor) -> Tensor:
        """What a tensor of the trace is now."""
        view = self._views.get(id(tensor))
        if view is None:
            return self._updated.get(id(tensor), (tensor, tensor))[1]
        now = self._builder.read(view.operands[0])
        if now is not view.read:
            if self._view(tensor) is None:
                return tensor
            rest = [self._builder.read(x) if isinstance(x, Tensor) else x for x in view.operands[1:]]
            with set_grad_enabled(view.recorded):
                view.read, view.value = now, self._builder.call(view.name, now, *rest, **view.attrs)[0]
        return view.value

    def assign(self, tensor: Tensor, value: Tensor, writer: str) -> None:
        """Gives a tensor of the trace another value, and what it shows elements of.

        Raises:
            TraceError: the value has another type, or it shows elements several times.
        """
        if not value.desc.compatible(tensor.desc):
            raise fail(f"{writer} gives {value.desc}, which does not fit into {tensor.desc}")
        value = self._builder.retype(value, tensor.desc)
        view = self._view(tensor)
        if view is not None:
            self._assign_to_base(view, value, writer)
            return
        now = value if MODE.recording else with_gradient_of(self.present(tensor), value)
        self._updated[id(tensor)] = tensor, now

    def _assign_to_base(self, view: TracedView, value: Tensor, writer: str) -> None:
        base, builder = view.operands[0], self._builder
        if MODE.recording and not view.recorded and builder.flows_to(value):
            raise fail(
                f"{writer} would give a gradient to a view that was made by detach() or within flow.no_grad(); "
                "update the tensor that it is of, as in x[0] = value"
            )
        recorded = MODE.recording and view.recorded
        with set_grad_enabled(recorded):
            whole = VIEW_INVERSES[view.name](builder, builder.read(base), value, view.attrs)
            if whole is None:
                raise fail(
                    f"{writer} would update an expanded tensor, of which several elements are one in memory; "
                    "write x.clone() before"
                )
            builder.assign(base, builder.give(whole), writer)
        if recorded:
            view.read, view.value = builder.read(base), value

    def _view(self, tensor: Tensor) -> TracedView | None:
        """The view that a tensor is; None for one that has elements of its own, as reshaped copies have."""
        view = self._views.get(id(tensor))
        if view is None or id(tensor) in self._confirmed:
            return view
        if view.name in RESHAPES and not self._shares(view):
            del self._views[id(tensor)]
            self._updated.setdefault(id(tensor), (tensor, view.value))
            return None
        self._confirmed.add(id(tensor))
        return view

    def _shares(self, view: TracedView) -> bool:
        """Whether a reshaped tensor is no copy in eager mode either."""
        like = self._like(view.operands[0])
        if like is None:
            return self._is_dense(view.operands[0])
        return np.may_share_memory(like.reshape(view.tensor.desc.shape), like)

    def is_contiguous(self, tensor: Tensor) -> bool:
        """Whether element follows element in the memory that a tensor has in eager mode."""
        like = self._like(tensor)
        return self._is_dense(tensor) if like is None else like.flags.c_contiguous

    def _like(self, tensor: Any) -> np.ndarray | None:
        """An array that lies in another as a tensor does in what it is a view of; None where sizes are not known."""
        if isinstance(tensor, EagerTensor):
            layout: np.ndarray = (
                tensor.view_meta.layout_array() if tensor.is_view else _uninitialized(tensor.handle.handle.shape)
            )
            return layout
        if None in (tensor.desc.shape or ()):
            return None
        view = self._view(tensor)
        outer = None if view is None else self._like(view.operands[0])
        if view is None or outer is None:
            return None if view is not None else _uninitialized(tensor.desc.shape)
        return (
            VIEW_FUNCTIONS[view.name](view.attrs, tensor.desc.shape)(outer) if view.name in VIEW_FUNCTIONS else outer
        )

    def _is_dense(self, tensor: Any) -> bool:
        """Whether element follows element, whatever the sizes are."""
        view = None if isinstance(tensor, EagerTensor) else self._view(tensor)
        return view is None or (view.name in DENSE and self._is_dense(view.operands[0]))


def _uninitialized(shape: Sequence[int]) -> np.ndarray:
    return np.empty(shape, np.bool_)
