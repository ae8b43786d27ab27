"""Gradient plans: the kernels by which the gradient of a recorded call is computed, without the rule of the gradient.

The rule of an operator's gradient depends on types and attributes alone, and the kernels that the rule calls depend
on the devices or ranks of arrays too. The first gradient of a call with a kernel records its plan, which the kernel
keeps; later gradients on the same devices or ranks run the kernels of the plan, with the same values to the bit.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.record import Call, flatten
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data, location_reader
from oneflow.frontend.eager.builder import EagerBuilder, stale_value_error
from oneflow.frontend.eager.kernels import Kernel
from oneflow.frontend.eager.tape import MODE, RecordedCall, Variable

#: Gradients of a call, which may be functions that compute these, with the indices of their operands.
Gradients: TypeAlias = list[tuple[int, Any]]
#: A kernel, the indices of its operands among the arrays of a plan, and the index of its first result.
Step: TypeAlias = tuple[Kernel, tuple[int, ...], int]


def planned_gradients(builder: EagerBuilder, op: Call, cotangents: Sequence[Any]) -> Gradients:
    """The gradients of a recorded call by a plan, where the call has plans and the gradients are not recorded."""
    plans: dict[Any, GradientPlan] | None = (
        op.kernel.plans if isinstance(op, RecordedCall) and op.kernel is not None else None
    )
    if plans is None or MODE.recording:
        return Builder.operand_gradients(builder, op, cotangents)
    key = op.wanted, op.maybe_nonfinite, *[_location_of(variable) for variable in (*op.operands, *cotangents)]
    plan = plans.get(key)
    kernels = None if plan is None else plan.kernels()
    if plan is not None and kernels is not None:
        return plan.run(builder, op, cotangents, kernels)
    plan, gradients = PlanRecorder(builder, op, cotangents).record()
    if plan is not None:
        plans[key] = plan
    return gradients


def _location_of(variable: Variable | None) -> Any:
    """Where the array of a variable is, for comparisons: kernels are compiled for a device or for ranks."""
    if variable is None:
        return ""
    read = None if type(variable.handle) is np.ndarray else location_reader(variable.handle)
    return None if read is None else read(variable.handle)


class GradientPlan:
    """The steps of a gradient. The arrays of a plan have indices: operands, results and cotangents of the call, then
    constants of the rule and results of steps, in the order of the recording.

    A plan refers to kernels weakly, since the cache of kernels alone bounds the memory of kernels. A gradient whose
    plan has lost a kernel follows the rule again.

    Attributes:
        steps: the kernels, in order, with the indices of their operands and of their first results.
        further: constants of the rule, and None in place of results of steps.
        reads: the indices of operands, results and cotangents of which a kernel reads elements.
        gradients: indices of operands among the operands, with the indices and types of their gradients.
        unused: for each step, the indices of arrays that no later step reads and that are no gradients.
    """

    __slots__ = ("further", "gradients", "reads", "steps", "unused")

    def __init__(
        self,
        steps: Sequence[Step],
        further: Sequence[Data | None],
        count: int,
        gradients: Sequence[tuple[int, int, TensorDesc]],
    ) -> None:
        self.steps = [(weakref.ref(kernel), operands, first) for kernel, operands, first in steps]
        self.further, self.gradients = further, gradients
        self.unused = _last_uses(steps, {*range(count), *(at for _, at, _ in gradients)})
        read = {n for kernel, operands, _ in steps for i, n in enumerate(operands) if kernel.reads(i)}
        self.reads = sorted(n for n in read if n < count)

    def kernels(self) -> list[Kernel] | None:
        """The kernels of the steps; None if a kernel is gone."""
        kernels = [kernel for reference, *_ in self.steps if (kernel := reference()) is not None]
        return kernels if len(kernels) == len(self.steps) else None

    def run(self, builder: EagerBuilder, op: Call, cotangents: Sequence[Any], kernels: Sequence[Kernel]) -> Gradients:
        """The gradients of a call, by the kernels of the steps.

        Raises:
            RuntimeError: a value that a kernel reads was updated in place.
        """
        variables = [*op.operands, *op.results, *cotangents]
        for index in self.reads:
            variable = variables[index]
            if variable.is_stale:
                raise stale_value_error(op.record.name, variable)
        arrays: list[Any] = [None if v is None else v.handle for v in variables]
        arrays += self.further
        for kernel, (_, indices, first), unused in zip(kernels, self.steps, self.unused, strict=True):
            arrays[first : first + len(kernel.results)] = builder.execute(kernel, [arrays[n] for n in indices])
            for index in unused:
                arrays[index] = None
        return [
            (index, variables[at] if at < len(variables) else Variable(builder, arrays[at], desc))
            for index, at, desc in self.gradients
        ]


def _last_uses(steps: Sequence[Step], kept: Container[int]) -> list[list[int]]:
    """For each step, the indices of the arrays that it makes or reads and no later step reads, without the kept."""
    uses = {
        index: at
        for at, (kernel, operands, first) in enumerate(steps)
        for index in (*operands, *range(first, first + len(kernel.results)))
        if index not in kept
    }
    return [[index for index, last in uses.items() if last == at] for at in range(len(steps))]


class PlanRecorder(EagerBuilder):
    """An eager builder that records the kernels of its calls as a plan.

    The rule computes on variables of the recorder, one for each operand, result and cotangent of a call, so that the
    plan is right for calls in which two of these are the same variable and for calls in which they are not.
    """

    def __init__(self, builder: EagerBuilder, op: Call, cotangents: Sequence[Any]) -> None:
        Builder.__init__(self, builder.registry)
        self.kernels, self._dynamic_size_kernels = builder.kernels, builder._dynamic_size_kernels
        self._builder, self._op = builder, op
        self._inputs = [*op.operands, *op.results, *cotangents]
        self._variables: list[Variable | None] = [None if v is None else self._own(v) for v in self._inputs]
        self._indices = {id(v): index for index, v in enumerate(self._variables) if v is not None}
        self._constants: dict[int, Data] = {}
        self._steps: list[Step] = []
        self._operands: Sequence[Variable] = ()

    def record(self) -> tuple[GradientPlan | None, Gradients]:
        """The plan, and the gradients of the call; no plan where its kernels or results are not to be used again."""
        rest = iter(self._variables)
        inputs = {name: _like(slot, rest) for name, slot in self._op.inputs.items()}
        outputs = {name: _like(slot, rest) for name, slot in self._op.outputs.items()}
        own = Call(self._op.record, inputs, self._op.attrs, outputs)
        own.wanted, own.maybe_nonfinite = self._op.wanted, self._op.maybe_nonfinite
        computed = []
        for index, gradient in Builder.operand_gradients(self, own, list(rest)):
            if own.wanted is None or index in own.wanted:
                value = gradient() if callable(gradient) else gradient
                if value is not None:
                    computed.append((index, self._index_of(value)))
        return self._plan(computed), [(index, self._original(at)) for index, at in computed]

    def run(
        self, name: str, slots: list[Any], attrs: dict[str, Any], in_place_operand: int | None = None
    ) -> tuple[Variable, ...]:
        """The results of an operator, whose kernel becomes a step of the plan."""
        self._operands = flatten(slots)
        results = super().run(name, slots, attrs, in_place_operand)
        for result in results:
            self._add(result)
        return results

    def execute(self, kernel: Kernel, handles: Sequence[Data]) -> list[Data]:
        """The results of a kernel, which becomes a step of the plan."""
        operands = tuple(map(self._index_of, self._operands))
        self._steps.append((kernel, operands, len(self._variables)))
        return super().execute(kernel, handles)

    def _own(self, variable: Variable) -> Variable:
        own = Variable(self, variable.handle, variable.desc)
        own.memory, own.version = variable.memory, variable.version
        return own

    def _add(self, variable: Variable) -> None:
        self._indices[id(variable)] = len(self._variables)
        self._variables.append(variable)

    def _index_of(self, value: Value) -> int:
        """The index of a variable; an unknown variable is a constant of the rule."""
        assert isinstance(value, Variable)
        if id(value) not in self._indices:
            self._constants[len(self._variables)] = value.handle
            self._add(value)
        return self._indices[id(value)]

    def _original(self, index: int) -> Variable:
        """A variable of the plan as a variable of the builder."""
        variable = self._inputs[index] if index < len(self._inputs) else self._variables[index]
        assert variable is not None
        return variable if index < len(self._inputs) else Variable(self._builder, variable.handle, variable.desc)

    def _plan(self, computed: Sequence[tuple[int, int]]) -> GradientPlan | None:
        is_reusable = all(kernel.is_static and not kernel.calls_left for kernel, *_ in self._steps)
        if not is_reusable or any(at in self._constants for _, at in computed):
            return None
        count = len(self._inputs)
        further = [self._constants.get(index) for index in range(count, len(self._variables))]
        gradients = [(index, at, self._original(at).desc) for index, at in computed]
        return GradientPlan(self._steps, further, count, gradients)


def _like(slot: Any, variables: Iterator[Any]) -> Any:
    """As many variables as a slot of a call has."""
    if isinstance(slot, tuple):
        return tuple(next(variables) for _ in slot)
    return None if slot is None else next(variables)
