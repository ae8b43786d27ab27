"""The eager builder: fast dispatch of calls to kernels that are cached by operator, attributes and operand types.

An operator is compiled once for its attributes and operand types (`kernels.py`); its operands and results are
recorded for gradients (`tape.py`), which the same builder computes. Operators on global tensors run on the ranks of
these tensors; a local tensor among the operands must be the same full tensor on every rank.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect.builder import Builder, Scalar, Value, describe
from oneflow.dialect.record import Call, OperatorError, attribute_values, flatten, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data, device_of_all, to_data, with_user_line
from oneflow.frontend.core.devices import Device, common_device, device
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.eager.kernel_cache import KernelCache
from oneflow.frontend.eager.kernels import (
    CALLS_BEFORE_OWN_KERNEL,
    DynamicSizeKernels,
    Kernel,
    Ranks,
    compile_call,
    desc_of,
    describe_result,
    intern,
)
from oneflow.frontend.eager.tape import MODE, Variable, no_grad, record_dependent
from oneflow.frontend.eager.views import copy_of_view
from oneflow.passes.base import PassError
from oneflow.runtime.failures import RunError


class EagerBuilder(Builder):
    """Runs every call at once, with the kernel of its name, attributes and operand types."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = KernelCache()
        self._dynamic_size_kernels = DynamicSizeKernels()
        self.registry.on_replacement.append(self._forget)

    def _forget(self, name: str) -> None:
        """Drops the kernels of an operator that was defined again."""
        self.kernels.keep(lambda key: key[1] != name)
        for _, kernel in self.kernels.items():
            kernel.plans = None if kernel.plans is None else {}
        self._dynamic_size_kernels = DynamicSizeKernels()

    def call(self, name: str, /, *operands: Any, **attrs: Any) -> tuple[Value, ...]:
        """The results of operator `name`; see `Builder.call`.

        Raises:
            OperatorError: the operator is unknown or does not allow the call.
            OneFlowError: the operator cannot be compiled.
            RuntimeError: an operand was updated in place after it was saved for a gradient, or the run fails.
        """
        return self.run(name, self._slots(operands), attrs)

    def update(self, name: str, index: int, /, *operands: Any, **attrs: Any) -> Value:
        """The result of operator `name`, in the memory of operand `index` if that is on one device.

        The old values are lost, so nothing is recorded for gradients.
        """
        with no_grad():
            return self.run(name, self._slots(operands), attrs, index)[0]

    def _slots(self, operands: Sequence[Any]) -> list[Any]:
        """Operands as variables; see `run`."""
        return [x if type(x) is Variable else self._as_values(x) for x in operands]

    def run(
        self, name: str, slots: list[Any], attrs: dict[str, Any], in_place_operand: int | None = None
    ) -> tuple[Variable, ...]:
        """The results of operator `name`, of which each slot has a variable, a tuple of variables or None.

        One loop over the operands collects all that the call depends on, since a call of a small kernel costs less
        than a second loop.
        """
        forms, handles, on_host, depends, stale = [], [], True, False, False
        variables = slots if operator.countOf(map(type, slots), Variable) == len(slots) else flatten(slots)
        for variable in variables:
            handle, memory = variable.handle, variable.memory
            handles.append(handle)
            forms.append(id(variable.desc))
            if type(handle) is not np.ndarray:
                on_host = False
            if variable.node is not None or variable.leaf is not None:
                depends = True
            if memory is not None and memory.version != variable.version:
                stale = True
        device_or_ranks = None if on_host else device_of_all(handles) or self._device_or_ranks(name, slots, variables)
        if variables is not slots:
            forms = [_type_key(x) for x in slots]
        key = (device_or_ranks, name, in_place_operand, repr(attrs) if attrs else "", *forms)
        kernel = self.kernels.find(key) or self.kernels.add(
            key, self._compile(name, slots, attrs, device_or_ranks, in_place_operand)
        )
        if kernel.calls_left:
            kernel = self._counted(key, kernel)
        if stale:
            _check_versions(name, kernel, variables)
        arrays = self.execute(kernel, handles)
        types = kernel.results if kernel.is_static else map(describe_result, arrays, kernel.results)
        results = tuple(map(Variable, itertools.repeat(self), arrays, types))
        if depends and MODE.recording:
            slots = slots + [None] * (len(kernel.op.inputs) - len(slots))
            inputs = dict(zip(kernel.op.inputs, slots, strict=True))
            record_dependent(kernel.op.record, inputs, kernel.op.attrs, results, kernel)
        return results

    def execute(self, kernel: Kernel, handles: Sequence[Data]) -> list[Data]:
        """The results of a kernel.

        Raises:
            RunError: the run fails.
        """
        try:
            arrays = None if kernel.fast_path is None else kernel.fast_path(handles)
            return kernel.run(handles) if arrays is None else arrays
        except RunError as error:
            raise with_user_line(error, asynchronous=not kernel.is_on_host) from None

    def _device_or_ranks(
        self, name: str, operands: Sequence[Any], operand_variables: Sequence[Variable]
    ) -> str | Ranks | None:
        """The device of the tensors among the operands, or the ranks of global operands; None for the host.

        Raises:
            RuntimeError: the tensors are on different devices or ranks.
        """
        inputs = self.registry[name].signature.inputs if name in self.registry else ()
        named = [(slot.name, v) for slot, x in zip(inputs, operands, strict=False) for v in flatten([x])]
        try:
            ranks = Ranks.of([v.handle for v in operand_variables])
            return ranks or common_device([(n, v.handle) for n, v in named if isinstance(v, Variable)])
        except ValueError as error:
            raise refuse(f"oneflow.{name}: {error}") from None

    def _as_values(self, operand: Any) -> Any:
        if isinstance(operand, Value) or operand is None:
            return operand
        if isinstance(operand, (tuple, list)):
            return tuple(v if isinstance(v, Value) else self.wrap(v) for v in operand)
        return self.wrap(operand)

    def _compile(
        self,
        name: str,
        slots: Sequence[Any],
        attrs: dict[str, Any],
        device_or_ranks: str | Ranks | None,
        in_place_operand: int | None,
    ) -> Kernel:
        if name not in self.registry:
            raise OperatorError(self.registry.unknown(name))
        entry = self.registry[name]
        named = self._named_operands(entry, slots)
        op = Call(entry, {k: describe(v) for k, v in named.items()}, attribute_values(entry, attrs))
        results = infer(entry, op)
        if isinstance(device_or_ranks, str):
            shared = self._dynamic_size_kernels.find(op, device(device_or_ranks), in_place_operand)
            if shared is not None:
                return Kernel(op, results, shared, CALLS_BEFORE_OWN_KERNEL)
        on = device_or_ranks if isinstance(device_or_ranks, Ranks) else device(device_or_ranks or "cpu")
        compiled = functools.partial(_compiled, op, results, on, in_place_operand)
        copy = copy_of_view(op, results[0], lambda: compiled().executable) if device_or_ranks is None else None
        return compiled() if copy is None else Kernel(op, results, copy)

    def _counted(self, key: Any, kernel: Kernel) -> Kernel:
        """A kernel for all sizes after one more call; the last of these calls uses a kernel for its sizes."""
        kernel.calls_left -= 1
        if kernel.calls_left:
            return kernel
        device_or_ranks, _, in_place_operand, *_ = key
        return self.kernels.add(key, _compiled(kernel.op, kernel.results, device(device_or_ranks), in_place_operand))

    def forget_device_kernels(self) -> None:
        """Drops the kernels of all devices, whose drivers may be closed."""
        self.kernels.keep(lambda key: key[0] is None)
        self._dynamic_size_kernels = DynamicSizeKernels()

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """The results of a checked call."""
        return list(self.call(op.record.name, *op.inputs.values(), **op.attrs))

    def binary(self, kind: str, a: Value, b: Value | Scalar) -> Value:
        """`a` and `b` combined; a number becomes a tensor, so that one kernel serves every number."""
        if not isinstance(b, Value) and a.dtype.bits != 16:
            b = self.wrap(np.asarray(b, a.dtype.numpy))
        return super().binary(kind, a, b)

    def wrap(self, value: Any) -> Variable:
        """An array as a variable that shares its memory, if the array is contiguous and in native byte order."""
        array = value if type(value) is np.ndarray else to_data(value)
        if isinstance(array, np.ndarray):
            if not (array.flags.c_contiguous and array.dtype.isnative):
                array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
            return Variable(self, array, desc_of(array.shape, array.dtype))
        return Variable(self, array, intern(TensorDesc(array.shape, array.dtype)))


