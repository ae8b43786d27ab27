"""Properties of tensors, and tensors of the same kind: `x.stride()`, `x.new_zeros(2)`.

The import of this module adds these methods to tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.memory_layout import strided
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager import views
from oneflow.frontend.eager.constructors import tensor
from oneflow.frontend.eager.function import to_device
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.methods.tensor_type import typed_tensors


def _new_like_self(function: Callable[..., Tensor], doc: str, has_sizes: bool = False) -> Callable[..., Tensor]:
    """A method that makes a tensor of the element type and on the device or ranks of `self` by default; with
    `has_sizes`, of the sizes of `self` if no arguments are given.
    """

    def method(self: Tensor, *args: Any, dtype: DType | None = None, **where: Any) -> Tensor:
        if isinstance(self, EagerTensor) and not where.keys() & {"device", "placement"}:
            home = {"placement": self.placement, "sbp": self.sbp} if self.is_global else {"device": self.device}
            where = {**home, **where}
        sizes = (self.sizes(),) if has_sizes and not args and "size" not in where else ()
        return function(*args, *sizes, dtype=dtype or self.dtype, **where)

    method.__doc__ = f"{doc} By default, the result has the type and device of the tensor."
    return method


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor with the element type of `other`, and on its device or ranks."""
    converted: Tensor = F.cast(self, other.dtype)
    if not (isinstance(converted, EagerTensor) and isinstance(other, EagerTensor)):
        return converted
    moved: Tensor
    if other.is_global:
        moved = converted.to_global(other.placement, other.sbp)
    else:
        moved = converted.to_local() if converted.is_global else to_device(converted, other.device)
    return moved


def element_size(self: Tensor) -> int:
    """The bytes of one element."""
    return int(self.dtype.numpy.itemsize)


def stride(self: Tensor, dim: int | None = None) -> Any:
    """The distance in elements between neighbours along each dimension, or along one dimension."""
    steps = _strides(self)
    if dim is not None and not -self.rank <= dim < self.rank:
        raise fail(f"expected dim in [{-self.rank}, {self.rank}), got {dim}")
    return steps if dim is None else steps[dim]


def _strides(x: Tensor) -> tuple[Any, ...]:
    """The strides. Along a dimension of size 1, for which NumPy has the stride 0, the stride is PyTorch's stride:
    over the dimension that follows.
    """
    sizes = x.sizes()
    if isinstance(x, EagerTensor) and x.view_meta is not None:
        _, _, steps = x.view_meta.strided_layout()
        follows: list[int] = []
        for size, step, next_size in zip(sizes[::-1], steps[::-1], (1, *sizes[:0:-1]), strict=True):
            is_free = size == 1 and step == 0
            follows.append(next_size * (follows[-1] if follows else 1) if is_free else step)
        return tuple(follows[::-1])
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


def storage_offset(self: EagerTensor) -> int:
    """The position of the first element in the memory of the root of the view."""
    return int(self.view_meta.strided_layout()[0]) if self.is_view() else 0


def data_ptr(self: EagerTensor) -> int:
    """The address of the first element: of the host's memory, or of the device's."""
    return int(self.storage.address if self.is_cuda else self.numpy().ctypes.data)  # type: ignore[union-attr]


def get_device(self: EagerTensor) -> int:
    """The index of the CUDA device that the tensor is on, -1 on the host."""
    return self.device.index if self.is_cuda else -1


def type_(self: Tensor, dtype: Any = None) -> Any:
    """The name of the class of the tensor, such as "oneflow.FloatTensor"; with `dtype`, an element type, a class or
    its name, converted to that.
    """
    device_type = self.device.type if isinstance(self, EagerTensor) else "cpu"
    classes = typed_tensors(device_type)
    if dtype is None:
        name = next(name for name, kind in classes.items() if kind.dtype == self.dtype)
        return f"oneflow.{'cuda.' if device_type == 'cuda' else ''}{name}"
    if isinstance(dtype, str):
        dtype = typed_tensors("cpu").get(dtype.rpartition(".")[2], dtype)
    target = getattr(dtype, "device_type", None)
    moved: Any = self.to(target) if target not in (None, device_type) else self
    return moved.to(getattr(dtype, "dtype", dtype))


def offload(self: EagerTensor) -> None:
    """Moves the elements to the host, until `load`, so that no memory of the device is used.

    Raises:
        RuntimeError: the tensor is not on a device, or was computed with a gradient.
    """
    if not self.is_cuda or self.handle.node is not None:
        raise refuse(f"expected a leaf on a device to offload, got {self.desc} on {self.device}")
    home = self.device
    self.data = to_device(self.detach(), Device("cpu"))  # type: ignore[arg-type]
    self.offloaded_from = home


