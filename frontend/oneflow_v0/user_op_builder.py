"""Calls of operators in OneFlow's older form: `flow.user_op_builder`.

flow.user_op_builder("mine").Op("relu").Input("x", [x]).Output("y").Build().InferAndTryRun().SoleOutputBlob()
"""

# ruff: noqa: N802  the methods have OneFlow's names

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.dialect.record import REGISTRY, OperatorError, flatten, suggestion
from oneflow.dialect.signature import ArgDef
from oneflow.frontend.core.dispatch import as_tensor, dispatch_all
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.core.tensor import Tensor
from oneflow.runtime.user_ops.operations import count_attributes, find_operator, name_results


class UserOpConfBuilder:
    """Builds one call of an operator; every method but `Build` returns the builder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._op = ""
        self._renamed: dict[str, str] = {}
        self._inputs: dict[str, list[Tensor]] = {}
        self._sizes: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._attrs: dict[str, Any] = {}

    def Op(self, op_type_name: str) -> UserOpConfBuilder:
        """Sets the operator.

        Raises:
            CallError: no operator has this name.
        """
        try:
            record, self._renamed = find_operator(REGISTRY, op_type_name)
        except OperatorError as error:
            raise CallError(str(error)) from None
        self._op = record.name
        return self

    def Input(self, name: str, tensors: Sequence[Any]) -> UserOpConfBuilder:
        """Adds the tensors of an operand, as a list; further calls append to a variadic operand.

        Raises:
            CallError: the operator has no such operand, or accepts one tensor for this operand.
        """
        arg = self._arg(name, self._record.signature.inputs, "operand")
        if not isinstance(tensors, (list, tuple)):
            raise CallError(f"oneflow.{self._op}: expected a list of tensors for {name}, got {tensors!r}")
        all_tensors = [*self._inputs.get(name, ()), *tensors]
        if not arg.is_variadic and len(all_tensors) != 1:
            raise CallError(f"oneflow.{self._op}: expected 1 tensor for {name}, got {len(all_tensors)}")
        self._inputs[name] = [as_tensor(t) for t in all_tensors]
        return self

    def InputSize(self, name: str, size: int) -> UserOpConfBuilder:
        """Sets how many tensors an operand has to get; `Build` checks the number.

        Raises:
            CallError: the operator has no such operand.
        """
        self._arg(name, self._record.signature.inputs, "operand")
        self._sizes[name] = size
        return self

    def Output(self, name: str, num: int = 1) -> UserOpConfBuilder:
        """Requests a result, or `num` tensors of a repeated result.

        Raises:
            CallError: the operator has no such result, or fewer tensors of it, or the result was requested before.
        """
        if name in self._outputs:
            raise CallError(f"oneflow.{self._op}: expected Output({name!r}) once, got it twice")
        self._outputs[name] = num
        name = self._renamed.get(name, name)
        self._arg(name, self._record.signature.outputs, "result")
        try:
            self._attrs |= count_attributes(self._record, {name: num})
        except OperatorError as error:
            raise CallError(str(error)) from None
        return self

    def Attr(self, name: str, value: Any, attr_type_name: str | None = None) -> UserOpConfBuilder:
        """Sets an attribute, of the kind that the operator declares."""
        self._attrs[name] = value
        return self

    def OpName(self, name: str) -> UserOpConfBuilder:
        """Sets the name of the call."""
        self.name = name
        return self

    def CheckAndComplete(self) -> UserOpConfBuilder:
        """Checks the call in its current state.

        Raises:
            CallError: no operator is set, or an operand has not as many tensors as `InputSize` says.
        """
        for name, size in self._sizes.items():
            count = len(self._inputs.get(name, []))
            if count != size:
                raise CallError(f"oneflow.{self._record.name}: expected {size} tensors for {name}, got {count}")
        return self

    def Build(self) -> UserOp:
        """The call, ready to run.

        Raises:
            CallError: see `CheckAndComplete`.
        """
        self.CheckAndComplete()
        slots = []
        for arg in self._record.signature.inputs:
            tensors = self._inputs.get(arg.name, [])
            slots.append(tensors if arg.is_variadic else tensors[0] if tensors else None)
        while slots and slots[-1] is None:
            slots.pop()
        return UserOp(self._op, slots, self._attrs, self._outputs, self._renamed)

    @property
    def _record(self) -> Any:
        if not self._op:
            raise CallError(f"user_op_builder({self.name!r}): expected Op(..) before Input, Output and Build")
        return REGISTRY[self._op]

    def _arg(self, name: str, args: Sequence[ArgDef], what: str) -> ArgDef:
        arg = next((a for a in args if a.name == name), None)
        if arg is None:
            advice = suggestion(name, [a.name for a in args])
            raise CallError(f"oneflow.{self._op} has no {what} {name!r}{advice}")
        return arg


class UserOp:
    """A call of an operator: `InferAndTryRun` runs the call, the other methods return its results."""

    def __init__(
        self, op: str, operands: list[Any], attrs: dict[str, Any], outputs: dict[str, int], renamed: dict[str, str]
    ) -> None:
        self._op, self._operands, self._attrs = op, operands, attrs
        self._outputs, self._renamed = outputs, renamed
        self._results: tuple[Tensor, ...] | None = None

    def InferAndTryRun(self) -> UserOp:
        """Runs the call.

        Raises:
            OneFlowError: the operator does not allow the call.
        """
        self._results = dispatch_all(self._op, *self._operands, **self._attrs)
        return self

    def RemoteBlobList(self) -> list[Tensor]:
        """All results."""
        if self._results is None:
            raise CallError(f"oneflow.{self._op}: expected InferAndTryRun() before its results")
        return list(self._results)

    def RemoteBlobDict(self) -> dict[str, list[Tensor]]:
        """The results by name, a list of tensors for each."""
        older = {current: name for name, current in self._renamed.items()}
        counts = {self._renamed.get(name, name): size for name, size in self._outputs.items()}
        named = name_results(REGISTRY[self._op], self.RemoteBlobList(), counts)
        return {older.get(name, name): flatten([group]) for name, group in named.items()}

    def SoleOutputBlob(self) -> Tensor:
        """The only result.

        Raises:
            CallError: the call has several results.
        """
        results = self.RemoteBlobList()
        if len(results) != 1:
            raise CallError(f"oneflow.{self._op}: expected one result, got {len(results)}; use RemoteBlobList()")
        return results[0]


def user_op_builder(name: str) -> UserOpConfBuilder:
    """A builder of one call of an operator; `name` is the name of the call."""
    return UserOpConfBuilder(name)