def _compiled(op: Call, results: Sequence[TensorDesc], on: Device | Ranks, in_place_operand: int | None) -> Kernel:
    """The compiled kernel of a call.

    Raises:
        OneFlowError: the operator cannot be compiled.
    """
    try:
        return compile_call(op, results, on, in_place_operand)
    except PassError as error:
        raise fail(error.message) from None


def _check_versions(name: str, kernel: Kernel, variables: Sequence[Variable]) -> None:
    """Refuses operands whose elements the kernel reads, and that were updated in place after they were saved.

    Raises:
        RuntimeError: there is such an operand.
    """
    for index, variable in enumerate(variables):
        if variable.is_stale and kernel.reads(index):
            raise stale_value_error(name, variable)


def _type_key(slot: Any) -> Any:
    """The key for the types of an operand slot; descriptions are interned."""
    if type(slot) is tuple:
        return tuple([id(v.desc) for v in slot])
    return 0 if slot is None else id(slot.desc)


def stale_value_error(user: str, variable: Variable) -> RuntimeError:
    """The error for a value that is needed but was updated in place."""
    memory = variable.memory
    assert memory is not None
    whose = f"the gradient of {MODE.gradient_of}" if MODE.gradient_of else f"oneflow.{user}"
    return refuse(
        f"{whose} needs {variable.desc} as it was, but {memory.writer} has updated it in place since "
        f"(version {variable.version}, now {memory.version}); update a copy, or after backward"
    )
