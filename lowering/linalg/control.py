"""Loops and branches: operators of structured control flow become calls, their bodies are functions of the module.

    func.func private @oneflow_control_0(tensor<4xf32>, .., tensor<4xf32>) -> tensor<4xf32>
        attributes {oneflow.control = {form = "steps", functions = [@step], ..}}
    %0 = call @oneflow_control_0(%x, .., %e)

Operands come first, then a destination for each result that is used. The functions have the attribute `oneflow.body`;
kernels are formed in them as in an entry. The plan of the entry runs the plans of the bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.dialect.attributes import FUNCTION
from oneflow.dialect.body import Body
from oneflow.dialect.record import Call
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.declared_calls import DeclaredCalls, check_static
from oneflow.lowering.linalg.emit import Emitter, Value
from oneflow.passes.inline import functions_of

CONTROL = "oneflow.control"
BODY = "oneflow.body"
PREFIX = "oneflow_control_"

#: The fields of a control that are integers.
_INTEGERS = ("states", "sequences", "length", "outputs")


@dataclass(frozen=True)
class Control:
    """How a call runs its bodies.

    Attributes:
        form: one of `control.FORMS`.
        functions: the names of the bodies, in the order of the operator's attributes.
        states: how many of the first operands are states.
        sequences: how many operands after the states are sequences.
        length: the number of steps of a scan.
        outputs: the number of results of a body.
        reverse: whether a scan starts from the last element.
        results: the indices of the operator's results that are results of the call.
    """

    form: str
    functions: tuple[str, ...]
    states: int
    sequences: int
    length: int
    outputs: int
    reverse: bool
    results: tuple[int, ...]

    def write(self) -> ir.Attribute:
        """The attribute `oneflow.control`."""
        i64 = ir.IntegerType.get_signless(64)
        integers = {name: ir.IntegerAttr.get(i64, getattr(self, name)) for name in _INTEGERS}
        return ir.DictAttr.get(
            {
                "form": ir.StringAttr.get(self.form),
                "functions": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(name) for name in self.functions]),
                **integers,
                "reverse": ir.BoolAttr.get(self.reverse),
                "results": ir.DenseI64ArrayAttr.get(self.results),
            }
        )

    @classmethod
    def read(cls, attribute: ir.Attribute) -> Control:
        """The control of an attribute `oneflow.control`."""
        known = ir.DictAttr(attribute)
        states, sequences, length, outputs = (ir.IntegerAttr(known[name]).value for name in _INTEGERS)
        functions = tuple(ir.FlatSymbolRefAttr(a).value for a in ir.ArrayAttr(known["functions"]))
        results = tuple(ir.DenseI64ArrayAttr(known["results"]))
        form, reverse = ir.StringAttr(known["form"]).value, ir.BoolAttr(known["reverse"]).value
        return cls(form, functions, states, sequences, length, outputs, reverse, results)


class Controls:
    """Emits calls of operators of structured control flow into one module."""

    def __init__(self, module: ir.Module, emitter: Emitter) -> None:
        self.module, self.calls = module, DeclaredCalls(module, emitter, PREFIX, CONTROL)

    def call(
        self, op: ir.Operation, call: Call, operands: Sequence[Value], results: Sequence[TensorDesc]
    ) -> list[Value]:
        """The results of `op`. A result with the states before each step of a scan, if unused, is an empty tensor.

        Raises:
            OperatorError: a size is dynamic, in the call or in a body.
        """
        bodies = [call.attrs[a.name] for a in call.record.signature.attrs if a.kind is FUNCTION]
        descs = [d for body in bodies for d in (*body.inputs, *body.outputs)]
        check_static(op.name, "structured control flow", (*call.operands, *results, *descs))
        empty = self.calls.destinations(results)
        outputs = len(bodies[-1].outputs)
        used = [i for i, result in enumerate(op.results) if i < outputs or next(iter(result.uses), None) is not None]
        control = self._control(call, bodies, used)
        values = self.calls.call(operands, [empty[i] for i in used], control.write())
        values_by_result = dict(zip(used, values, strict=True))
        return [values_by_result.get(i, value) for i, value in enumerate(empty)]

    def _control(self, call: Call, bodies: Sequence[Body], used: Sequence[int]) -> Control:
        attrs = {"states": 0, "sequences": 0, "length": -1, "reverse": False, **call.attrs}
        length = attrs["length"]
        if length < 0 and attrs["sequences"]:
            length = call.xs[attrs["states"]].static_shape[0]
        functions = functions_of(self.module)
        for body in bodies:
            functions[body.symbol].attributes[BODY] = ir.UnitAttr.get()
        assert call.record.control is not None, call.record.name
        return Control(
            call.record.control, tuple(b.symbol for b in bodies), attrs["states"], attrs["sequences"], length,
            len(bodies[-1].outputs), attrs["reverse"], tuple(used),
        )  # fmt: skip
