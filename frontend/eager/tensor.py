"""Eager mode: tensors that have values, operators that run at once, and `backward`.

    x = flow.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    x.grad                                # tensor([2., 4.], dtype=oneflow.float32)

An `EagerTensor` is the object of the user's program; its variable is its current value. An update in place gives the
tensor another variable in the same memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect.builder import Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Call, OperatorError
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core import dispatch as dispatching
from oneflow.frontend.core.arrays import Data, LocalData, device_name, is_on_device, is_on_ranks, to_array
from oneflow.frontend.core.devices import Device, device_named, move
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager import printing, views
from oneflow.frontend.eager.builder import EagerBuilder
from oneflow.frontend.eager.gradient_plans import planned_gradients
from oneflow.frontend.eager.tape import ACCUMULATION_LOCK, MODE, Leaf, Variable, gradients, leaves_of, no_grad
from oneflow.runtime.dlpack import capsule_of


class Eager(EagerBuilder, dispatching.TensorBuilder):
    """The builder that functions of tensors use outside of traces."""

    eager = True

    def read(self, tensor: Tensor) -> Variable:
        """The current variable of a tensor."""
        if not isinstance(tensor, EagerTensor):
            raise fail(
                "expected no tensor of a trace outside of that trace: the tensor belongs to a function whose "
                "tracing has ended"
            )
        current = tensor.handle
        is_fresh = tensor.view_meta is None and (current.memory is None or current.memory.version == current.version)
        return current if is_fresh else tensor.variable

    def apply(self, name: str, operands: Sequence[Any], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
        """The results of an operator on tensors; see `TensorBuilder.apply`."""
        slots = []
        for x in operands:
            if type(x) is EagerTensor:  # `read` inlined
                current = x.handle
                memory = current.memory
                if x.view_meta is not None or (memory is not None and memory.version != current.version):
                    current = x.variable
                slots.append(current)
            else:
                slots.append(self._as_values(self._value(x)))
        for value in attrs.values():
            if isinstance(value, Tensor):
                attrs = {key: dispatching.as_scalar(value) for key, value in attrs.items()}
                break
        try:
            results = self.run(name, slots, attrs)
        except OperatorError as error:
            raise fail(str(error), kind=error) from None
        tensors = tuple(map(EagerTensor, results))
        if name in dispatching.VIEWS:
            self.record_view(name, operands, attrs, tensors[0])
        return tensors

    def operand_gradients(self, op: Call, cotangents: Sequence[Any]) -> list[tuple[int, Any]]:
        """The gradients of a recorded call by the indices of operands, by a plan where the call has one."""
        return planned_gradients(self, op, cotangents)

    def to_tensor(self, value: Value) -> EagerTensor:
        """A variable as a tensor."""
        assert isinstance(value, Variable)
        return EagerTensor(value)

    def assign(self, tensor: Tensor, value: Tensor, writer: str) -> None:
        """Writes a result into the memory of a tensor; the gradient of the tensor flows on through the result."""
        assert isinstance(tensor, EagerTensor)
        new, old = self.read(value), tensor.variable
        if old.leaf is not None and old.node is None and MODE.recording:
            raise refuse(f"{writer} would update a leaf that requires grad; do that within flow.no_grad()")
        if tensor.is_view():
            tensor.view_meta.write(self, old, new, writer)
            return
        if old.node is not None and not MODE.recording:
            new = views.with_gradient_of(old, new)
        elif old.node is not None and not views.is_computed_from(new, old):
            new = views.with_zero_gradient_of(old, new)
        views.write(old, new, writer)
        tensor.handle = new

    def record_view(self, name: str, operands: Sequence[Any], attrs: dict[str, Any], result: Tensor) -> None:
        """Makes a result a view of the first operand."""
        if isinstance(operands[0], EagerTensor):
            views.link(name, operands[0], attrs, result)

    def unrecord_view(self, result: Tensor) -> None:
        """Makes a result no view."""
        assert isinstance(result, EagerTensor)
        result.view_meta = None

    def is_copy(self, reshaped: Tensor) -> bool:
        """Whether a reshape of a tensor copies its elements."""
        assert isinstance(reshaped, EagerTensor)
        return not reshaped.is_view()

    def is_contiguous(self, tensor: Tensor) -> bool:
        """Whether the elements of a tensor are contiguous in memory."""
        assert isinstance(tensor, EagerTensor)
        return tensor.view_meta is None or tensor.view_meta.is_contiguous

    def memory_root(self, tensor: Tensor) -> tuple[Tensor, int]:
        """The root of a view and the offset of the view; the tensor itself and 0 for a tensor that is no view."""
        assert isinstance(tensor, EagerTensor)
        return (tensor.view_meta.root, tensor.view_meta.strided_layout()[0]) if tensor.is_view() else (tensor, 0)

    def runtime_scalar(self, get: Callable[[], float], dtype: DType) -> EagerTensor:
        """A tensor of the value of `get` now."""
        return EagerTensor(self.wrap(np.asarray(get(), dtype.numpy)))

    def guard(self, read: Callable[[Any, Any], Any], owner: Any, key: Any) -> Any:
        """The result of `read`."""
        return read(owner, key)

    def watch_hooks(self, version: Callable[[], int]) -> None:
        """Does nothing: eager mode reads hooks at every call."""

    def get_grad(self, leaf: Leaf) -> Any:
        """The gradient of a leaf."""
        return leaf.grad

    def set_grad(self, leaf: Leaf, grad: Any) -> None:
        """Replaces the gradient of a leaf."""
        leaf.grad = grad

    def backward(
        self, tensors: Sequence[Tensor], grad_tensors: Sequence[Any], retain: bool, create_graph: bool, by: Any
    ) -> None:
        """Accumulates gradients at the leaves; see `autograd.backward`."""
        seeds = self.seeds(tensors, grad_tensors)
        leaves = functools.partial(leaves_of, roots=[v for v, _ in seeds], by=by)
        grads = gradients(self, seeds, leaves, retain_graph=retain, create_graph=create_graph)
        with ACCUMULATION_LOCK.held():
            for variable, grad in grads:
                if grad is not None and variable.leaf is not None:
                    self._accumulate(variable.leaf, EagerTensor(grad), create_graph)

    def _accumulate(self, leaf: Leaf, grad: EagerTensor, create_graph: bool) -> None:
        """Adds a gradient: in place, unless the sum can be differentiated again."""
        if leaf.grad is None:
            leaf.grad = grad
        elif create_graph:
            leaf.grad = leaf.grad + grad
        else:
            current = leaf.grad
            total = self.binary("add", current.variable.alias(), grad.variable)
            self.assign(current, self.to_tensor(total), "backward")

    def seeds(self, tensors: Sequence[Tensor], grad_tensors: Sequence[Any]) -> list[tuple[Variable, Variable]]:
        """The variables of results, and their cotangents.

        Raises:
            RuntimeError: a result does not require grad, or has several elements and no cotangent.
        """
        return [(self.read(t), self._seed(t, w)) for t, w in zip(tensors, grad_tensors, strict=True)]

    def _seed(self, result: Any, weight: Any) -> Variable:
        if not result.requires_grad:
            raise refuse(
                f"{result.desc} does not require grad: none of its operands does, or the tensor was computed within "
                "no_grad or by a compiled function; call backward inside of that function"
            )
        if weight is None:
            if result.desc.element_count != 1 or result.dtype.is_complex:
                raise refuse(f"expected one real element to call backward without a gradient, got {result.desc}")
            return self.wrap(move(np.ones(result.shape, result.dtype.numpy), result.device))
        return self.read(weight)


BUILDER = Eager()
dispatching.set_default(BUILDER)


class EagerTensor(Tensor):
    """A tensor with values: operators on it run at once.

    A tensor with `requires_grad` that the user made is a leaf: `backward` adds to its `grad`. `unused_leaf` keeps the
    leaf of a tensor that requires no grad any more, `offloaded_from` the device that `load` brings the elements
    back to.
    """

    __slots__ = ("__weakref__", "offloaded_from", "unused_leaf", "view_meta")
    handle: Variable

    def __init__(self, variable: Variable) -> None:
        self.builder, self.handle, self.desc = BUILDER, variable, variable.desc
        self.view_meta: Any = None
        self.unused_leaf: Leaf | None = None
        self.offloaded_from: Device | None = None

    @property
    def variable(self) -> Variable:
        """The current value, which includes updates through other tensors in the same memory."""
        view_meta = self.view_meta
        if view_meta is not None and view_meta.is_stale(self.handle):
            with views.REFRESH_LOCK.raw:
                if view_meta.is_stale(self.handle):
                    # The handle first: another thread reads it as soon as the version is current.
                    self.handle, view_meta.version = view_meta.refreshed(BUILDER, self.handle)
        current = self.handle
        if current.memory is not None and current.memory.version != current.version:
            self.handle = current = current.refreshed()
        return current

    def is_view(self) -> bool:
        """Whether the tensor is a view of another one, so that updates of either change both."""
        return self.view_meta is not None

    @property
    def storage(self) -> Data:
        """The array that holds the values, on the host, on a device or on ranks.

        Raises:
            TraceError: a function is being traced, whose later runs have other values.
        """
        if not current_builder().eager:
            raise fail(
                "the values of a tensor from outside are not known while the function is traced; pass the "
                "tensor as an argument"
            )
        data: Data = (self.handle if self.view_meta is None else self.variable).handle
        return data

    @property
    def array(self) -> np.ndarray:
        """The values as an array on the host; a copy where the values are on a device."""
        data = self.storage
        return data if type(data) is np.ndarray else to_array(data)

    @property
    def device(self) -> Device:
        """The device that the tensor is on."""
        return device_named(device_name(self.handle.handle))

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a CUDA device."""
        return self.device.type == "cuda"

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows to the tensor."""
        return (self.handle if self.view_meta is None else self.variable).requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operator made the tensor."""
        return self.variable.node is None

    @property
    def grad(self) -> Any:
        """The gradient that `backward` has accumulated, or None."""
        leaf = self.handle.leaf or self.unused_leaf
        return None if leaf is None else current_builder().get_grad(leaf)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and (not isinstance(value, Tensor) or value.desc != self.desc):
            raise ValueError(f"expected a gradient of type {self.desc} or None, got {getattr(value, 'desc', value)}")
        leaf = self.handle.leaf or self.unused_leaf
        if leaf is not None:
            current_builder().set_grad(leaf, value)
        elif value is not None:
            raise refuse("expected a leaf that requires grad to set the gradient of; use requires_grad_() first")

    @property
    def grad_fn(self) -> str | None:
        """The operator that made the tensor, if the call was recorded."""
        node = self.variable.node
        return None if node is None else f"oneflow.{node.record.name}"

    @property
    def data(self) -> Tensor:
        """The same as `detach()`."""
        return self.detach()

    @data.setter
    def data(self, value: EagerTensor) -> None:
        """Replaces the values by the values of another tensor, in its memory; a leaf stays a leaf.

        Views stay in the previous memory.
        """
        if self.view_meta is None:
            views.keep_views(self, EagerTensor(self.variable))
        leaf, self.handle, self.view_meta = self.handle.leaf, value.variable.alias(), views.detached(value)
        self.desc = self.handle.desc
        self.handle.leaf = leaf
        if self.grad is not None and self.grad.desc != self.desc:
            self.grad = None

    def detach(self) -> Tensor:
        """A tensor in the same memory through which no gradient flows."""
        if not current_builder().eager:
            return dispatching.detached(self)
        detached = EagerTensor(self.variable.alias())
        detached.view_meta = views.detached(self)
        return detached

    def requires_grad_(self, requires_grad: bool = True) -> EagerTensor:
        """Makes the tensor a leaf that accumulates its gradient, or not; an accumulated gradient is kept. Returns the
        tensor.
        """
        variable = self.variable
        if variable.node is not None and not requires_grad:
            raise refuse("expected a leaf: this was computed; use detach() for a tensor without a gradient")
        if requires_grad and not self.dtype.is_inexact:
            raise refuse(f"expected floats or complex numbers to require a gradient, got {self.desc}")
        if requires_grad and not variable.requires_grad:
            variable.leaf = self.unused_leaf or Leaf()
        elif not requires_grad and variable.leaf is not None:
            self.handle, self.unused_leaf = variable.alias(), variable.leaf
        return self

    def overwrite(self, array: Data, writer: str) -> None:
        """Sets values that a program has computed for the tensor, in its memory or in other memory."""
        old = self.handle if self.view_meta is None else self.variable
        if self.is_view():
            with no_grad():
                self.view_meta.write(BUILDER, old, BUILDER.wrap(array), writer)
        elif array is old.handle:
            old.shared_memory().write(writer)
        else:
            views.write(self.variable, new := BUILDER.wrap(array), writer)
            self.handle = new

    def retain_grad(self) -> None:
        """Has `backward` keep the gradient of a computed tensor in `grad`."""
        if not self.requires_grad:
            raise refuse(f"expected a tensor that requires grad for retain_grad, got {self.desc} that requires none")
        self.handle.leaf = self.handle.leaf or Leaf()

    def numpy(self) -> np.ndarray:
        """The values as an array of NumPy, which shares the memory of a tensor on the host; a view's array shares the
        memory of its root.

        No gradient flows through the array.
        """
        return to_array(views.exposed_memory(self))

    def item(self) -> Any:
        """The one element as a Python number."""
        if self.storage.size != 1:
            raise ValueError(f"expected one element for item(), got {self.desc}")
        return self.array.item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.array.tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise TypeError(f"expected one integer as an index, got {self.desc}")
        return int(self.item())

    def __contains__(self, value: Any) -> bool:
        return bool((self.array == (value.array if isinstance(value, EagerTensor) else value)).any())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        """A function of NumPy, on the elements as arrays."""
        leaves, tree = flatten((args, kwargs))
        arrays = [leaf.array if isinstance(leaf, EagerTensor) else leaf for leaf in leaves]
        args, kwargs = tree.unflatten(arrays)
        return function(*args, **kwargs)

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("expected a tensor without a gradient for DLPack; pass x.detach()")
        return capsule_of(self._local(), options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._local().__dlpack_device__()

    def _local(self) -> LocalData:
        """The memory of a tensor on one device."""
        if is_on_ranks(self.storage):
            raise BufferError("expected a tensor of one device for DLPack, got a global one; pass x.to_local()")
        data: LocalData = views.exposed_memory(self)
        return data

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not is_on_device(self.storage):
            raise AttributeError(f"expected a tensor on a CUDA device, got a tensor on {self.device}")
        data: Any = self.storage
        interface: dict[str, Any] = data.__cuda_array_interface__
        return interface

    def __deepcopy__(self, memo: dict[int, Any]) -> EagerTensor:
        copied = object.__new__(type(self))
        EagerTensor.__init__(copied, BUILDER.wrap(self.storage.copy()))
        memo[id(self)] = copied
        return copied.requires_grad_() if self.handle.leaf is not None else copied

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        array = self.variable.handle
        if is_on_ranks(array):
            suffixes = [f"placement={array.placement}", f"sbp={array.nd}"]
        else:
            suffixes = [] if self.device == "cpu" else [f"device='{self.device}'"]
        suffixes.append(f"dtype={self.dtype!r}")
        if self.handle.node is not None:
            suffixes.append(f"grad_fn=<{self.handle.node.record.name}Backward>")
        elif self.handle.leaf is not None:
            suffixes.append("requires_grad=True")
        return printing.to_text(array.local_values() if is_on_ranks(array) else to_array(array), suffixes)


def wrapped(array: Any) -> EagerTensor:
    """A tensor in the memory of an array, if the array is contiguous and in native byte order; else a copy."""
    return EagerTensor(BUILDER.wrap(array))


def from_program(array: Data, desc: TensorDesc) -> EagerTensor:
    """A tensor of values that a program has computed; `desc` is their interned type."""
    return EagerTensor(Variable(BUILDER, array, desc))
