"""Updates in place, and indexing of tensors that have values.

    x.add_(1), x += 1, x.copy_(y), x[mask] = 0

An update computes the new values and passes these to the builder. The eager builder writes them into the tensor's
memory and counts its versions; the builder of a trace records the new value of the tensor. The import of this module
adds tensors these methods.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.arrays import expect_writable
from oneflow.frontend.core.devices import move
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.promotion import as_number, fitting, is_number
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.eager.function import to_device
from oneflow.frontend.eager.kernels import desc_of
from oneflow.frontend.eager.tape import MODE
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, from_program, wrapped
from oneflow.frontend.eager.views import detached, taken, view_of
from oneflow.frontend.functional.index_parts import byte_mask, is_integer
from oneflow.frontend.functional.rules import constant
from oneflow.frontend.methods.assignment import Write, assigned, out_of_place
from oneflow.frontend.methods.index import integers_first

#: Functions with an in-place form: `add_` for `add`.
UPDATES = """
    abs absolute acos acosh add addcdiv addcmul arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh
    baddbmm bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min clip cos cosh cumprod
    cumsum digamma div divide eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmod frac ge greater
    greater_equal gt index_add le lerp less less_equal lgamma log log1p log2 log10 logical_and logical_not
    logical_or logical_xor lt masked_fill maximum minimum mul multiply ne neg negative not_equal pow reciprocal relu
    remainder round rsqrt scatter scatter_add scatter_reduce sigmoid sign silu sin sinh sqrt square sub subtract tan
    tanh tril triu true_divide trunc
""".split()

#: Python's operators that update, and their functions.
OPERATORS = {
    "iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "ifloordiv": "floor_divide", "imod": "remainder",
    "ipow": "pow", "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor",
}  # fmt: skip


def _in_place(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _assign(self, function(self, *args, **kwargs), name)

    method.__name__, method.__doc__ = name, f"`{function.__name__}` in place; returns the tensor."
    return method


def _assign(target: Tensor, value: Tensor, name: str) -> Tensor:
    own, wanted = value.desc.dtype, target.desc.dtype
    if own is not wanted and own != wanted and (own == dtypes.bool_ or (own.is_float and wanted.is_float)):
        value = F.cast(value, wanted)
    current_builder().assign(target, value, name)
    return target


def copy_(self: Tensor, source: Any, name: str = "copy_") -> Tensor:
    """Copies the values of `source`, converted and broadcast; returns the tensor."""
    value = _converted(self, source)
    value = value if value.sizes() == self.sizes() else F.broadcast_to(value, self.sizes())
    return _assign(self, F.clone(value), name)


def fill_(self: Tensor, value: Any, name: str = "fill_") -> Tensor:
    """Sets every element to a number, or to a tensor without dimensions, which gets a gradient; returns the tensor.

    Raises:
        OneFlowError: `value` is a tensor with dimensions.
    """
    if isinstance(value, Tensor):
        if value.rank:
            raise fail(f"expected a number or a tensor without dimensions for {name}, got {value.desc}")
        return copy_(self, value, name)
    return _assign(self, F.full(self.sizes(), fitting(as_number(value), self.dtype), dtype=self.dtype), name)


def zero_(self: Tensor) -> Tensor:
    """Sets every element to zero; returns the tensor."""
    return fill_(self, 0, "zero_")


def detach_(self: EagerTensor) -> EagerTensor:
    """Makes the tensor a leaf without producer; returns the tensor."""
    self.handle, self.view_meta = self.variable.alias(), detached(self)
    return self


def _concrete_index(key: Any) -> Any:
    """An index with tensors as arrays or integers.

    Raises:
        OneFlowError: the step of a slice is 0.
    """
    if isinstance(key, tuple):
        return tuple(map(_concrete_index, key))
    if isinstance(key, slice) and key.step is not None and operator.index(key.step) == 0:
        raise fail(f"expected the step of a slice other than 0, got {key}")
    if isinstance(key, (EagerTensor, np.ndarray)):
        key = byte_mask(key)
    if isinstance(key, EagerTensor):
        return key.item() if not key.rank and key.dtype.is_integer else key.array
    return key


def _is_basic(key: Any) -> bool:
    """Whether the selected part can be a view: the index has no lists and tensors."""
    if isinstance(key, tuple):
        return all(map(_is_basic, key))
    return key is None or key is Ellipsis or isinstance(key, slice) or is_integer(key)


def getitem(self: EagerTensor, key: Any) -> Any:
    """`x[key]`, as NumPy indexes, through which gradients flow; a view where the key has no lists and tensors.

    Raises:
        OneFlowIndexError: a position is out of range, or there are more positions than dimensions.
    """
    if not current_builder().eager:
        return F.getitem(self, key)
    key = _concrete_index(key)
    try:
        return _selected(self, key)
    except IndexError as error:
        raise fail(f"x[..] of {self.desc}: {error}", kind=IndexError) from None


def _selected(self: EagerTensor, key: Any) -> Any:
    if not _is_basic(key):
        return _indexed(self, key)
    array_key = _keeping_arrays(key if isinstance(key, tuple) else (key,))
    variable = self.variable
    if type(variable.handle) is np.ndarray and not (MODE.recording and variable.requires_grad):
        part = taken(lambda a: a[array_key], variable.handle)
        result = from_program(part, desc_of(part.shape, part.dtype))
    else:
        result = _indexed(self, key)
    result.view_meta = view_of(self, lambda a: a[array_key])
    return result


def _keeping_arrays(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index for which NumPy returns an array even for one element."""
    for part in key:
        if part is Ellipsis:
            return key
    return (*key, ...)


