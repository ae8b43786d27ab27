"""Programs in OneFlow's syntax: a job with inputs, variables, operators in generic form, and outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.attributes import AttrValue
from oneflow.dialect.reader import file_line_column
from oneflow.dialect.tensor_desc import from_mlir
from oneflow.frontend.importers.saved.variables import SavedError
from oneflow.passes.constants import read_dense

_INTEGER = re.compile(r"(?<=[x<])i(1|8|16|32|64)>")
#: OneFlow's field for numbers of an attribute, by the kind of the attribute or of its elements.
_SUFFIXES = {"int32": "si32", "int64": "si64", "shape": "si64", "float": "f32", "double": "f64"}


def write_job(entry: ir.Operation, name: str, variables: Sequence[str]) -> tuple[str, dict[str, np.ndarray]]:
    """The text of a function as a job, and the arrays of its constants, which are variables of the job.

    Args:
        entry: a function whose last arguments are the variables of these names.
        name: the name of the job.
        variables: names; names of constants begin with `constant`.

    Raises:
        SavedError: an operation is no operator of the dialect.
    """
    writer = _Writer(name)
    arguments = list(entry.regions[0].blocks[0].arguments)
    count = len(arguments) - len(variables)
    operands = []
    for number, argument in enumerate(arguments[:count]):
        writer.names[argument] = f"%arg{number}"
        operands.append(f"%arg{number}: {_type(argument)}")
        writer.source("input", f"{name}-input_{number}", argument, [argument])
    for argument, variable in zip(arguments[count:], variables, strict=True):
        writer.source("variable", variable, argument, [])
    for op in entry.regions[0].blocks[0].operations:
        writer.operation(op.operation)
    kinds = ", ".join(map(_type, writer.results))
    head = f"  oneflow.job @{name}({', '.join(operands)}) -> ({kinds}) {{"
    return "\n".join(["module {", head, *writer.lines, "  }", "}", ""]), writer.constants


class _Writer:
    """Writes the lines of one job; `names` has the names of values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.names: dict[ir.Value, str] = {}
        self.lines: list[str] = []
        self.constants: dict[str, np.ndarray] = {}
        self.results: list[ir.Value] = []

    def operation(self, op: ir.Operation) -> None:
        """Writes one operation."""
        if op.name == "func.return":
            self._return(list(op.operands))
        elif op.name == dialect.CAST:
            self.names[op.results[0]] = self.names[op.operands[0]]
        elif op.name == "arith.constant" and (array := read_dense(op)) is not None:
            name = f"constant_{len(self.constants)}"
            self.constants[name] = array
            self.source("variable", name, op.results[0], [])
        elif dialect.is_oneflow(op) and not len(op.regions):
            self._operator(op)
        else:
            at = file_line_column(op.location)
            raise SavedError(f"expected operators of the dialect oneflow, got {op.name} at {at}")

    def source(self, kind: str, name: str, value: ir.Value, operands: Sequence[ir.Value]) -> None:
        """Writes an input, a variable or an output, which has the type of `value` and is its name from here on."""
        desc = from_mlir(value.type)
        if desc is None or desc.dtype not in dtypes.DTYPES or not desc.is_static:
            raise SavedError(f"expected tensors of known sizes, got {value.type}")
        attributes = {
            "data_type": f"{desc.dtype.code} : i32",
            "is_dynamic": "false",
            "nd_sbp": '["B"]',
            "output_lbns": f"[{json.dumps(f'{name}/out')}]",
            "shape": _list([f"{size} : si64" for size in desc.static_shape]),
        }
        if kind == "variable":
            del attributes["is_dynamic"], attributes["nd_sbp"]
            attributes["parallel"] = "#sbp.parallel<[] -> [[#sbp.B]]>"
        named = [self.names[v] for v in operands], [_type(v) for v in operands]
        (self.names[value],) = self._line(kind, name, attributes, *named, [_type(value)])

    def _operator(self, op: ir.Operation) -> None:
        record = dialect.record_of(op)
        values = dialect.read_attributes(op, record)
        attributes = {a.name: _attribute_text(a.kind.name, values[a.name]) for a in record.signature.attrs}
        for spelling, other in (dialect.OPERAND_SEGMENTS, dialect.RESULT_SEGMENTS):
            sizes = dialect.segments(op.attributes, [spelling])
            if sizes is not None:
                attributes[other] = f"array<i32: {', '.join(map(str, sizes))}>"
        operands = [_origin(v) for v in op.operands]
        named = [self.names[v] for v in operands], [_type(v) for v in operands]
        name = f"{self.name}-{record.name}_{len(self.lines)}"
        results = self._line(record.name, name, attributes, *named, [_type(v) for v in op.results])
        self.names.update(zip(op.results, results, strict=True))

    def _return(self, values: list[ir.Value]) -> None:
        self.results = [_origin(v) for v in values]
        for number, value in enumerate(self.results):
            operand = self.names[value]
            self.source("output", f"{self.name}-output_{number}", value, [value])
            values[number], self.names[value] = self.names[value], operand
        kinds = ", ".join(map(_type, self.results))
        self.lines.append(f"    oneflow.return {', '.join(values)} : {kinds}" if values else "    oneflow.return")

    def _line(
        self,
        kind: str,
        name: str,
        attributes: Mapping[str, str],
        operands: Sequence[str],
        operand_types: Sequence[str],
        result_types: Sequence[str],
    ) -> list[str]:
        """Writes an operation; the names of its results."""
        where = {"device_name": '["@0:0"]', "device_tag": '"cpu"', "hierarchy": "[1]", "op_name": json.dumps(name)}
        listed = ", ".join(f"{key} = {text}" for key, text in sorted({**attributes, **where}.items()))
        results = [f"%v{len(self.lines)}_{i}" for i in range(len(result_types))]
        left = f"{', '.join(results)} = " if results else ""
        kinds = f"({', '.join(operand_types)}) -> ({', '.join(result_types)})"
        self.lines.append(f'    {left}"oneflow.{kind}"({", ".join(operands)}) {{{listed}}} : {kinds}')
        return results


def _origin(value: ir.Value) -> ir.Value:
    """The source of the casts of a value."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == dialect.CAST:
        value = value.owner.operands[0]
    return value


def _type(value: ir.Value) -> str:
    """A type in OneFlow's syntax: integers are signed, and bools are integers of 8 bits without a sign."""
    return _INTEGER.sub(lambda m: "i8>" if m[1] == "1" else f"si{m[1]}>", str(value.type))


def _list(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"


def _attribute_text(kind: str, value: AttrValue) -> str:
    """A value of an attribute of a kind in OneFlow's syntax."""
    if isinstance(value, tuple):
        inner = "shape" if kind == "list_shape" else "string" if kind == "nd_sbp" else kind.removeprefix("list_")
        return _list([_attribute_text(inner, v if inner != "string" else str(v)) for v in value])
    if isinstance(value, dtypes.DType):
        return f"{value.code} : i32"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    return _number(value, _SUFFIXES[kind])


def _number(value: Any, suffix: str) -> str:
    if suffix.startswith("s"):
        return f"{value} : {suffix}"
    with ir.Context(), ir.Location.unknown():
        return str(ir.FloatAttr.get(ir.Type.parse(suffix), value))
