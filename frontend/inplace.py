"""Updates in place, and indexing of tensors that have values.

    x.add_(1), x += 1, x.copy_(y), x[mask] = 0

An update computes the new values and hands them to the builder, which writes them into the tensor's memory and counts
its versions. Importing this module is what gives tensors these methods. Imports `methods`, `eager`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend import methods
from oneflow.frontend.devices import Device, move
from oneflow.frontend.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.eager import BUILDER, EagerTensor, from_numpy
from oneflow.frontend.errors import fail
from oneflow.frontend.function import to_device
from oneflow.frontend.promotion import as_number, fitting, is_number
from oneflow.frontend.tape import MODE, Memory
from oneflow.frontend.tensor import Tensor
from oneflow.frontend.views import detached, part_of

#: Functions whose results can take the place of their first argument: `add` gives `add_`.
UPDATES = """
    abs add addcmul bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clip cos div erf exp expm1 floor
    floor_divide fmod lerp log log1p masked_fill maximum minimum mul neg pow reciprocal relu remainder round rsqrt
    sigmoid sign silu sin sqrt square sub tan tanh tril triu trunc
""".split()

#: Python's operators that update, and their functions.
OPERATORS = {
    "iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "ifloordiv": "floor_divide", "imod": "remainder",
    "ipow": "pow", "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor",
}  # fmt: skip


def _updating(function: Callable[..., Tensor], name: str) -> Callable[..., EagerTensor]:
    def method(self: EagerTensor, *args: Any, **kwargs: Any) -> EagerTensor:
        return _assign(self, function(self, *args, **kwargs), name)

    method.__name__, method.__doc__ = name, f"`{function.__name__}` in place; itself."
    return method


def _refusing(name: str) -> Callable[..., Any]:
    def method(self: Tensor, *_: Any, **__: Any) -> Any:
        raise fail(
            f"{name} would update in place a tensor that is being traced, whose memory is not known: write "
            f"x = x.{name.removesuffix('_')}(..) with what it gives, or update a tensor from outside"
        )

    method.__name__, method.__doc__ = name, "Refused: a traced tensor has no memory yet."
    return method


def _rebinding(name: str) -> Callable[..., Any]:
    def method(self: Tensor, _: Any) -> Any:
        # Of what the function has computed itself `x += 1` gives another tensor; an argument is somebody else's too.
        if not isinstance(self.handle, ir.BlockArgument):
            return NotImplemented
        raise fail(
            f"{name} would update an argument in place, which a compiled function only reads: write x = x + .. or "
            "its like for another tensor, or have the function update a tensor from outside"
        )

    method.__name__, method.__doc__ = name, "Refused for arguments of a function that is traced."
    return method


def _assign(target: EagerTensor, value: Tensor, name: str) -> EagerTensor:
    if value.dtype != target.dtype and value.dtype.is_float and target.dtype.is_float:
        value = F.cast(value, target.dtype)
    current_builder().assign(target, value, name)
    return target


def copy_(self: EagerTensor, source: Any) -> EagerTensor:
    """Takes the values of `source`, converted and broadcast; itself."""
    given = as_tensor(source)
    given = to_device(given, self.device) if isinstance(given, EagerTensor) and current_builder().eager else given
    value = F.cast(given, self.dtype)
    value = value if value.shape == self.shape else F.broadcast_to(value, self.shape)
    return _assign(self, clone(value), "copy_")


def fill_(self: EagerTensor, value: Any, name: str = "fill_") -> EagerTensor:
    """Sets every element to a number; itself."""
    return _assign(self, F.full(self.shape, fitting(as_number(value), self.dtype), dtype=self.dtype), name)


def zero_(self: EagerTensor) -> EagerTensor:
    """Sets every element to zero; itself."""
    return fill_(self, 0, "zero_")


def detach_(self: EagerTensor) -> EagerTensor:
    """Forgets what made it; itself."""
    self.handle, self.shows = self.variable.alias(), detached(self)
    return self


def to(self: EagerTensor, *target: Any, dtype: DType | None = None, device: str | Device | None = None) -> Tensor:
    """Converted to an element type, moved to a device, or both; or like another tensor in both.

    Raises:
        OneFlowError: a target is neither.
        CudaError: there is no such device.
    """
    result: Tensor = self
    for given in (*target, *(x for x in (dtype, device) if x is not None)):
        if isinstance(given, EagerTensor):
            result = to(result, given.device, given.dtype)  # type: ignore[arg-type]
        elif isinstance(given, (str, Device)) and isinstance(result, EagerTensor):
            result = to_device(result, given)
        elif not isinstance(given, (str, Device)):
            result = methods.to(result, given)
    return result


def cuda(self: EagerTensor, index: int = 0) -> EagerTensor:
    """Itself, or a copy, on a CUDA device."""
    return to_device(self, Device("cuda", index))


def cpu(self: EagerTensor) -> EagerTensor:
    """Itself, or a copy, on the host."""
    return to_device(self, Device("cpu"))


def clone(x: Any) -> Tensor:
    """A copy in memory of its own; gradients flow through."""
    x = as_tensor(x)
    if isinstance(x, EagerTensor) and current_builder().eager and not (MODE.recording and x.requires_grad):
        return from_numpy(x.storage.copy())
    return dispatch("cast", x, dtype=x.dtype)


def _key(key: Any) -> Any:
    """An index with tensors as arrays."""
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    if isinstance(key, EagerTensor):
        return key.item() if not key.rank and key.dtype.is_integer else key.array
    return key


def _is_basic(key: Any) -> bool:
    """Whether an index takes a part that can be a view, and not single elements."""
    if isinstance(key, tuple):
        return all(map(_is_basic, key))
    return key is None or key is Ellipsis or isinstance(key, slice) or _is_integer(key)


def _is_integer(key: Any) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, bool)


def getitem(self: EagerTensor, key: Any) -> Any:
    """`x[key]`, as NumPy indexes, through which gradients flow: a view where the key has no lists and tensors."""
    if not current_builder().eager:
        return F.getitem(self, key)
    key = _key(key)
    found = _taken(self, key)
    if _is_basic(key):
        whole = _whole(key if isinstance(key, tuple) else (key,))
        found.shows = part_of(self, lambda a: a[whole])
    return found


def _whole(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index that gives an array even of one element."""
    return key if any(k is Ellipsis for k in key) else (*key, ...)


