"""Declarations of structured control flow: their attributes, checked against the functions that are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

from oneflow.dialect._mlir import ir
from oneflow.lowering.linalg.control import BODY, CONTROL, Control
from oneflow.passes.base import PassError
from oneflow.passes.inline import functions_of

Types = list[ir.Type]


def read_controls(module: ir.Module) -> dict[str, Control]:
    """The control of each declaration of a module, by the function's name, in order.

    Raises:
        PassError: a declaration lacks a field, or does not agree with its bodies.
    """
    functions = functions_of(module)
    return {name: _read_control(f, functions) for name, f in functions.items() if CONTROL in f.attributes}


def _read_control(declaration: ir.Operation, functions: Mapping[str, ir.Operation]) -> Control:
    attribute = declaration.attributes[CONTROL]
    try:
        control = Control.read(attribute)
    except (KeyError, ValueError):
        what = f"{CONTROL} to have the fields {', '.join(f.name for f in fields(Control))}"
        raise PassError(f"expected {what}, got {attribute}", declaration.location) from None
    for name in control.functions:
        if name not in functions or BODY not in functions[name].attributes:
            what = f"functions with the attribute {BODY} as bodies"
            raise PassError(f"expected {what}, got @{name}", declaration.location)
    with declaration.location:
        types = _declared_type(control, [_type_of(functions[name]) for name in control.functions])
    if types is None:
        what = f"{CONTROL} to have functions, states, sequences, outputs and results of the form {control.form}"
        raise PassError(f"expected {what} that agree, got {attribute}", declaration.location)
    if _type_of(declaration) != types:
        raise PassError(f"expected the type {types}, got {_type_of(declaration)}", declaration.location)
    return control


def _declared_type(control: Control, bodies: Sequence[ir.FunctionType]) -> ir.FunctionType | None:
    """The type of the declaration of a control with bodies of these types; None where fields do not agree."""
    is_ranked = all(isinstance(t, ir.RankedTensorType) for body in bodies for t in (*body.inputs, *body.results))
    if control.form not in _SIGNATURES or not bodies or not is_ranked or control.outputs != len(bodies[-1].results):
        return None
    signature = _SIGNATURES[control.form](control, bodies)
    if signature is None:
        return None
    (arguments, results), indices = signature, list(control.results)
    if indices != sorted({*range(control.outputs), *indices}) or indices[-1:] >= [len(results)]:
        return None
    kept = [results[i] for i in indices]
    return ir.FunctionType.get([*arguments, *kept], kept)


#: The types of the operands and results of a call; None where fields of the control do not agree.
Signature = tuple[Types, Types] | None


def _steps(control: Control, bodies: Sequence[ir.FunctionType]) -> Signature:
    inputs, outputs, first = list(bodies[-1].inputs), list(bodies[-1].results), control.states
    last = first + control.sequences
    is_valid = len(bodies) == 1 and 0 <= first <= last <= len(inputs) and control.length >= 0
    if not is_valid or inputs[:first] != outputs[:first]:
        return None
    stacked = [_stacked(t, control.length) for t in (*inputs[first:last], *outputs[first:], *inputs[:first])]
    count = control.sequences
    return [*inputs[:first], *stacked[:count], *inputs[last:]], [*outputs[:first], *stacked[count:]]


def _while(control: Control, bodies: Sequence[ir.FunctionType]) -> Signature:
    inputs, outputs = list(bodies[-1].inputs), list(bodies[-1].results)
    condition = ir.FunctionType.get(inputs, [_predicate()])
    is_valid = list(bodies[:-1]) == [condition] and control.states == len(outputs)
    return (inputs, outputs) if is_valid and inputs[: control.states] == outputs else None


def _branch(control: Control, bodies: Sequence[ir.FunctionType]) -> Signature:
    is_valid = len(bodies) == 2 and bodies[0] == bodies[1] and control.states == 0
    return ([_predicate(), *bodies[-1].inputs], list(bodies[-1].results)) if is_valid else None


_SIGNATURES: Mapping[str, Callable[[Control, Sequence[ir.FunctionType]], Signature]] = {
    "steps": _steps,
    "while": _while,
    "branch": _branch,
}


def _stacked(kind: ir.Type, length: int) -> ir.Type:
    """The type of `length` tensors in one."""
    tensor = ir.RankedTensorType(kind)
    return ir.RankedTensorType.get([length, *tensor.shape], tensor.element_type)


def _predicate() -> ir.Type:
    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))


def _type_of(function: ir.Operation) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def bodies_in_order(module: ir.Module) -> list[str]:
    """The functions that are bodies, each after the bodies that it runs.

    Raises:
        PassError: a body runs itself, or a declaration and its bodies do not agree.
    """
    functions, controls = functions_of(module), read_controls(module)
    order: dict[str, None] = {}

    def visit(name: str, outer: tuple[str, ...]) -> None:
        if name in outer:
            path = " -> ".join((*outer, name))
            raise PassError(f"expected bodies that do not run themselves, got {path}", functions[name].location)
        if name not in order:
            for callee in _callees(functions[name]):
                for inner in controls[callee].functions if callee in controls else ():
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
