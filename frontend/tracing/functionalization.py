"""Functionalization: updates in place and views in a trace become values.

An update assigns another value to a tensor, so that a program is a function of values. A view is computed again, when
it is read, from the current value of its base; an update of a view updates its base by the view inverse.
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
from oneflow.frontend.eager.views import RESHAPES, VIEW_FUNCTIONS, shares_memory, uninitialized
from oneflow.frontend.tracing.states import with_gradient_of
from oneflow.frontend.tracing.view_inverses import VIEW_INVERSES

#: Operators whose result is contiguous for a contiguous operand.
DENSE = RESHAPES | {"squeeze", "expand_dims", "view_as_real", "stop_gradient"}


@dataclass
class TracedView:
    """A view in a trace: the call that makes it, the value of its base at that time (`read`), and the value of the
    view.

    `recorded` says whether gradients flow through the view.
    """

    tensor: Tensor
    name: str
    operands: Sequence[Any]
    attrs: Mapping[str, Any]
    recorded: bool
    read: Any
    value: Tensor


class Functionalization:
    """The current values of views and of updated tensors of one trace."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._views: dict[int, TracedView] = {}
        self._confirmed: set[int] = set()
        self._updated: dict[int, tuple[Tensor, Tensor]] = {}

    def add(self, name: str, operands: Sequence[Any], attrs: Mapping[str, Any], result: Tensor) -> None:
        """Adds the result of a view operator, which may share elements with its first operand."""
        if isinstance(operands[0], Tensor):
            read = self._builder.read(operands[0])
            recorded = MODE.recording and name != "stop_gradient"
            self._views[id(result)] = TracedView(result, name, operands, attrs, recorded, read, result)

    def forget(self, result: Tensor) -> None:
        """Notes that a result shares no elements with another tensor."""
        self._views.pop(id(result), None)

    def values(self) -> Iterator[Tensor]:
        """The values of updated tensors, and of views at their last read."""
        yield from (value for _, value in self._updated.values())
        yield from (view.value for view in self._views.values())

    def current_value(self, tensor: Tensor) -> Tensor:
        """The current value of a tensor of the trace."""
        view = self._views.get(id(tensor))
        if view is None:
            return self._updated.get(id(tensor), (tensor, tensor))[1]
        current = self._builder.read(view.operands[0])
        if current is not view.read:
            if self._view(tensor) is None:
                return tensor
            other_operands = [self._builder.read(x) if isinstance(x, Tensor) else x for x in view.operands[1:]]
            with set_grad_enabled(view.recorded):
                view.read = current
                view.value = self._builder.call(view.name, current, *other_operands, **view.attrs)[0]
        return view.value

    def assign(self, tensor: Tensor, value: Tensor, writer: str) -> None:
        """Assigns another value to a tensor of the trace, and to its base if the tensor is a view.

        Raises:
            TraceError: the value has another type, or the tensor is a view with repeated elements.
        """
        if not value.desc.compatible(tensor.desc):
            raise fail(f"{writer} gives {value.desc}, which does not fit into {tensor.desc}")
        value = self._builder.retype(value, tensor.desc)
        view = self._view(tensor)
        if view is not None:
            self._assign_to_base(view, value, writer)
            return
        new = value if MODE.recording else with_gradient_of(self.current_value(tensor), value)
        self._updated[id(tensor)] = tensor, new

    def _assign_to_base(self, view: TracedView, value: Tensor, writer: str) -> None:
        base, builder = view.operands[0], self._builder
        if MODE.recording and not view.recorded and builder.receives_gradient(value):
            raise fail(
                f"{writer} would connect a gradient to a view that was made by detach() or within flow.no_grad(); "
                "update the tensor that it is of, as in x[0] = value"
            )
        recorded = MODE.recording and view.recorded
        with set_grad_enabled(recorded):
            updated_base = VIEW_INVERSES[view.name](builder, builder.read(base), value, view.attrs)
            if updated_base is None:
                raise fail(
                    f"{writer} would update an expanded tensor, of which several elements are one in memory; "
                    "write x.clone() before"
                )
            builder.assign(base, builder.to_tensor(updated_base), writer)
        if recorded:
            view.read, view.value = builder.read(base), value

    def _view(self, tensor: Tensor) -> TracedView | None:
        """The view of a tensor; None for a tensor with its own elements, such as the result of a reshape that
        copies.
        """
        view = self._views.get(id(tensor))
        if view is None or id(tensor) in self._confirmed:
            return view
        if view.name in RESHAPES and not self._shares(view):
            del self._views[id(tensor)]
            self._updated.setdefault(id(tensor), (tensor, view.value))
            return None
        self._confirmed.add(id(tensor))
        return view

    def is_copy(self, reshaped: Tensor) -> bool:
        """Whether a reshape would copy elements in eager mode; False where sizes are dynamic."""
        view = self._views.get(id(reshaped))
        if view is None or self._eager_layout(view.operands[0]) is None:
            return False
        return self._view(reshaped) is None

    def _shares(self, view: TracedView) -> bool:
        """Whether a reshape in eager mode would share memory with its operand."""
        layout = self._eager_layout(view.operands[0])
        if layout is None:
            return self._is_dense(view.operands[0])
        return shares_memory(view.name, layout, view.tensor.sizes())

    def is_contiguous(self, tensor: Tensor) -> bool:
        """Whether a tensor would be contiguous in eager mode."""
        layout = self._eager_layout(tensor)
        return self._is_dense(tensor) if layout is None else layout.flags.c_contiguous

    def memory_root(self, tensor: Tensor) -> tuple[Tensor, int]:
        """The tensor whose memory a tensor would share in eager mode, and the position of the first element there.

        Raises:
            TraceError: sizes are dynamic.
        """
        chain: list[TracedView] = []
        root: Any = tensor
        while not isinstance(root, EagerTensor) and (view := self._view(root)) is not None:
            chain.append(view)
            root = view.operands[0]
        if chain and not all(x.desc.is_static for x in (root, *(v.tensor for v in chain))):
            raise fail("expected static sizes of a view whose memory is read with strides; write x.clone() before")
        memory = array = uninitialized(root.sizes() if chain else (), root.dtype)
        for view in reversed(chain):
            if view.name in VIEW_FUNCTIONS:
                array = VIEW_FUNCTIONS[view.name](view.attrs, tuple(view.tensor.sizes()))(array)
        return root, (array.ctypes.data - memory.ctypes.data) // array.itemsize

    def _eager_layout(self, tensor: Any) -> np.ndarray | None:
        """An array with the strides that a tensor would have in eager mode; None where sizes are dynamic."""
        if isinstance(tensor, EagerTensor):
            layout: np.ndarray = (
                tensor.view_meta.layout_array()
                if tensor.is_view()
                else uninitialized(tensor.handle.handle.shape, tensor.dtype)
            )
            return layout
        if None in (tensor.desc.shape or ()):
            return None
        view = self._view(tensor)
        outer = None if view is None else self._eager_layout(view.operands[0])
        if view is None or outer is None:
            return None if view is not None else uninitialized(tensor.desc.shape, tensor.dtype)
        return (
            VIEW_FUNCTIONS[view.name](view.attrs, tensor.desc.shape)(outer) if view.name in VIEW_FUNCTIONS else outer
        )

    def _is_dense(self, tensor: Any) -> bool:
        """Whether a tensor would be contiguous in eager mode for all sizes."""
        view = None if isinstance(tensor, EagerTensor) else self._view(tensor)
        return view is None or (view.name in DENSE and self._is_dense(view.operands[0]))
