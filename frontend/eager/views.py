"""Views: parts of a tensor, or its elements in another shape, that are updated together with the tensor.

A view keeps its own contiguous copy of its elements, since every kernel reads contiguous arrays; only large expanded
tensors keep the elements before the expansion. The `ViewMeta` of a view has the root (PyTorch's `_base`) and the
function by which NumPy selects the same part of an array. An update of a view in place is an update of its root; a
view whose root was updated since is refreshed at the next read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from oneflow.dialect.builder import Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.locks import Lock
from oneflow.dialect.record import Call
from oneflow.dialect.shapes import aligned_axes
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import address_of, device_name, is_expanded, is_on_ranks, overwrite
from oneflow.frontend.core.devices import device, move
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.eager.tape import MODE, Memory, Variable, record, set_grad_enabled

#: Selects the part of an array that corresponds to the view of a root.
ViewFunction = Callable[[np.ndarray], np.ndarray]
#: The offset of the first element, the shape, and the strides, all in elements.
StridedLayout = tuple[int, tuple[int, ...], tuple[int, ...]]
#: Held while a view is refreshed, so that threads do so one after the other.
REFRESH_LOCK = Lock(reentrant=True)


class ViewMeta:
    """How a tensor is a view of its root: `view_fn` selects the same part of an array of the root's shape.

    `recorded` says whether gradients flow from the view to the root, `dense` whether the view only reshapes a
    contiguous root, and `version` of which version of the root's memory the copy is.
    """

    __slots__ = ("__weakref__", "_strided_layout", "dense", "memory", "recorded", "root", "version", "view_fn")

    def __init__(self, root: Any, view_fn: ViewFunction, dense: bool, recorded: bool) -> None:
        self.root, self.view_fn, self.dense, self.recorded = root, view_fn, dense, recorded
        self.memory: Memory = root.variable.shared_memory()
        self.version = self.memory.version
        self.memory.add_view(self)
        self._strided_layout: StridedLayout | None = None

    def is_stale(self, held: Variable) -> bool:
        """Whether the root may have other values than `held`, the copy of this view.

        Memory that is exposed may change without a new version. If a gradient flows, the values are compared first: a
        refresh is recorded, and should not be at every read.
        """
        memory = self.memory
        if memory.version != self.version or not memory.exposed:
            return bool(memory.version != self.version)
        root = self.root.variable
        is_known = self.recorded and root.requires_grad and isinstance(root.handle, np.ndarray)
        return not (is_known and bool(np.array_equal(self.view_fn(root.handle), held.handle)))

    def layout_array(self) -> np.ndarray:
        """An array with the strides that the view has in its root; its values are undefined."""
        return self.view_fn(uninitialized(self.root.handle.handle.shape, self.root.dtype))

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements of the view are contiguous in the root."""
        return self.layout_array().flags.c_contiguous

    def strided_layout(self) -> StridedLayout:
        """The offset of the first element in the root, the shape, and the strides, all in elements of the view."""
        layout = self._strided_layout
        if layout is None:
            root = uninitialized(self.root.handle.handle.shape, self.root.dtype)
            array = self.view_fn(root)
            first, size = array.ctypes.data - root.ctypes.data, array.itemsize
            layout = self._strided_layout = first // size, array.shape, tuple(s // size for s in array.strides)
        return layout

    def check(self, writer: str) -> None:
        """Refuses updates of the view.

        Raises:
            RuntimeError: the root is a global tensor, or several elements of the view are one in memory.
        """
        if is_on_ranks(self.root.handle.handle):
            raise refuse(
                f"{writer} would update a part of a global tensor; write x.copy_(..) with the whole values instead"
            )
        if has_overlap(self.layout_array()):
            raise _expansion_error(writer)

    def root_elements(self, writer: str) -> np.ndarray:
        """The view's elements in the memory of a root on the host, to be written."""
        self.check(writer)
        return self.view_fn(self.root.variable.handle)

    def write(self, builder: Any, old: Variable, value: Variable, writer: str) -> None:
        """Updates the root so that the view, which is `old`, becomes `value`."""
        check_type(old, value, writer)
        self.check(writer)
        root = self.root.variable
        flows = MODE.recording and (root.requires_grad or value.requires_grad)
        if flows and not self.recorded and value.requires_grad:
            raise refuse(
                f"{writer} would connect a gradient to a view that was made by detach() or within flow.no_grad(); "
                "update the tensor that it is of, as in x[0] = value"
            )
        if isinstance(root.handle, np.ndarray) and not (flows and self.recorded):
            overwrite(self.view_fn(root.handle), value.handle)
            self.memory.write(writer)
            return
        with set_grad_enabled(flows and self.recorded):
            builder.assign(self.root, builder.to_tensor(self._scattered(builder, root, value)), writer)

    def _scattered(self, builder: Any, root: Variable, value: Variable) -> Variable:
        """The root's values with `value` in place of the view's elements; of complex numbers the parts are merged."""
        if not value.desc.element_count:
            return root
        mask, source = placed(self.view_fn, tuple(_sizes(root)), root.desc.dtype, value.desc)
        old = _as_reals(builder, root)
        new = _gathered(builder, _as_reals(builder, value), source)
        merged: Variable = builder.call("where", _on_same_device(builder, root, mask), new, old)[0]
        return builder.call("view_as_complex", merged)[0] if root.desc.dtype.is_complex else merged

    def refreshed(self, builder: Any, old: Variable) -> tuple[Variable, int]:
        """The view's values by the root's current values, and the version of these values.

        The version is read first: an update by another thread meanwhile leaves the view stale.
        """
        version, root = self.memory.version, self.root.variable
        with set_grad_enabled(self.recorded):
            fresh = self._gathered_view(builder, root, old.desc)
        fresh.leaf = old.leaf if fresh.node is None else None
        return fresh, version

    def _gathered_view(self, builder: Any, root: Variable, desc: TensorDesc) -> Variable:
        if isinstance(root.handle, np.ndarray) and not (self.recorded and root.requires_grad):
            return Variable(builder, taken(self.view_fn, root.handle), desc)
        positions = self.view_fn(_numbered(tuple(_sizes(root)), root.desc.dtype))
        if positions.dtype.kind == "c" and root.desc.dtype.is_complex:
            return _gathered(builder, root, positions.real // 2)
        parts = _gathered(builder, _as_reals(builder, root), as_pairs(positions))
        return builder.call("view_as_complex", parts)[0] if positions.dtype.kind == "c" else parts


def _expansion_error(writer: str) -> RuntimeError:
    """The error for an update of elements that are one in memory."""
    return refuse(
        f"{writer} would update an expanded tensor, of which several elements are one in memory; "
        "write x.clone() before"
    )


def uninitialized(shape: Sequence[int], dtype: DType) -> np.ndarray:
    """An array whose elements have the size of the elements of a type."""
    return np.empty(shape, dtype.numpy)


def _numbered(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """An array whose elements are their positions; complex ones have the positions of their parts."""
    count = math.prod(shape)
    if dtype.is_complex:
        return np.arange(2 * count, dtype=np.float64).view(np.complex128).reshape(shape)
    return np.arange(count, dtype=np.float64 if dtype.is_float else np.int64).reshape(shape)


def as_pairs(array: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs of their parts; an array of reals itself."""
    return array[..., np.newaxis].view(array.real.dtype) if array.dtype.kind == "c" else array


def placed(
    view_fn: ViewFunction, shape: tuple[int, ...], dtype: DType, part: TensorDesc
) -> tuple[np.ndarray, np.ndarray]:
    """The elements of a part, of type `part`, in an array of a shape and type: a mask, and the positions in
    the part. Of complex numbers the parts are elements.
    """
    kind = _numbered((0,), dtype).dtype
    mask, source = np.zeros(shape, kind), np.zeros(shape, kind)
    view = view_fn(mask)
    view[...] = 1 + 1j if view.dtype.kind == "c" else 1
    view_fn(source)[...] = _numbered(view.shape, part.dtype)
    return as_pairs(mask) != 0, as_pairs(source)


def _as_reals(builder: Any, values: Variable) -> Variable:
    """Complex numbers as pairs of reals; other values themselves."""
    return builder.call("view_as_real", values)[0] if values.desc.dtype.is_complex else values


def _sizes(variable: Variable) -> list[int]:
    """The shape of a variable, which is static as the variable has values."""
    return [d or 0 for d in variable.desc.shape or ()]


def _gathered(builder: Any, values: Variable, positions: np.ndarray) -> Variable:
    """The elements of `values` at positions in row-major order, in the shape of `positions`."""
    flat = builder.call("reshape", values, shape=[values.desc.element_count])[0]
    indices = _on_same_device(builder, values, np.array(positions, np.int64))
    elements: Variable = builder.call("gather", flat, indices, axis=0)[0]
    return elements


def _on_same_device(builder: Any, variable: Variable, array: np.ndarray) -> Variable:
    """An array as a variable on the device of another."""
    wrapped: Variable = builder.wrap(move(array, device(device_name(variable.handle))))
    return wrapped


def view_of(tensor: Any, view_fn: ViewFunction, *, dense: bool = False, recorded: bool | None = None) -> ViewMeta:
    """The `ViewMeta` of the part of a tensor that `view_fn` selects; the tensor may be a view itself."""
    is_recorded = MODE.recording if recorded is None else recorded
    outer = tensor.view_meta
    if outer is None:
        return ViewMeta(tensor, view_fn, dense, is_recorded)
    return ViewMeta(
        outer.root, lambda a: view_fn(outer.view_fn(a)), outer.dense and dense, outer.recorded and is_recorded
    )


def keep_views(root: Any, successor: Any) -> None:
    """Keeps views in the old memory of `root`, which is about to get other memory: `successor`, with the old memory,
    becomes the root of these views.
    """
    for view in list(successor.handle.shared_memory().views or ()):
        if view.root is root:
            view.root = successor


def exposed_memory(tensor: Any) -> Any:
    """The memory of a tensor, for writers outside of this library: for a view the part of the root, where one array
    can have these strides.
    """
    data = tensor.storage
    if not isinstance(data, np.ndarray):
        return data
    array = data
    if tensor.is_view() and isinstance(tensor.view_meta.root.variable.handle, np.ndarray):
        part = tensor.view_meta.view_fn(tensor.view_meta.root.variable.handle)
        array = data if has_overlap(part) else part
    memory = tensor.handle.shared_memory() if array is data else tensor.view_meta.memory
    memory.exposed = True
    return array


def detached(tensor: Any) -> ViewMeta | None:
    """The `ViewMeta` of `detach()`: the same part of the root, through which no gradient flows; None for a tensor
    that is no view.
    """
    return view_of(tensor, lambda a: a, dense=True, recorded=False) if tensor.is_view() else None


def _as_strided(a: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """The memory of an array with another shape and strides; of types that NumPy lacks, its function takes bits."""
    bits = a if a.dtype.isbuiltin == 1 else a.view(f"u{a.dtype.itemsize}")
    view: np.ndarray = as_strided(bits, shape, strides).view(a.dtype)
    return view


def _reshaped(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    return lambda a: a.reshape(shape)


def _expanded(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    def view_fn(a: np.ndarray) -> np.ndarray:
        if a.size == math.prod(shape):
            return a.reshape(shape)
        # The array of `np.broadcast_to` is read-only, and so are parts of it without repeated elements.
        return _as_strided(a, shape, np.broadcast_to(a, shape).strides)

    return view_fn


def _broadcast(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    rank, expanded = len(shape), _expanded(attrs, shape)
    axes = [axis % rank for axis in attrs["broadcast_axes"]]

    def view_fn(a: np.ndarray) -> np.ndarray:
        present = aligned_axes(rank, axes, a.ndim)
        return expanded(np.expand_dims(a, tuple(axis for axis in range(rank) if axis not in present)))

    return view_fn


def has_overlap(array: np.ndarray) -> bool:
    """Whether several elements of an array are one in memory."""
    covered = array.itemsize
    dims = ((abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1)
    for stride, size in sorted(dims) if array.size else ():
        if stride < covered:
            return True
        covered += stride * (size - 1)
    return False


def _transposed(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    perm = tuple(attrs["perm"])
    return lambda a: a.transpose(perm)


def _sliced(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    key = tuple(slice(*bounds) for bounds in zip(attrs["start"], attrs["stop"], attrs["step"], strict=True))
    return lambda a: a[key]


def _narrowed(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    dim, start = attrs["dim"], attrs["start"]

    def view_fn(a: np.ndarray) -> np.ndarray:
        at = dim % a.ndim
        first = start % max(a.shape[at], 1) if start < 0 else start
        part: np.ndarray = a[(slice(None),) * at + (slice(first, first + attrs["length"]),)]
        return part

    return view_fn


def _diagonal(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    offset = attrs["offset"]

    def view_fn(a: np.ndarray) -> np.ndarray:
        part = a[max(-offset, 0) :, max(offset, 0) :]
        return _as_strided(part, shape, (*a.strides[2:], a.strides[0] + a.strides[1]))

    return view_fn


def _windows(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    dim, step = attrs["dimension"], attrs["step"]

    def view_fn(a: np.ndarray) -> np.ndarray:
        strides = list(a.strides)
        strides[dim] *= step
        return _as_strided(a, shape, (*strides, a.strides[dim]))

    return view_fn


def _strided(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    def view_fn(a: np.ndarray) -> np.ndarray:
        strides = tuple(a.itemsize * step for step in attrs["stride"])
        return _as_strided(a.reshape(-1)[attrs["storage_offset"] :], shape, strides)

    return view_fn


def _complex_part(name: str) -> Callable[[Mapping[str, Any], tuple[int, ...]], ViewFunction]:
    """The real or the imaginary parts."""
    return lambda attrs, shape: lambda a: getattr(a, name)


def _paired(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    return as_pairs


def _complex(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> ViewFunction:
    def view_fn(a: np.ndarray) -> np.ndarray:
        numbers: np.ndarray = a.view(np.result_type(a, np.complex64))[..., 0]
        return numbers

    return view_fn


#: Operators whose results are views of their first operand where that is a tensor of eager mode.
VIEW_FUNCTIONS: dict[str, Callable[[Mapping[str, Any], tuple[int, ...]], ViewFunction]] = {
    "reshape": _reshaped, "reshape_like": _reshaped, "squeeze": _reshaped, "expand_dims": _reshaped,
    "expand": _expanded, "broadcast_like": _broadcast, "transpose": _transposed, "slice": _sliced,
    "narrow": _narrowed, "diagonal": _diagonal, "unfold_tensor": _windows,
    "as_strided": _strided, "real": _complex_part("real"), "imag": _complex_part("imag"), "view_as_real": _paired,
    "view_as_complex": _complex,
}  # fmt: skip


#: NumPy copies at most so many elements in less time than the compilation of a kernel saves.
MAX_COPIED_ELEMENTS = 1 << 14
#: Expanded tensors of more bytes have no memory of their own; operators copy the elements when they read them.
MAX_EXPANDED_BYTES = 1 << 26


class ViewCopy:
    """A view operator on arrays of NumPy, as an executable that needs no compilation: copies the elements."""

    array: ClassVar[type] = np.ndarray

    def __init__(self, view_fn: ViewFunction) -> None:
        self._view_fn = view_fn
        self.fast_path: Any = self.run

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """The elements of the view, in new memory."""
        return [self._view_fn(arrays[0]).copy()]

    def reads(self, index: int) -> bool:
        """Whether the elements of operand `index` are read: other operands are read for their sizes alone."""
        return index == 0


class LargeView(ViewCopy):
    """A view operator on large arrays of NumPy: expanded elements, and large parts of these, have no memory.

    `compiled` makes the executable of the operator on contiguous arrays.
    """

    def __init__(self, view_fn: ViewFunction, expands: bool, compiled: Callable[[], Any]) -> None:
        super().__init__(view_fn)
        self._expands, self._compiled = expands, functools.cache(compiled)

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """The elements of the view."""
        if self._expands or not arrays[0].flags.c_contiguous:
            return [taken(self._view_fn, arrays[0])]
        results: list[np.ndarray] = self._compiled().run(arrays)
        return results


def taken(view_fn: ViewFunction, array: np.ndarray) -> np.ndarray:
    """The elements of a view that no update of `array` changes: contiguous, or if they are expanded and many, a
    read-only array in which elements share memory.
    """
    view = view_fn(array)
    if view.nbytes <= MAX_EXPANDED_BYTES or not has_overlap(view):
        return np.array(view, order="C")
    expanded = view if has_overlap(array) else view_fn(array.copy())
    expanded.flags.writeable = False
    return expanded


def copy_of_view(call: Call, result: TensorDesc, compiled: Callable[[], Any]) -> ViewCopy | None:
    """The executable of a view operator on the host that needs no compilation, for few elements and for expanded
    ones; None for other calls. `compiled` makes the executable of the call on contiguous arrays.
    """
    make, count = VIEW_FUNCTIONS.get(call.record.name), result.element_count
    if make is None or count is None or result.is_too_large:
        return None
    view_fn = make(call.attrs, result.static_shape)
    if count <= MAX_COPIED_ELEMENTS and not _is_large(call.operands[0]):
        return ViewCopy(view_fn)
    expands = make is _expanded and _is_large(result)
    return LargeView(view_fn, expands, compiled) if expands or _is_large(call.operands[0]) else None


def _is_large(desc: TensorDesc) -> bool:
    return (desc.element_count or 0) * desc.dtype.numpy.itemsize > MAX_EXPANDED_BYTES


#: Operators that copy an operand whose strides do not allow a view.
RESHAPES = frozenset(("reshape", "reshape_like", "view_as_complex"))


def link(name: str, tensor: Any, attrs: Mapping[str, Any], result: Any) -> None:
    """Makes the result of an operator a view of a tensor, unless PyTorch copies in that case."""
    shape = tuple(result.handle.handle.shape)
    view_fn, dense = VIEW_FUNCTIONS[name](attrs, shape), VIEW_FUNCTIONS[name] is _reshaped
    outer = tensor.view_meta
    is_apart = outer is not None and not outer.dense and name in RESHAPES
    if is_apart and not shares_memory(name, outer.layout_array(), shape):
        return
    result.view_meta = view_of(tensor, view_fn, dense=dense)


def shares_memory(name: str, array: np.ndarray, shape: Sequence[Any]) -> bool:
    """Whether the result of one of `RESHAPES` on an array shares its memory; true without elements."""
    if name == "view_as_complex":
        *outer, last = array.strides
        return last == array.itemsize and all(s % (2 * array.itemsize) == 0 for s in outer)
    return array.size == 0 or np.may_share_memory(array.reshape(shape), array)


def write(old: Variable, new: Value, writer: str) -> None:
    """Puts the values of `new` into the memory of `old`, as its next version.

    Raises:
        RuntimeError: the shapes or element types differ, or elements of `old` are one in memory.
    """
    assert isinstance(new, Variable)
    check_type(old, new, writer)
    memory, array = old.shared_memory(), old.handle
    if is_expanded(array):
        raise _expansion_error(writer)
    if new.node is not None and new.node.reads(old):
        old.move(array.copy())
    if address_of(new.handle) != address_of(array) or device_name(new.handle) != device_name(array):
        overwrite(array, new.handle)
    memory.write(writer)
    new.handle, new.memory, new.version, new.leaf = array, memory, memory.version, old.leaf
    if new.node is not None:
        new.node.move(new)


def with_gradient_of(old: Variable, new: Variable) -> Variable:
    """The values of `new` with a gradient that flows to `old`: an update that is not recorded."""
    return _depending(new, old, new)


def is_computed_from(new: Variable, old: Variable) -> bool:
    """Whether `new` is the result of a recorded call that reads `old`."""
    return new.node is not None and any(source is old for source in new.node.sources())


def with_zero_gradient_of(old: Variable, new: Variable) -> Variable:
    """The values of `new`, which do not depend on `old`, with a gradient of 0 by `old`: a recorded update."""
    return _depending(new, new, old)


def _depending(new: Variable, source: Variable, other: Variable) -> Variable:
    """The values of `new`, with a gradient that flows to `source` and is 0 by `other`."""
    fresh = Variable(new.builder, new.handle, new.desc)
    record(new.builder.registry["depend"], {"in": source, "depend_tensor": other}, {}, [fresh])
    return fresh


def check_type(old: Variable, new: Variable, writer: str) -> None:
    """Refuses values of another type.

    Raises:
        RuntimeError: the shapes or element types differ.
    """
    if new.desc != old.desc:
        raise refuse(f"{writer} gives {new.desc}, which does not fit into {old.desc}")