def _taken(self: EagerTensor, key: Any) -> Any:
    if not (MODE.recording and self.requires_grad):
        return from_numpy(move(np.array(self.array[key]), self.device))
    return dispatch("gather", F.reshape(self, (-1,)), np.array(_positions(self)[key]), axis=0)


def setitem(self: EagerTensor, key: Any, value: Any) -> None:
    """`x[key] = value` in place, as NumPy assigns."""
    builder = current_builder()
    tensor = None if is_number(value) else F.cast(as_tensor(value), self.dtype)
    flows = self.requires_grad or (tensor is not None and tensor.requires_grad)
    if builder.eager and not (MODE.recording and flows) and not self.is_cuda:
        target, memory = _written(self)
        target[_key(key)] = value if tensor is None else BUILDER.read(tensor).handle
        memory.write("__setitem__")
        return
    mask = np.zeros(_sizes(self), np.bool_)
    mask[_key(key)] = True
    filling = value if tensor is None else _spread(self, key, tensor)
    _assign(self, F.where(_beside(self, mask), filling, self), "__setitem__")


def _written(x: EagerTensor) -> tuple[np.ndarray, Memory]:
    """The elements of a tensor on the host where an update has to write them, and what counts their versions."""
    if x.is_view:
        return x.shows.elements("__setitem__"), x.shows.memory
    return x.array, x.variable.shared_memory()


def _spread(x: EagerTensor, key: Any, value: Tensor) -> Tensor:
    """`value` at the places of `x[key]`, whatever elsewhere, in the shape of `x`."""
    taken = _positions(x)[_key(key)]
    value = F.reshape(F.broadcast_to(value, taken.shape), (-1,))
    source = np.zeros(_sizes(x), np.int64)
    source[_key(key)] = np.arange(taken.size).reshape(taken.shape)
    return dispatch("gather", value, source, axis=0)


def _beside(x: EagerTensor, array: np.ndarray) -> Tensor:
    """An array as a tensor where `x` is."""
    made = as_tensor(array)
    return to_device(made, x.device) if isinstance(made, EagerTensor) else made


def _positions(x: Tensor) -> np.ndarray:
    """The number of each element."""
    return np.arange(x.numel()).reshape(_sizes(x))


def _sizes(x: Tensor) -> tuple[int, ...]:
    """The shape, all of it known."""
    return tuple(x.size(i) for i in range(x.rank))


def attach(target: type[EagerTensor]) -> None:
    """Sets every method of this module on `target`."""
    for name in UPDATES:
        setattr(target, f"{name}_", _updating(getattr(F, name), f"{name}_"))
    for name, update in OPERATORS.items():
        setattr(target, f"__{name}__", getattr(target, f"{update}_"))
    members: dict[str, Any] = {f.__name__: f for f in (copy_, fill_, zero_, detach_, clone, to, cuda, cpu, to_device)}
    for name, member in {**members, "__getitem__": getitem, "__setitem__": setitem, "masked_select": getitem}.items():
        setattr(target, name, member)


def requires_grad_(self: Tensor, *_: Any) -> Any:
    """Refused: gradients by what a function computes are those of a function."""
    raise fail(
        "requires_grad_ is for tensors from outside of a compiled function; flow.grad(fn) gives gradients by what it "
        "computes or is called with"
    )


def attach_refusals(target: type[Tensor]) -> None:
    """Sets methods that say why a tensor without values is no leaf, and is not updated."""
    setattr(target, requires_grad_.__name__, requires_grad_)
    for name in (*(f"{u}_" for u in UPDATES), "copy_", "fill_", "zero_"):
        setattr(target, name, _refusing(name))
    for name in OPERATORS:
        setattr(target, f"__{name}__", _rebinding(f"__{name}__"))


attach(EagerTensor)
attach_refusals(Tensor)
