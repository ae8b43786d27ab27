"""Updates in place, and indexing of tensors that have values.

    x.add_(1), x += 1, x.copy_(y), x[mask] = 0

An update computes the new values and hands them to the builder: that of eager mode writes them into the tensor's
memory and counts its versions, that of a trace notes what the tensor is from then on. Importing this module is what
gives tensors these methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.devices import Device, move
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail, user_location
from oneflow.frontend.core.promotion import as_number, fitting, is_number
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.eager.function import to_device
from oneflow.frontend.eager.tape import MODE
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, wrapped
from oneflow.frontend.eager.views import detached, view_of
from oneflow.frontend.functional.rules import constant
from oneflow.frontend.methods import methods
from oneflow.frontend.methods.assignment import Write, anew, assigned
from oneflow.frontend.methods.index import singles_first

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


def _updating(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _assign(self, function(self, *args, **kwargs), name)

    method.__name__, method.__doc__ = name, f"`{function.__name__}` in place; itself."
    return method


def _assign(target: Any, value: Tensor, name: str) -> Any:
    if value.dtype != target.dtype and value.dtype.is_float and target.dtype.is_float:
        value = F.cast(value, target.dtype)
    current_builder().assign(target, value, name)
    return target


def copy_(self: Tensor, source: Any) -> Tensor:
    """Takes the values of `source`, converted and broadcast; itself."""
    value = _fitting(self, source)
    value = value if value.sizes() == self.sizes() else F.broadcast_to(value, self.sizes())
    return _assign(self, F.clone(value), "copy_")


def fill_(self: Tensor, value: Any, name: str = "fill_") -> Tensor:
    """Sets every element to a number; itself."""
    return _assign(self, F.full(self.sizes(), fitting(as_number(value), self.dtype), dtype=self.dtype), name)


def zero_(self: Tensor) -> Tensor:
    """Sets every element to zero; itself."""
    return fill_(self, 0, "zero_")


def detach_(self: EagerTensor) -> EagerTensor:
    """Forgets what made it; itself."""
    self.handle, self.view_meta = self.variable.alias(), detached(self)
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
        found.view_meta = view_of(self, lambda a: a[whole])
    return found


def _whole(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index that gives an array even of one element."""
    return key if any(k is Ellipsis for k in key) else (*key, ...)


def _taken(self: EagerTensor, key: Any) -> Any:
    first, rest = singles_first(key)
    if not (MODE.recording and self.requires_grad):
        return wrapped(move(np.array(self.array[first][rest]), self.device))
    numbers = np.arange(self.numel()).reshape(self.shape)
    return dispatch("gather", F.reshape(self, (-1,)), np.array(numbers[first][rest]), axis=0)


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value` in place, as NumPy assigns; the last value stays where positions are equal.

    Raises:
        OneFlowError: the index is out of range, or the value does not broadcast to what it takes.
    """
    value = _fitting(self, value)
    write: Write = anew
    if isinstance(self, EagerTensor) and current_builder().eager:
        key = _settled(self, key, value)
        if not (MODE.recording and (self.requires_grad or value.requires_grad)):
            if type(self.storage) is np.ndarray:
                return _write(self, key, value.array)
            write = anew if self.is_view else _in_its_memory
    _assign(self, assigned(self, key, value, write), "__setitem__")


def _in_its_memory(name: str, number: int, *operands: Any, **attrs: Any) -> Tensor:
    """The result of an operator in the memory of the operand of a number."""
    return EagerTensor(BUILDER.update(name, number, *(x.variable for x in operands), **attrs))


def _fitting(x: Tensor, value: Any) -> Tensor:
    """A value of the element type of a tensor, where that is."""
    if is_number(value):
        value = constant(fitting(as_number(value), x.dtype), x.dtype)
    given = as_tensor(value)
    moves = isinstance(x, EagerTensor) and isinstance(given, EagerTensor) and current_builder().eager
    return F.cast(to_device(given, x.device) if moves else given, x.dtype)


def _settled(x: EagerTensor, key: Any, value: Tensor) -> Any:
    """An index with tensors as arrays, but for those on a device that need not be known.

    On a device integers are positions, so that another one is no other kernel.
    """
    if x.is_cuda and isinstance(key, EagerTensor) and (key.dtype != dtypes.bool_ or value.numel() == 1):
        return to_device(key, x.device)
    settled = _key(key)
    parts = settled if isinstance(settled, tuple) else (settled,)
    return tuple(map(np.asarray, parts)) if x.is_cuda and parts and all(map(_is_integer, parts)) else settled


def _write(x: EagerTensor, key: Any, value: np.ndarray) -> None:
    """Writes into memory on the host."""
    target = x.view_meta.root_elements("__setitem__") if x.is_view else x.array
    try:
        first, rest = singles_first(key)
        # NumPy does not take an array of a dimension for one element.
        target[first][rest] = value.reshape(()) if value.size == 1 else value
    except (IndexError, ValueError, TypeError) as error:
        raise type(error)(f"{user_location()}: x[..] = ..: {error}") from None
    memory = x.view_meta.memory if x.is_view else x.variable.shared_memory()
    memory.write("__setitem__")


#: What tensors of traces have too.
UPDATING = (copy_, fill_, zero_)


def attach(target: type[Tensor]) -> None:
    """Sets the updates on `target`."""
    for name in UPDATES:
        setattr(target, f"{name}_", _updating(getattr(F, name), f"{name}_"))
    for name, update in OPERATORS.items():
        setattr(target, f"__{name}__", getattr(target, f"{update}_"))
    for function in UPDATING:
        setattr(target, function.__name__, function)
    target.__setitem__ = setitem


def attach_to_values(target: type[EagerTensor]) -> None:
    """Sets on `target` what tensors with values have besides."""
    for function in (detach_, to, cuda, cpu, to_device):
        setattr(target, function.__name__, function)
    target.__getitem__ = getitem


def requires_grad_(self: Tensor, *_: Any) -> Any:
    """Refused: gradients by what a function computes are those of a function."""
    raise fail(
        "requires_grad_ is for tensors from outside of a compiled function; flow.grad(fn) gives gradients by what it "
        "computes or is called with"
    )


attach(Tensor)
attach_to_values(EagerTensor)
Tensor.requires_grad_ = requires_grad_
for _name in OPERATORS:
    setattr(Size, f"__{_name}__", lambda self, other: NotImplemented)