def _indexed(self: EagerTensor, key: Any) -> Any:
    first, rest = integers_first(key)
    if not (MODE.recording and self.requires_grad):
        return wrapped(move(np.array(self.array[first][rest]), self.device))
    numbers = np.arange(self.numel()).reshape(self.shape)
    return dispatch("gather", F.reshape(self, (-1,)), np.array(numbers[first][rest]), axis=0)


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value` in place, as NumPy assigns; the last value is kept where positions are equal.

    Raises:
        OneFlowError: the index is out of range, or the value does not broadcast to the selected part.
    """
    value = _converted(self, value)
    write: Write = out_of_place
    if isinstance(self, EagerTensor) and current_builder().eager:
        key = _prepared_index(self, key, value)
        if not (MODE.recording and (self.requires_grad or value.requires_grad)):
            if type(self.storage) is np.ndarray:
                return _write_on_host(self, key, value.array)
            write = out_of_place if self.is_view() else _in_operand_memory
    _assign(self, assigned(self, key, value, write), "__setitem__")


def _in_operand_memory(name: str, index: int, /, *operands: Any, **attrs: Any) -> Tensor:
    """The result of an operator, in the memory of the operand `index`."""
    return BUILDER.to_tensor(BUILDER.update(name, index, *(x.variable for x in operands), **attrs))


def _converted(x: Tensor, value: Any) -> Tensor:
    """A value with the element type and on the device of a tensor."""
    if is_number(value):
        value = constant(fitting(as_number(value), x.dtype), x.dtype)
    tensor = as_tensor(value)
    if isinstance(x, EagerTensor) and isinstance(tensor, EagerTensor) and current_builder().eager:
        tensor = to_device(tensor, x.device)
    return F.cast(tensor, x.dtype)


def _prepared_index(x: EagerTensor, key: Any, value: Tensor) -> Any:
    """An index with tensors as arrays, except tensors that can stay on the device.

    On a device integers become positions: a kernel for positions serves every integer, one for slices does not.
    """
    key = byte_mask(key)
    if x.is_cuda and isinstance(key, EagerTensor) and (key.dtype != dtypes.bool_ or value.numel() == 1):
        return to_device(key, x.device)
    settled = _concrete_index(key)
    parts = settled if isinstance(settled, tuple) else (settled,)
    return tuple(map(np.asarray, parts)) if x.is_cuda and parts and all(map(is_integer, parts)) else settled


def _write_on_host(x: EagerTensor, key: Any, value: np.ndarray) -> None:
    """Writes into memory on the host."""
    target = x.view_meta.root_elements("__setitem__") if x.is_view() else x.array
    expect_writable(target)
    try:
        first, rest = integers_first(key)
        # NumPy accepts no array of a dimension for one element.
        target[first][rest] = value.reshape(()) if value.size == 1 else value
    except (IndexError, ValueError, TypeError) as error:
        raise fail(f"x[..] = .. of {x.desc}: {error}", kind=error) from None
    memory = x.view_meta.memory if x.is_view() else x.variable.shared_memory()
    memory.write("__setitem__")


#: The updates as functions of a tensor: `flow.sin_(x)`.
FUNCTIONS = {f"{name}_": _in_place(getattr(F, name), f"{name}_") for name in UPDATES}

#: Methods that tensors of traces have too.
UPDATE_METHODS = (copy_, fill_, zero_)


def attach(target: type[Tensor]) -> None:
    """Sets the updates on `target`."""
    for name, function in FUNCTIONS.items():
        setattr(target, name, function)
    for name, update in OPERATORS.items():
        setattr(target, f"__{name}__", getattr(target, f"{update}_"))
    for method in UPDATE_METHODS:
        setattr(target, method.__name__, method)
    setattr(target, "__setitem__", setitem)  # noqa: B010 (the class declares none)


def attach_to_eager(target: type[EagerTensor]) -> None:
    """Sets on `target` the methods that only tensors with values have."""
    for function in (detach_, to_device):
        setattr(target, function.__name__, function)
    setattr(target, "__getitem__", getitem)  # noqa: B010 (the class declares none)


def requires_grad_(self: Tensor, *_: Any) -> Any:
    """Refused in a trace: there gradients are taken by the arguments of a function."""
    raise fail(
        "requires_grad_ is for tensors from outside of a compiled function; flow.grad(fn) computes gradients by the "
        "arguments that it "
        "computes or is called with"
    )


attach(Tensor)
attach_to_eager(EagerTensor)
setattr(Tensor, "requires_grad_", requires_grad_)  # noqa: B010 (the class declares none)
for _name in OPERATORS:
    setattr(Size, f"__{_name}__", lambda self, other: NotImplemented)