def load(self: EagerTensor) -> None:
    """Moves the elements back to the device that `offload` moved them from.

    Raises:
        RuntimeError: the elements were not moved.
    """
    if self.offloaded_from is None:
        raise refuse(f"expected a tensor that offload has moved to the host, got {self.desc} on {self.device}")
    self.data = to_device(self.detach(), self.offloaded_from)  # type: ignore[arg-type]
    self.offloaded_from = None


def in_place_shape(function: Callable[..., Tensor], name: str) -> Callable[..., EagerTensor]:
    """The method that changes the shape of a tensor in place: the tensor becomes a view of its previous value."""

    def method(self: EagerTensor, *args: Any) -> EagerTensor:
        if not current_builder().eager:
            raise fail(f"{name} in a function that is traced; write x = x.{name[:-1]}(..)")
        if self.handle.leaf is not None:
            raise refuse(f"{name} would change the shape of a leaf that requires grad; write x.{name[:-1]}(..)")
        kept = EagerTensor(self.variable)
        if self.view_meta is None:
            views.keep_views(self, kept)
        kept.view_meta = self.view_meta
        result: Any = function(kept, *args)
        self.handle, self.desc, self.view_meta = result.variable, result.desc, result.view_meta
        return self

    method.__name__, method.__doc__ = name, f"`{name[:-1]}` in place; returns the tensor."
    return method


METHODS: dict[str, Any] = {
    "element_size": element_size, "nelement": Tensor.numel, "ndimension": Tensor.dim, "stride": stride, "type": type_,
    "type_as": type_as,
    "view_as": lambda self, other: F.view(self, *other.sizes()),
    "is_signed": lambda self: self.dtype.kind in ("int", "float", "complex"),
    "is_lazy": property(lambda self: not isinstance(self, EagerTensor)),
    "is_local": property(lambda self: not getattr(self, "is_global", False)),
    "itemsize": property(element_size),
    "layout": property(lambda self: strided),
    "nbytes": property(lambda self: self.numel() * element_size(self)),
    "new_empty": _new_like_self(F.empty, "A tensor with arbitrary elements; sizes as arguments or as a list.", True),
    "new_ones": _new_like_self(F.ones, "A tensor of ones; sizes as arguments or as a list.", True),
    "new_zeros": _new_like_self(F.zeros, "A tensor of zeros; sizes one by one or as a list.", True),
    "new_full": _new_like_self(F.full, "A tensor of one number, of a size."),
    "new_tensor": _new_like_self(
        lambda data, **options: tensor(data.numpy() if isinstance(data, EagerTensor) else data, **options),
        "A tensor of data.",
    ),
}  # fmt: skip

EAGER_METHODS = {
    "data_ptr": data_ptr, "get_device": get_device, "storage_offset": storage_offset,
    "squeeze_": in_place_shape(F.squeeze, "squeeze_"), "unsqueeze_": in_place_shape(F.unsqueeze, "unsqueeze_"),
    "offload": offload, "load": load, "is_offloaded": lambda self: self.offloaded_from is not None,
    "pin_memory": lambda self: self, "is_pinned": lambda self: False,
}  # fmt: skip


def new(self: Tensor, *sizes: Any) -> Tensor:
    """A tensor of the same kind of sizes or data."""
    if not sizes:
        empty: Tensor = self.new_empty(0)
        return empty
    data = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else None
    result: Tensor = self.new_empty(*sizes) if data is None else self.new_tensor(data)
    return result


def _of_kind(name: str, what: str) -> Callable[..., Tensor]:
    """A method that makes a tensor of the kind of `x`, as a function."""

    def make(x: Tensor, *size: Any, **options: Any) -> Tensor:
        return METHODS[name](x, *size, **options)  # type: ignore[no-any-return]

    make.__name__, make.__doc__ = name, f"A tensor {what}, of the element type and on the device of `x` by default."
    return make


new_empty = _of_kind("new_empty", "with any elements")
new_full = _of_kind("new_full", "filled with a number")
new_ones = _of_kind("new_ones", "of ones")
new_zeros = _of_kind("new_zeros", "of zeros")


for _name, _member in METHODS.items():
    setattr(Tensor, _name, _member)
for _name, _member in EAGER_METHODS.items():
    setattr(EagerTensor, _name, _member)
Tensor.new = new  # type: ignore[attr-defined]
