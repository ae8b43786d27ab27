"""Views: parts of a tensor, and its elements under another shape, which are updated with it.

A view has a copy of its elements, as every kernel takes whole arrays. It knows the tensor that it is of, the root,
and how NumPy takes the same part of an array. An update in place of a view is one of the root; a view whose root was
updated since is taken anew when it is read.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from oneflow.dialect.builder import Value
from oneflow.dialect.locks import Lock
from oneflow.frontend.core.arrays import address_of, overwrite, place_of, to_array
from oneflow.frontend.core.devices import device, move
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.eager.tape import MODE, Variable, record, set_grad_enabled
from oneflow.runtime.global_array import GlobalArray

Part = Callable[[np.ndarray], np.ndarray]
#: Held while a view is taken anew, which threads do one after the other.
RENEWING = Lock(reentrant=True)


class View:
    """What a tensor is of another: `part` takes it of an array like the root's; `recorded` as gradients see it."""

    __slots__ = ("__weakref__", "_lies", "dense", "memory", "part", "recorded", "root", "version")

    def __init__(self, root: Any, part: Part, dense: bool, recorded: bool) -> None:
        self.root, self.part, self.dense, self.recorded = root, part, dense, recorded
        self.memory = root.variable.shared_memory()
        self.version = self.memory.version
        if self.memory.views is None:
            self.memory.views = weakref.WeakSet()
        self.memory.views.add(self)
        self._lies: Any = None

    def is_stale(self, held: Variable) -> bool:
        """Whether the root may have other values than `held`, which were taken of it.

        What a gradient flows through is taken anew where the values differ, so that it is not recorded at every read.
        """
        memory = self.memory
        if memory.version != self.version or not memory.exposed:
            return memory.version != self.version
        root = self.root.variable
        is_known = self.recorded and root.requires_grad and isinstance(root.handle, np.ndarray)
        return not (is_known and np.array_equal(self.part(root.handle), held.handle))

    def like(self) -> np.ndarray:
        """An array that lies in another as this does in the root, of any values."""
        return self.part(np.empty(self.root.handle.handle.shape, np.bool_))

    @property
    def is_contiguous(self) -> bool:
        """Whether element follows element in the root."""
        return self.like().flags.c_contiguous

    def lies(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Where its first element is in the root, its shape, and how far it is from one element to the next."""
        if self._lies is None:
            root = np.empty(self.root.handle.handle.shape, np.bool_)
            found = self.part(root)
            self._lies = found.ctypes.data - root.ctypes.data, found.shape, found.strides
        return self._lies  # type: ignore[no-any-return]

    def check(self, writer: str) -> None:
        """Refuses updates.

        Raises:
            RuntimeError: the root is on several ranks, or some of its elements are several here.
        """
        if isinstance(self.root.handle.handle, GlobalArray):
            raise refuse(
                f"{writer} would update a part of a global tensor; write x.copy_(..) with the whole values instead"
            )
        if _repeats(self.like()):
            raise refuse(
                f"{writer} would update an expanded tensor, of which several elements are one in memory; "
                "write x.clone() before"
            )

    def elements(self, writer: str) -> np.ndarray:
        """Its elements in the root's memory on the host, to be written."""
        self.check(writer)
        return self.part(self.root.variable.handle)

    def write(self, builder: Any, old: Variable, value: Variable, writer: str) -> None:
        """Updates the root where `old` is a part of it."""
        check_fits(old, value, writer)
        self.check(writer)
        root = self.root.variable
        flows = MODE.recording and (root.requires_grad or value.requires_grad)
        if flows and not self.recorded and value.requires_grad:
            raise refuse(
                f"{writer} would give a gradient to a view that was made by detach() or within flow.no_grad(); "
                "update the tensor that it is of, as in x[0] = value"
            )
        if isinstance(root.handle, np.ndarray) and not (flows and self.recorded):
            self.part(root.handle)[...] = to_array(value.handle)
            self.memory.write(writer)
            return
        with set_grad_enabled(flows and self.recorded):
            builder.assign(self.root, builder.give(self._spread(builder, root, value)), writer)

    def _spread(self, builder: Any, root: Variable, value: Variable) -> Variable:
        """The root's values with `value` where this is a part of it."""
        shape = [d or 0 for d in root.desc.shape or ()]
        mask, source = np.zeros(shape, np.bool_), np.zeros(shape, np.int64)
        self.part(mask)[...] = True
        self.part(source)[...] = np.arange(value.desc.element_count).reshape(self.part(source).shape)
        new = _picked(builder, value, source) if value.desc.element_count else root
        chosen: Variable = builder.call("where", _beside(builder, root, mask), new, root)[0]
        return chosen

    def renewed(self, builder: Any, old: Variable) -> tuple[Variable, int]:
        """What the root's present values make of it, and the version that they are of at least: an update meanwhile,
        by another thread, is a later one.
        """
        version, root = self.memory.version, self.root.variable
        with set_grad_enabled(self.recorded):
            fresh = self._taken(builder, root)
        fresh.leaf = old.leaf if fresh.node is None else None
        return fresh, version

    def _taken(self, builder: Any, root: Variable) -> Variable:
        if isinstance(root.handle, np.ndarray) and not (self.recorded and root.requires_grad):
            taken: Variable = builder.wrap(np.array(self.part(root.handle), order="C"))
            return taken
        return _picked(builder, root, self.part(np.arange(root.desc.element_count).reshape(root.desc.shape)))


def _picked(builder: Any, values: Variable, places: np.ndarray) -> Variable:
    """The elements of `values` at places counted in row-major order, in the shape of `places`."""
    flat = builder.call("reshape", values, shape=[values.desc.element_count])[0]
    taken: Variable = builder.call("gather", flat, _beside(builder, values, np.array(places)), axis=0)[0]
    return taken


def _beside(builder: Any, variable: Variable, array: np.ndarray) -> Variable:
    """An array where a variable is."""
    wrapped: Variable = builder.wrap(move(array, device(place_of(variable.handle))))
    return wrapped


def part_of(tensor: Any, part: Part, *, dense: bool = False, recorded: bool | None = None) -> View:
    """The view that `part` takes of a tensor, which may be a view itself."""
    kept = MODE.recording if recorded is None else recorded
    outer = tensor.shows
    if outer is None:
        return View(tensor, part, dense, kept)
    return View(outer.root, lambda a: part(outer.part(a)), outer.dense and dense, outer.recorded and kept)


def keep(root: Any, stand_in: Any) -> None:
    """Has the views of a tensor that gets other memory be of `stand_in`, which has the memory that they are in."""
    for view in list(stand_in.handle.shared_memory().views or ()):
        if view.root is root:
            view.root = stand_in


def exposed(tensor: Any) -> Any:
    """The memory of a tensor for whoever writes into it: of a view that of its root, where one array can show it."""
    data = tensor.storage
    if not isinstance(data, np.ndarray):
        return data
    found = data
    if tensor.is_view and isinstance(tensor.shows.root.variable.handle, np.ndarray):
        part = tensor.shows.part(tensor.shows.root.variable.handle)
        found = data if _repeats(part) else part
    memory = tensor.handle.shared_memory() if found is data else tensor.shows.memory
    memory.exposed = True
    return found


def detached(tensor: Any) -> View | None:
    """What a tensor is of another, without a gradient."""
    return part_of(tensor, lambda a: a, dense=True, recorded=False) if tensor.is_view else None


def _reshaped(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Part:
    return lambda a: a.reshape(shape)


def _expanded(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Part:
    def part(a: np.ndarray) -> np.ndarray:
        if a.size == math.prod(shape):
            return a.reshape(shape)
        # NumPy's own array may not be written, and neither may parts of it in which each element is there once.
        return as_strided(a, shape, np.broadcast_to(a, shape).strides)

    return part


def _repeats(array: np.ndarray) -> bool:
    """Whether several elements are one in memory."""
    return any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True))


def _transposed(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Part:
    perm = tuple(attrs["perm"])
    return lambda a: a.transpose(perm)


def _sliced(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Part:
    key = tuple(slice(*bounds) for bounds in zip(attrs["start"], attrs["stop"], attrs["step"], strict=True))
    return lambda a: a[key]


def _narrowed(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Part:
    dim, start = attrs["dim"], attrs["start"]

    def part(a: np.ndarray) -> np.ndarray:
        at = dim % a.ndim
        first = start % max(a.shape[at], 1) if start < 0 else start
        return a[(slice(None),) * at + (slice(first, first + attrs["length"]),)]

    return part


#: Operators whose results are views of their first operand where that is a tensor of eager mode.
PARTS: dict[str, Callable[[Mapping[str, Any], tuple[int, ...]], Part]] = {
    "reshape": _reshaped, "reshape_like": _reshaped, "squeeze": _reshaped, "expand_dims": _reshaped,
    "expand": _expanded, "broadcast_like": _expanded, "transpose": _transposed, "slice": _sliced,
    "narrow": _narrowed,
}  # fmt: skip


def link(name: str, tensor: Any, attrs: Mapping[str, Any], result: Any) -> None:
    """Makes the result of an operator a view of a tensor; one that PyTorch has to copy for is none."""
    shape = tuple(result.handle.handle.shape)
    part, dense = PARTS[name](attrs, shape), PARTS[name] is _reshaped
    outer = tensor.shows
    if dense and outer is not None and not outer.dense and not _shares(outer.like(), shape):
        return
    result.shows = part_of(tensor, part, dense=dense)


def _shares(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether an array has another shape without a copy."""
    return np.may_share_memory(array.reshape(shape), array)


def write(old: Variable, new: Value, writer: str) -> None:
    """Puts the values of `new` into the memory of `old`, as its next version.

    Raises:
        RuntimeError: the shapes or element types differ.
    """
    assert isinstance(new, Variable)
    check_fits(old, new, writer)
    memory, array = old.shared_memory(), old.handle
    if new.node is not None and new.node.reads(old):
        old.move(array.copy())
    if address_of(new.handle) != address_of(array) or place_of(new.handle) != place_of(array):
        overwrite(array, new.handle)
    memory.write(writer)
    new.handle, new.memory, new.version, new.leaf = array, memory, memory.version, old.leaf
    if new.node is not None:
        new.node.move(new)


def continued(old: Variable, new: Variable) -> Variable:
    """The values of `new`, through which gradients go on to `old`: an update that is not recorded."""
    fresh = Variable(old.builder, new.handle, new.desc)
    record(old.builder.registry["depend"], {"in": old, "depend_tensor": new}, {}, [fresh])
    return fresh


def check_fits(old: Variable, new: Variable, writer: str) -> None:
    """Refuses values of another type.

    Raises:
        RuntimeError: the shapes or element types differ.
    """
    if new.desc != old.desc:
        raise refuse(f"{writer} gives {new.desc}, which does not fit into {old.desc}")
