"""Calls of operators of structured control flow, whose bodies are functions of the module.

    func.func private @oneflow_control_0(tensor<4xf32>, .., tensor<4xf32>) -> tensor<4xf32>
        attributes {oneflow.control = {form = "steps", functions = [@step], ..}}
    %0 = call @oneflow_control_0(%x, .., %e)

Operands come first, then a destination for each result that is used. The functions have the attribute `oneflow.body`;
kernels are formed in them as in an entry. The plan of the entry runs the plans of the bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from oneflow.dialect._mlir import ir
from oneflow.dialect.attributes import FUNCTION
from oneflow.dialect.body import Body
from oneflow.dialect.record import Call
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.declared_calls import DeclaredCalls, check_static
from oneflow.lowering.linalg.emit import Emitter, Value
from oneflow.passes.base import PassError
from oneflow.passes.inline import functions_of

CONTROL = "oneflow.control"
BODY = "oneflow.body"
PREFIX = "oneflow_control_"

#: The fields of a control that are numbers.
_NUMBERS = ("states", "sequences", "length", "outputs")


@dataclass(frozen=True)
class Control:
    """How a call runs its bodies.

    Attributes:
        form: one of `control.FORMS`.
        functions: the names of the bodies, in the order of the operator's attributes.
        states, sequences: the numbers of the first operands that are states, and of those after them that are
            sequences.
        length: the number of steps of a scan.
        outputs: the number of results of a body.
        reverse: whether a scan starts from the last element.
        results: the numbers of the operator's results that are results of the call.
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
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return ir.DictAttr.get(
            {
                "form": ir.StringAttr.get(self.form),
                "functions": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(name) for name in self.functions]),
                **{name: ir.IntegerAttr.get(i64, number) for name, number in numbers.items()},
                "reverse": ir.BoolAttr.get(self.reverse),
                "results": ir.DenseI64ArrayAttr.get(self.results),
            }
        )

    @classmethod
    def read(cls, attribute: ir.Attribute) -> Control:
        """The control of an attribute `oneflow.control`."""
        known = ir.DictAttr(attribute)
        states, sequences, length, outputs = (ir.IntegerAttr(known[name]).value for name in _NUMBERS)
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
        """The results of `op`; states before the steps of a scan that have no users are empty tensors.

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


def read_controls(module: ir.Module) -> dict[str, Control]:
    """The control of each declaration of a module, by the function's name, in order."""
    functions = functions_of(module)
    return {name: _read_control(f) for name, f in functions.items() if CONTROL in f.attributes}


def _read_control(function: ir.Operation) -> Control:
    """The control of a declaration.

    Raises:
        PassError: the attribute lacks a field, or a field is of another kind.
    """
    attribute = function.attributes[CONTROL]
    try:
        return Control.read(attribute)
    except (KeyError, ValueError):
        raise PassError(
            f"expected {CONTROL} to have the fields {', '.join(f.name for f in fields(Control))}, got {attribute}",
            function.location,
        ) from None


def bodies_in_order(module: ir.Module) -> list[str]:
    """The functions that are bodies, each after the bodies that it runs.

    Raises:
        PassError: a body runs itself, or a function that is run is no body.
    """
    functions, controls = functions_of(module), read_controls(module)
    order: dict[str, None] = {}

    def check_body(name: str, declaration: ir.Operation) -> None:
        if name not in functions or BODY not in functions[name].attributes:
            raise PassError(
                f"expected functions with the attribute {BODY} as bodies, got @{name}", declaration.location
            )

    def visit(name: str, outer: tuple[str, ...]) -> None:
        if name in outer:
            path = " -> ".join((*outer, name))
            raise PassError(f"expected bodies that do not run themselves, got {path}", functions[name].location)
        if name not in order:
            for callee in _callees(functions[name]):
                for inner in controls[callee].functions if callee in controls else ():
                    check_body(inner, functions[callee])
                    visit(inner, (*outer, name))
            order[name] = None

    for name, function in functions.items():
        if BODY in function.attributes:
            visit(name, ())
    return list(order)


def _callees(function: ir.Operation) -> list[str]:
    """The functions that an entry or a body calls."""
    calls = (o.operation for o in function.regions[0].blocks[0].operations if o.operation.name == "func.call")
    return [ir.FlatSymbolRefAttr(op.attributes["callee"]).value for op in calls]
