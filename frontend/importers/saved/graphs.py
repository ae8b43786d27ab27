"""Graphs that OneFlow saved: `model.mlir`, and a folder for each variable next to `model.mlir`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.jobs import NAME
from oneflow.dialect.reader import ProgramError, file_line_column, read_module
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.frontend.compile.compiled import CompiledFunction
from oneflow.frontend.compile.compiled import compile as compile_function
from oneflow.frontend.core.arrays import to_array
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch_all
from oneflow.frontend.core.errors import CallError, SourceLocation, located
from oneflow.frontend.core.mode import tracing
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.importers.saved.job_writer import write_job
from oneflow.frontend.importers.saved.variables import SavedError, inside, read_variable, write_variable
from oneflow.frontend.nn.graph import Graph
from oneflow.frontend.nn.module import Module, Parameter
from oneflow.passes.constants import read_dense

PROGRAM = "model.mlir"


def load_graph(path: Any, *, device: Any = None) -> SavedGraph:
    """The graph in a folder that OneFlow's `save(graph, path)`, or this library's, wrote.

    Args:
        path: the folder, with `model.mlir` and a folder for each variable.
        device: where the graph runs; see `flow.compile`.

    Raises:
        FileNotFoundError: the folder has no `model.mlir`.
        SavedError: the program or a variable is malformed, or has unsupported features.
    """
    graph = SavedGraph(Path(path), device)
    return graph if device is None else graph.to(device)


def save_graph(graph: Graph, folder: Path) -> None:
    """Writes the program of a graph's latest call, and its variables, as OneFlow does.

    Parameters and buffers have the names of the graph's attributes in front of their own.

    Raises:
        CallError: the graph has not been called.
        SavedError: the graph updates tensors, or has features that OneFlow's files cannot express.
    """
    traced = graph.traced
    if traced.effects.count:
        raise SavedError(
            "expected a graph that updates nothing, got one that trains; save one without optimizers, its modules in "
            "evaluation mode"
        )
    names = _names_of_state(graph)
    tensors = [c() if callable(c) else c for c in traced.captured]
    variables = [names.get(id(t), f"captured_{i}") for i, t in enumerate(tensors)]
    entry = next(op.operation for op in traced.module.body.operations if op.operation.name == "func.func")
    text, constants = write_job(entry, graph.name, variables)
    arrays = (np.asarray(to_array(t.storage) if isinstance(t, EagerTensor) else t) for t in tensors)
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (*zip(variables, arrays, strict=True), *constants.items()):
        write_variable(inside(folder, name), array)
    (folder / PROGRAM).write_text(text, encoding="utf-8")


def _names_of_state(graph: Graph) -> dict[int, str]:
    """The names of parameters and buffers of a graph's modules, by their tensors."""
    modules = ((name, part) for name, part in vars(graph).items() if isinstance(part, Module))
    return {
        id(tensor): f"{module}.{name}"
        for module, part in modules
        for name, tensor in (*part.named_parameters(), *part.named_buffers())
    }


class SavedGraph(Module):
    """A saved graph as a module, whose parameters and buffers are its variables under their names.

    `module` is the program in the dialect, which takes the variables as arguments.

    A call takes the inputs in their order and returns the result, or a tuple of the results. The graph is compiled
    for the shapes of its inputs, which may differ from the shapes in the file where its operators allow other shapes.
    Variables that the graph updates get their new values. No parameter requires grad unless told otherwise. Inside a
    traced function a call is a part of the trace.
    """

    def __init__(self, folder: Path, device: Any = None) -> None:
        super().__init__()
        object.__setattr__(self, "module", _read_program(folder / PROGRAM))
        object.__setattr__(self, "_function", self.module.body.operations[0].operation)
        object.__setattr__(self, "_file", str(folder / PROGRAM))
        object.__setattr__(self, "_device", device)
        for name, argument in self._arguments():
            if name is not None:
                self._add(name, _variable(folder, name, argument))

    def _add(self, name: str, array: np.ndarray) -> None:
        if dtypes.from_numpy(array.dtype).is_inexact:
            self.register_parameter(name, Parameter(array, requires_grad=False))
        else:
            self.register_buffer(name, wrapped(array))

    @property
    def inputs(self) -> tuple[TensorDesc, ...]:
        """The types of the inputs in the file."""
        return tuple(_desc(argument) for name, argument in self._arguments() if name is None)

    def _arguments(self) -> Iterator[tuple[str | None, ir.Value]]:
        """The arguments of the program; arguments for variables have the names of the variables."""
        return zip(_names(self._function, "arg_attrs"), self._function.regions[0].blocks[0].arguments, strict=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs) if tracing() else self.program(*args, **kwargs)

    @functools.cached_property
    def program(self) -> CompiledFunction:
        """The compiled function of the inputs."""
        return compile_function(self.forward, device=self._device)

    def forward(self, *inputs: Any) -> Any:
        """The results for inputs, in the trace that is running or operator by operator.

        Raises:
            CallError: the number of tensors differs from the number in the file.
        """
        expected = self.inputs
        if len(inputs) != len(expected):
            raise CallError(f"expected {len(expected)} inputs, {', '.join(map(str, expected))}, got {len(inputs)}")
        state = {**self._parameters, **self._buffers}
        remaining = iter(inputs)
        values = {a: as_tensor(next(remaining) if name is None else state[name]) for name, a in self._arguments()}
        results = _run(self._function, values, self._file)
        shown = []
        for name, value in zip(_names(self._function, "res_attrs"), results, strict=True):
            if name is None:
                shown.append(value)
            else:
                with no_grad():
                    current_builder().assign(state[name], value, "the graph")
        return shown[0] if len(shown) == 1 else tuple(shown)


