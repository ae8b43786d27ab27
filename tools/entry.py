"""Entry points of a program: their arguments and results by name, and matching arrays to them.

An argument has the name of its attribute `oneflow.name`, else the name in the text of the program (`x` for `%x`).
`arg<n>` is always a name of argument n. A result has the name of its attribute, else `out<n>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType
from oneflow.dialect.reader import file_line_column
from oneflow.dialect.record import suggestion
from oneflow.dialect.tensor_desc import TensorDesc, expected_type, from_mlir
from oneflow.tools.command import CommandError

NAME = "oneflow.name"
#: The name of a value in MLIR.
_ARGUMENT = re.compile(r"%([\w$.-]+)")


class EntryError(CommandError):
    """An entry point does not exist, or the inputs do not match it."""


@dataclass(frozen=True)
class Entry:
    """A function to run: its symbol, and its arguments and results by name."""

    name: str
    inputs: dict[str, TensorDesc]
    outputs: tuple[str, ...]

    def input_name(self, key: str) -> str:
        """The argument for a given name: its own name, or `arg<n>`."""
        numbered = {f"arg{index}": name for index, name in enumerate(self.inputs)}
        return key if key in self.inputs else numbered.get(key, key)


def find_entry(module: ir.Module, wanted: str | None, text: str = "") -> Entry:
    """The public function called `wanted`, or the only one, in a module that `text` writes.

    Raises:
        EntryError: there is none, it is ambiguous, or its arguments are not tensors.
    """
    functions = {
        str(op.attributes["sym_name"].value): op
        for op in module.body.operations
        if op.operation.name == "func.func" and op.regions[0].blocks and _visibility(op) == "public"
    }
    known = ", ".join(functions) or "no public function"
    if wanted is None and len(functions) != 1:
        raise EntryError(f"expected --entry-point, one of the public functions of the program; it has {known}")
    name = next(iter(functions)) if wanted is None else wanted
    if name not in functions:
        advice = suggestion(name, functions) or f"; the program has {known}"
        raise EntryError(f"no public function is called {name!r}{advice}")
    return _describe(name, functions[name], text)


def _visibility(op: ir.Operation) -> str:
    attributes = op.attributes
    return str(attributes["sym_visibility"].value) if "sym_visibility" in attributes else "public"


def _describe(name: str, op: ir.Operation, text: str) -> Entry:
    kind = op.attributes["function_type"].value
    inputs: dict[str, TensorDesc] = {}
    for label, mlir_type in zip(_names(op, "arg_attrs", _written(op, text)), kind.inputs, strict=True):
        desc = from_mlir(mlir_type)
        if desc is None:
            raise EntryError(f"{name}: argument {label}: {expected_type(mlir_type)}, got {mlir_type}")
        inputs[label] = desc
    if len(inputs) != len(kind.inputs):
        raise EntryError(f"{name}: two arguments have one {NAME}")
    outputs = _names(op, "res_attrs", [f"out{i}" for i in range(len(kind.results))])
    for label, mlir_type in zip(outputs, kind.results, strict=True):
        if from_mlir(mlir_type) is None:
            raise EntryError(f"{name}: result {label}: {expected_type(mlir_type)}, got {mlir_type}")
    return Entry(name, inputs, tuple(outputs))


def _names(op: ir.Operation, attribute: str, others: Sequence[str]) -> list[str]:
    """The names from attributes, or from `others` where an attribute is missing."""
    known = list(op.attributes[attribute]) if attribute in op.attributes else [{}] * len(others)
    return [_text(a[NAME]) if NAME in a else other for a, other in zip(known, others, strict=True)]


def _text(attribute: ir.Attribute) -> str:
    if not isinstance(attribute, ir.StringAttr):
        raise EntryError(f"expected {NAME} to be a string, got {attribute}")
    return str(attribute.value)


def _written(op: ir.Operation, text: str) -> list[str]:
    """The names of the arguments in the text; MLIR keeps their locations only. A number is not used as a name."""
    arguments, lines = op.regions[0].blocks[0].arguments, text.splitlines()
    words = [_word_at(lines, file_line_column(a.location)) for a in arguments]
    names = [name if name and not name.isdigit() else f"arg{number}" for number, name in enumerate(words)]
    return names if len(set(names)) == len(names) else [f"arg{number}" for number in range(len(names))]


def _word_at(lines: Sequence[str], location: str) -> str | None:
    """The name after the `%` at `file:line:col`."""
    *_, line, column = f"0:0:{location}".split(":")
    if not (line.isdigit() and column.isdigit() and 0 < int(line) <= len(lines)):
        return None
    match = _ARGUMENT.match(lines[int(line) - 1], int(column) - 1)
    return match and match[1]


def match_inputs(entry: Entry, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The arrays in the order of the arguments, contiguous and in native byte order.

    Raises:
        EntryError: one is missing, left over, or of another type or shape than its argument.
    """
    arrays = _named(entry, arrays)
    for name in arrays:
        if name not in entry.inputs:
            known = suggestion(name, entry.inputs) or f"; {entry.name} takes {', '.join(entry.inputs) or 'no inputs'}"
            raise EntryError(f"{entry.name} has no argument {name!r}{known}")
    missing = [f"{name}: {desc}" for name, desc in entry.inputs.items() if name not in arrays]
    if missing:
        raise EntryError(f"missing input for {', '.join(missing)}; give it with --input NAME=FILE")
    return [_fit(name, desc, arrays[name]) for name, desc in entry.inputs.items()]


def _named(entry: Entry, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays by argument name, where argument numbers are resolved."""
    named: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if (own := entry.input_name(name)) in named:
            raise EntryError(f"{entry.name}: argument {own} is given twice, by {own} and by {name}")
        named[own] = array
    return named


def _fit(name: str, desc: TensorDesc, array: np.ndarray) -> np.ndarray:
    raw = array.dtype == np.dtype(f"V{desc.dtype.numpy.itemsize}") and not desc.dtype.is_native
    native = array.view(desc.dtype.numpy) if raw else array.astype(array.dtype.newbyteorder("="), copy=False)
    if native.dtype != desc.dtype.numpy:
        advice = _conversion(desc.dtype, native.dtype)
        raise EntryError(f"input {name}: expected element type {desc.dtype.name}, got {native.dtype}{advice}")
    stated = TensorDesc(native.shape, desc.dtype)
    if not stated.refines(desc):
        raise EntryError(f"input {name}: expected {desc}, got an array of shape {_shape(native.shape)}")
    return np.asarray(native, order="C")


def _conversion(wanted: DType, got: np.dtype) -> str:
    """Advice on converting to the expected dtype, if there is a conversion."""
    try:
        known = dtypes.from_numpy(got)
    except TypeError:
        return ""
    name = f"numpy.{wanted.numpy.name}" if wanted.is_native else f"ml_dtypes.{wanted.name}"
    return f"; convert the array, array.astype({name}), or let the program take tensors of {known.mlir} and cast them"


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "() (one number)"
