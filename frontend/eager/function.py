"""User-defined gradients (custom VJP): `flow.autograd.Function`.

    class Double(flow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            return dy * 2

    Double.apply(x)

A call is recorded as one operator whose gradient slot calls `backward`, in a trace too. Moving a tensor to another
device is such a function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from oneflow.dialect.builder import Value
from oneflow.dialect.elementwise import sum_to
from oneflow.dialect.record import Call, Operator, no_reference, no_sbp
from oneflow.dialect.record import no_grad as no_gradient
from oneflow.dialect.signature import parse_signature
from oneflow.frontend.core.arrays import device_name
from oneflow.frontend.core.devices import Device, device, move
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.gradient_reads import SAVES_NOTHING
from oneflow.frontend.core.promotion import accepts_gradient
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.saved_tensors import Packed, linked, resolved
from oneflow.frontend.eager.tape import MODE, Variable, no_grad, record
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor

OPERANDS, RESULTS = "x", "y"
SIGNATURE = parse_signature(f"function({OPERANDS}*) -> {RESULTS}*")


#: The operator in place of a `backward` that can be differentiated only once.
_ONCE_DIFFERENTIABLE = Operator(
    SIGNATURE, "A backward part that is differentiable once.", lambda op: (), no_sbp("is Python"),
    no_gradient("its backward is once_differentiable"), no_reference("is Python"),
)  # fmt: skip


class Context:
    """The context that `forward` passes to `backward`; users may set other attributes."""

    def __init__(self, name: str, needs: Sequence[bool]) -> None:
        self.needs_input_grad = tuple(needs)
        self.materializes_grads = True
        self.non_differentiable: tuple[Any, ...] = ()
        self.dirty: tuple[Any, ...] = ()
        self._name = name
        self._saved: tuple[tuple[Any, Any], ...] = ()
        self._packed: tuple[Packed | None, ...] = ()
        self._result_numbers: tuple[int | None, ...] = ()
        self._results: tuple[Any, ...] = ()

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` receives zeros (the default) or None for results without a gradient."""
        self.materializes_grads = value

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Declares results that have no gradient."""
        self.non_differentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Declares arguments that are updated in place and are results too."""
        self.dirty = tensors

    def save_for_backward(self, *tensors: Any) -> None:
        """Saves tensors; `saved_tensors` detects updates in place of these tensors."""
        self._saved = tuple(_saved_value(t) for t in tensors)
        self._result_numbers = (None,) * len(tensors)

    def link_results(self, args: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Records which saved tensors are results: their gradients flow through the function itself."""
        fixed = [a for a in args if not _is_in(self.dirty, a)]
        positions = {id(t): i for i, t in enumerate(outputs) if not _is_in(fixed, t)}
        self._result_numbers = tuple(
            None if v is None or v.is_stale else positions.get(id(t)) for v, t in self._saved
        )
        hooks = MODE.saved_hooks
        if hooks is not None:
            self._packed = tuple(None if v is None else Packed(hooks, v) for v, _ in self._saved)
            self._saved = tuple((None, t) if v is None else (linked(v), None) for v, t in self._saved)

    @contextmanager
    def with_results(self, results: Sequence[Any]) -> Iterator[None]:
        """A context in which the variables of the results are known, which saved results refer to."""
        self._results = tuple(results)
        try:
            yield
        finally:
            self._results = ()

    @property
    def saves_tensors(self) -> bool:
        """Whether `forward` has saved tensors, which the first backward pass frees."""
        return bool(self._saved)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that were kept.

        Raises:
            RuntimeError: one was updated in place since.
        """
        variables = [
            self._recorded_variable(resolved(v), n)
            for (v, _), n in zip(self._saved, self._result_numbers, strict=True)
        ]
        if self._packed:
            variables = [
                v if v is None or p is None else p.restored(v) for v, p in zip(variables, self._packed, strict=True)
            ]
        for variable in variables:
            if variable is not None and variable.is_stale:
                assert variable.memory is not None
                raise refuse(
                    f"the gradient of {self._name} needs {variable.desc} as it was, but {variable.memory.writer} has "
                    f"updated it in place since (version {variable.version}, now {variable.memory.version})"
                )
        return tuple(t if v is None else EagerTensor(v) for v, (_, t) in zip(variables, self._saved, strict=True))

    def link_traced_results(self, outputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Replaces outputs among the saved tensors by the results of the recorded call."""
        instead = {id(t): r for t, r in zip(outputs, results, strict=True)}
        self._saved = tuple((None, instead.get(id(t), t)) for _, t in self._saved)

    def _recorded_variable(self, variable: Variable | None, position: int | None) -> Variable | None:
        """A saved variable, or the corresponding result of the recorded call."""
        return variable if position is None or not self._results else self._results[position]


class Function:
    """A function with a user-defined gradient: static methods `forward(ctx, *args)` and `backward(ctx, *grads)`,
    called by `apply`.

    With a static method `setup_context(ctx, inputs, output)`, `forward` takes no `ctx`. `backward` receives the
    gradient of each result: zeros where a result has none (None after `ctx.set_materialize_grads(False)`), and None
    for a result that is no tensor. `backward` returns the gradient by each argument, None for an argument that is no
    tensor.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """The results: a tensor, or a tuple of tensors and other values."""
        raise NotImplementedError("expected a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients by the arguments."""
        raise NotImplementedError("expected a static method backward(ctx, *grads)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves the operands of `backward`, where `forward` takes no `ctx`."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls the function.

        Raises:
            RuntimeError: the function updates a leaf that requires grad.
            TraceError: in a traced function, the function updates arguments, or is part of a checkpoint.
        """
        if not current_builder().eager:
            return cls._traced(current_builder(), args)
        tensors = [a for a in args if isinstance(a, EagerTensor)]
        ctx = Context(cls.__name__, [isinstance(a, EagerTensor) and a.requires_grad for a in args])
        before = [t.variable for t in tensors]
        with no_grad():
            returned = cls._forward(ctx, args)
        outputs = cls._tensors(returned)
        ctx.link_results(args, outputs)
        results = [BUILDER.read(t).alias() for t in outputs]
        slot = cls._operator(ctx, args, returned)
        if MODE.recording:
            operands = [cls._read(ctx, t, v) for t, v in zip(tensors, before, strict=True)]
            record(slot, {OPERANDS: tuple(operands)}, {}, results)
        return _with_tensors(returned, [_result_tensor(ctx, t, v) for t, v in zip(outputs, results, strict=True)])

    @classmethod
    def _traced(cls, builder: Any, args: tuple[Any, ...]) -> Any:
        """A call in a traced function: `backward` is called when the gradient is built."""
        if builder.in_checkpoint:
            raise fail(
                f"{cls.__name__}: expected no autograd.Function within flow.checkpoint; call the function outside"
            )
        tensors = [a for a in args if isinstance(a, Tensor)]
        operands = tuple(map(builder.read, tensors))
        ctx = Context(cls.__name__, [isinstance(a, Tensor) and a.dtype.is_inexact for a in args])
        with no_grad():
            returned = cls._forward(ctx, args)
        if ctx.dirty:
            raise fail(f"{cls.__name__}: mark_dirty is for eager mode; return a new tensor")
        outputs = cls._tensors(returned)
        results = tuple(builder.renamed(t) for t in outputs)
        ctx.link_traced_results(outputs, results)
        slot = cls._operator(ctx, args, returned)
        builder.record_entry(Call(slot, {OPERANDS: operands}, {}, {RESULTS: results}))
        return _with_tensors(
            returned, [t if _is_in(ctx.non_differentiable, t) else r for t, r in zip(outputs, results, strict=True)]
        )

    @classmethod
    def _tensors(cls, returned: Any) -> list[Any]:
        """The tensors among the results."""
        tensors = [t for t in _results(returned) if isinstance(t, Tensor)]
        if not tensors:
            raise fail(
                f"{cls.__name__}: expected forward to return a tensor or a tuple with tensors, got {returned!r}"
            )
        return tensors

    @classmethod
    def _forward(cls, ctx: Context, args: tuple[Any, ...]) -> Any:
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args)
        returned = cls.forward(*args)
        cls.setup_context(ctx, args, returned)
        return returned

    @classmethod
    def _read(cls, ctx: Context, tensor: EagerTensor, before: Variable) -> Variable:
        """An argument for the gradient: its value before the function updated the argument."""
        if not _is_in(ctx.dirty, tensor):
            return tensor.variable
        if before.leaf is not None and before.node is None:
            raise refuse(f"{cls.__name__} updates a leaf that requires grad; do that within flow.no_grad()")
        return before

    @classmethod
    def _operator(cls, ctx: Context, args: tuple[Any, ...], outputs: Any) -> Operator:
        """The operator record of one call; its gradient slot calls `backward`."""
        argument_positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        positions = [i for i, t in enumerate(_results(outputs)) if isinstance(t, Tensor)]
        wanted = [None] * len(_results(outputs))

        def grad(ops: Any, op: Call, *cotangents: Value | None) -> dict[str, Any]:
            result_gradients: list[Tensor | None] = list(wanted)
            for position, result, cotangent in zip(positions, op.results, cotangents, strict=True):
                if cotangent is not None or ctx.materializes_grads:
                    result_gradients[position] = _materialized(ops, result, cotangent)
            with ctx.with_results(op.results):
                grads = cls.backward(ctx, *result_gradients)
            argument_gradients = _results(grads)
            if len(argument_gradients) < len(args) or any(g is not None for g in argument_gradients[len(args) :]):
                raise refuse(
                    f"expected backward of {cls.__name__} to give {len(args)} gradients, "
                    f"got {len(argument_gradients)}"
                )
            return {
                OPERANDS: tuple(
                    _fitted(ops, argument_gradients[i], x)
                    for i, x in zip(argument_positions, op.operands, strict=True)
                )
            }

        missing = no_sbp("is Python"), no_reference("is Python")
        traits = frozenset(() if ctx.saves_tensors else (SAVES_NOTHING,))
        return Operator(SIGNATURE, cls.__doc__ or "", lambda op: (), missing[0], grad, missing[1], traits=traits)


def _results(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


def _with_tensors(returned: Any, tensors: Sequence[Any]) -> Any:
    """The results of a function with other tensors in place of the function's tensors."""
    remaining = iter(tensors)
    replaced = tuple(next(remaining) if isinstance(t, Tensor) else t for t in _results(returned))
    return replaced if isinstance(returned, tuple) else replaced[0]


def _fitted(ops: Any, grad: Any, operand: Value) -> Value | None:
    """A gradient with the element type of `operand`, summed over the dimensions that broadcasting may have added."""
    value = _read(ops, grad)
    if value is None:
        return None
    if accepts_gradient(operand.dtype, value.dtype) and value.dtype != operand.dtype:
        value = ops.call("cast", value, dtype=operand.dtype)[0]
    sizes = zip(reversed(operand.shape), reversed(value.shape), strict=False)
    wider = operand.rank <= value.rank and all(d in (1, n) for d, n in sizes)
    return sum_to(ops, value, operand) if wider else value


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of `backward`: no call in `backward` is recorded, and a gradient of its results is an error."""

    @functools.wraps(backward)
    def function(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            returned = backward(ctx, *grads)
        builder: Any = current_builder()
        gradients = returned if isinstance(returned, tuple) else (returned,)
        inputs, results = ([builder.read(g) for g in gs if isinstance(g, Tensor)] for gs in (grads, gradients))
        if not builder.eager:
            builder.record_entry(Call(_ONCE_DIFFERENTIABLE, {OPERANDS: tuple(inputs)}, {}, {RESULTS: tuple(results)}))
        elif MODE.recording:
            record(_ONCE_DIFFERENTIABLE, {OPERANDS: tuple(inputs)}, {}, results)
        return returned

    return function


class Move(Function):
    """The copy of a tensor on another device; the gradient is copied back."""

    @staticmethod
    def forward(ctx: Any, x: EagerTensor, target: Device) -> EagerTensor:
        """The copy."""
        ctx.source = x.device
        return EagerTensor(BUILDER.wrap(move(x.storage, target)))

    @staticmethod
    def backward(ctx: Any, grad: EagerTensor) -> Any:
        """The gradient, moved back."""
        return Move.apply(grad, ctx.source), None


def to_device(self: EagerTensor, target: str | Device) -> EagerTensor:
    """The tensor itself if the tensor is on that device, else a copy there, through which gradients flow.

    Raises:
        CudaError: the device does not exist.
        ValueError: that is no device.
    """
    wanted = device(target)
    moved: EagerTensor = self if self.device == wanted else Move.apply(self, wanted)
    return moved


def _is_in(tensors: Sequence[Any], tensor: Any) -> bool:
    return any(t is tensor for t in tensors)


def _result_tensor(ctx: Context, tensor: EagerTensor, result: Variable) -> EagerTensor:
    """A result as a tensor: the argument itself, if that was updated."""
    if _is_in(ctx.non_differentiable, tensor):
        result.node = None
    if not _is_in(ctx.dirty, tensor):
        return EagerTensor(result)
    tensor.handle = result
    return tensor


def _saved_value(value: Any) -> tuple[Variable | None, Any]:
    """A tensor of `save_for_backward`: the tensor with its variable; in a trace, its current value."""
    builder: Any = current_builder()
    if not isinstance(value, Tensor):
        return None, value
    return (builder.read(value), value) if builder.eager else (None, builder.to_tensor(builder.read(value)))


def _materialized(ops: Any, result: Any, cotangent: Value | None) -> Tensor:
    """The gradient of a result, zeros where the result has none."""
    if cotangent is not None:
        tensor: Tensor = ops.to_tensor(cotangent)
        return tensor
    return zeros_of(result) if ops.eager else ops.to_tensor(ops.call("zero_like", result)[0])


def zeros_of(variable: Variable) -> EagerTensor:
    """Zeros of the type of a variable, on its device."""
    zeros = np.zeros([d or 0 for d in variable.desc.shape or ()], variable.desc.dtype.numpy)
    return EagerTensor(BUILDER.wrap(move(zeros, device(device_name(variable.handle)))))


def _read(ops: Any, grad: Any) -> Value | None:
    return None if grad is None else ops.read(grad) if isinstance(grad, Tensor) else ops.wrap(grad)