def _read_program(path: Path) -> ir.Module:
    """The program in a file, which has one function.

    Raises:
        SavedError: the text is no program, or has another number of functions.
    """
    try:
        text = path.read_text(encoding="utf-8")
        module = read_module(text, dialect.create_context(REGISTRY, operators=()), str(path))
    except UnicodeDecodeError as error:
        raise SavedError(f"expected {path} to be a program in UTF-8: {error}") from None
    except ProgramError as error:
        raise SavedError(str(error)) from None
    functions = [op.operation for op in module.body.operations]
    if [f.name for f in functions] != ["func.func"] or len(functions[0].regions[0].blocks) != 1:
        raise SavedError(f"expected one job in {path}, got {', '.join(f.name for f in functions) or 'nothing'}")
    return module


def _names(function: ir.Operation, attribute: str) -> list[str | None]:
    """The names of variables among the arguments (`arg_attrs`) or results (`res_attrs`) of a function."""
    kind = ir.FunctionType(function.attributes["function_type"].value)
    if attribute not in function.attributes:
        return [None] * len(kind.inputs if attribute == "arg_attrs" else kind.results)
    return [str(a[NAME].value) if NAME in a else None for a in function.attributes[attribute]]


def _desc(value: ir.Value) -> TensorDesc:
    """The type of an argument.

    Raises:
        SavedError: the value is no tensor of a known type.
    """
    desc = from_mlir(value.type)
    if desc is None:
        raise SavedError(f"expected a tensor as input, got {value.type}")
    return desc


def _variable(folder: Path, name: str, argument: ir.Value) -> np.ndarray:
    """The array of a variable, of the type of its argument.

    Raises:
        SavedError: the variable is missing, malformed, or of another type.
    """
    array, desc = read_variable(inside(folder, name)), _desc(argument)
    if array.shape != desc.shape or array.dtype != desc.dtype.numpy:
        raise SavedError(f"expected the variable {name} to be {desc}, got {array.dtype}{list(array.shape)}")
    return array


def _run(function: ir.Operation, values: dict[ir.Value, Any], file: str) -> list[Any]:
    """The results of a function whose arguments are `values`; errors name the line of the file.

    Raises:
        SavedError: an operation is none of the dialect.
    """
    for op in function.regions[0].blocks[0].operations:
        operation = op.operation
        if operation.name == "func.return":
            return [values[v] for v in operation.operands]
        with located(_source_location(operation, file)):
            results = _results(operation, values)
        values.update(zip(operation.results, results, strict=True))
    raise SavedError("expected the program to end with func.return, got none")


def _results(op: ir.Operation, values: Mapping[ir.Value, Any]) -> Sequence[Any]:
    """The results of one operation."""
    if op.name == dialect.CAST:
        return [values[op.operands[0]]]
    if op.name == "arith.constant":
        array = read_dense(op)
        if array is not None:
            return [as_tensor(array)]
    if not dialect.is_oneflow(op) or len(op.regions):
        at = file_line_column(op.location)
        raise SavedError(f"expected operators of the dialect oneflow, got {op.name} at {at}")
    record = dialect.record_of(op)
    operand: Callable[[ir.Value], Any] = values.__getitem__
    call = dialect.operand_call(op, record, operand)
    return dispatch_all(record.name, *call.inputs.values(), **call.attrs)


def _source_location(op: ir.Operation, file: str) -> SourceLocation | None:
    """The line of an operation in the file."""
    *_, line, column = f"0:0:{file_line_column(op.location)}".split(":")
    return SourceLocation(file, int(line), int(column)) if line.isdigit() and column.isdigit() else None
