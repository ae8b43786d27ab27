"""Writing ONNX: a traced function becomes a model, one row of a table for each operator of the dialect.

Operators without a row are expanded by the decomposition in their records.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

import oneflow
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.body import Body
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.importers.onnx import (  # noqa: F401  add rows
    writer_control,
    writer_ordering,
    writer_sizes,
    writer_windows,
)
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.types import NUMBERS
from oneflow.frontend.importers.onnx.writer_bodies import write_body
from oneflow.frontend.importers.onnx.writer_table import ROWS
from oneflow.frontend.nn.module import Module
from oneflow.frontend.tracing.callables import Callee, bind, entry_name
from oneflow.frontend.tracing.trace import trace_call
from oneflow.frontend.tracing.traced import Traced
from oneflow.passes.decompose import Recorder, replace
from oneflow.passes.inline import functions_of

#: The operator set that is written.
OPSET = 21


@runtime_checkable
class Imported(Protocol):
    """A model of another framework, whose inputs are known."""

    def call_of_specs(self) -> tuple[Callable[..., Any], list[TensorSpec]]:
        """A function of the model's tensors, and the specs of the tensors."""


def to_onnx(fn: Any, *arguments: Any, path: str | Path | None = None) -> ModelProto:
    """The ONNX model of a function, a module or an imported model.

    Args:
        fn: a function of tensors, a module, or the result of `flow.compile`, `flow.from_onnx` or
            `flow.from_torch`.
        arguments: its arguments: `TensorSpec`s, whose None are dynamic sizes, or arrays and tensors, of whose
            shapes and types the specs are made. The default for an imported model is the inputs of its file, or of
            its export.
        path: a file that the model is written to.

    Raises:
        OnnxError: an operator has no counterpart in ONNX; the message names the operator and its line.
    """
    called, specs = getattr(fn, "_fn", fn), [_spec(a) for a in arguments]
    if isinstance(fn, Imported) and not arguments:
        called, specs = fn.call_of_specs()
    function = Callee.of(called).function
    traced = trace_call(function, bind(function, specs, {}), entry_name(function), 0)
    model = _Writer(traced, _names_of(fn)).write()
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        onnx.save(model, str(path))
    return model


def _spec(argument: Any) -> Any:
    """The spec of an argument for the trace."""
    if isinstance(argument, EagerTensor):
        return TensorSpec(argument.shape, argument.dtype)
    if is_array(argument):
        array = to_array(argument)
        return TensorSpec(array.shape, array.dtype)
    return argument


def _names_of(fn: Any) -> dict[int, str]:
    """The names of a module's parameters and buffers, by their memory."""
    state = fn.state_dict() if isinstance(fn, Module) else {}
    return {id(v.array): name for name, v in state.items()}


class _Inner:
    """A graph inside a node: its inputs by name, and its results."""

    def __init__(self, writer: _Writer, kinds: Sequence[TensorDesc]) -> None:
        self._writer, self.proto = writer, onnx.GraphProto(name=writer.name("body"))
        self.inputs = [writer.name(f"{self.proto.name}_input") for _ in kinds]
        writer.descs.update(zip(self.inputs, kinds, strict=True))
        self.proto.input.extend(map(writer.info, self.inputs))

    def set_results(self, results: Sequence[str]) -> None:
        """Sets the results of the graph, each with a unique name."""
        for result in results:
            name = self._writer.node("Identity", result)
            self._writer.descs[name] = self._writer.desc(result)
            self.proto.output.append(self._writer.info(name))


class _Writer:
    """Writes the nodes of one program."""

    def __init__(self, traced: Traced, names: Mapping[int, str]) -> None:
        self._traced, self._names = traced, names
        self._graph = onnx.GraphProto(name=traced.entry)
        self._values: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._unused: set[int] = set()
        self.descs: dict[str, TensorDesc] = {}

    def write(self) -> ModelProto:
        """The model.

        Raises:
            OnnxError: an operator has no counterpart.
        """
        module = self._traced.module
        with module.context:
            entry = next(op for op in module.body.operations if op.operation.name == "func.func")
            self._functions = functions_of(module)
            for function in self._functions.values():
                _decompose(function)
            self._inputs(entry)
            for op in entry.regions[0].blocks[0].operations:
                if op.operation.name == "func.return":
                    self._results(entry, op.operation)
                else:
                    self._operation(op.operation)
        _drop_unused_constants(self._graph)
        made = helper.make_model(
            self._graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=10,
            producer_name="oneflow-mlir",
            producer_version=oneflow.__version__,
        )
        return made

    def _inputs(self, entry: Any) -> None:
        arguments = list(entry.regions[0].blocks[0].arguments)
        labels = _labels(entry, "arg_attrs", len(arguments))
        first = len(arguments) - len(self._traced.captured)
        for number, (value, label) in enumerate(zip(arguments, labels, strict=True)):
            desc = dialect.stated_desc(value)
            if number < first:
                name = self.name(label or f"input_{number}")
                self.descs[name] = desc
                self._graph.input.append(self.info(name))
            else:
                array = self._captured(self._traced.captured[number - first])
                name = self.constant(array, self._names.get(id(array), f"constant_{number - first}"))
            self._values[value], self.descs[name] = name, desc

    def _captured(self, value: Any) -> np.ndarray:
        if isinstance(value, EagerTensor):
            return value.array
        return np.asarray(value() if callable(value) else value)

    def _results(self, entry: Any, op: ir.Operation) -> None:
        labels = _labels(entry, "res_attrs", len(op.operands))
        for number, (value, label) in enumerate(zip(op.operands, labels, strict=True)):
            desc, written = dialect.stated_desc(value), self._values[value]
            name = self.name(label or f"output_{number}" if len(op.operands) > 1 else label or "output")
            self._graph.node.append(helper.make_node("Identity", [written], [name]))
            sizes = [d if d is not None else f"{name}_{i}" for i, d in enumerate(desc.shape or ())]
            self._graph.output.append(helper.make_tensor_value_info(name, NUMBERS[desc.dtype.name], sizes))

    def _operation(self, op: ir.Operation) -> None:
        if op.name == "tensor.cast":
            self._values[op.results[0]] = self._values[op.operands[0]]
            return
        if op.name == "arith.constant":
            self._values[op.results[0]] = self._literal(op)
            return
        record = dialect.record_of(op) if dialect.is_oneflow(op) else None
        row = ROWS.get(record.name) if record else None
        if record is not None and row is None and record.scalar is not None:
            row = write_body
        if record is None or row is None:
            raise OnnxError(f"{op.name} has no counterpart in ONNX ({op.location})")
        call = dialect.operand_call(op, record, self._values.__getitem__)
        descs = [dialect.stated_desc(v) for v in op.results]
        self._unused = {n for n, v in enumerate(op.results) if next(iter(v.uses), None) is None}
        dialect.bind_results(op, call, descs)
        try:
            written = row(self, call)
        except OnnxError as error:
            raise OnnxError(f"{op.name} has no counterpart in ONNX: {error.text} ({op.location})") from None
        for value, name, desc in zip(
            op.results, written if isinstance(written, tuple) else (written,), descs, strict=False
        ):
            self._values[value], self.descs[name] = name, desc

    def is_used(self, number: int) -> bool:
        """Whether anything reads a result of the operator that is written."""
        return number not in self._unused

    @contextmanager
    def graph(self, kinds: Sequence[TensorDesc]) -> Iterator[_Inner]:
        """A context for the nodes of a graph inside a node, with inputs of these types."""
        outer, inner, unused = self._graph, _Inner(self, kinds), self._unused
        self._graph = inner.proto
        try:
            yield inner
        finally:
            self._graph, self._unused = outer, unused

    def inlined(self, body: Body, operands: Sequence[str]) -> list[str]:
        """The results of a body whose arguments have these names, written out."""
        unused = self._unused
        block = self._functions[body.symbol].regions[0].blocks[0]
        *operations, last = [o.operation for o in block.operations]
        self._values.update(zip(block.arguments, operands, strict=True))
        for op in operations:
            self._operation(op)
        self._unused = unused
        return [self._values[v] for v in last.operands]

    def info(self, name: str) -> onnx.ValueInfoProto:
        """The ONNX type of a value."""
        desc = self.descs[name]
        sizes = [d if d is not None else f"{name}_{i}" for i, d in enumerate(desc.shape or ())]
        return helper.make_tensor_value_info(name, NUMBERS[desc.dtype.name], sizes)

    def _literal(self, op: ir.Operation) -> str:
        dense, desc = op.attributes["value"], dialect.stated_desc(op.results[0])
        if dense.is_splat:
            array = np.full(desc.static_shape, _python(dense.get_splat_value()), desc.dtype.numpy)
        else:
            array = np.array(dense).astype(desc.dtype.numpy).reshape(desc.static_shape)
        name = self.constant(array)
        self.descs[name] = desc
        return name

    def name(self, wanted: str) -> str:
        """A name that no other value has."""
        name, number = wanted, 1
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def desc(self, name: str) -> TensorDesc:
        """The type of an operand."""
        return self.descs[name]

    def constant(self, array: Any, name: str = "constant") -> str:
        """The name of a constant."""
        known = self.name(name)
        self._graph.initializer.append(
            numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), known)
        )
        return known

    def node(self, op: str, *inputs: str | None, outputs: int = 1, **attributes: Any) -> Any:
        """The results of a node: its name, or a tuple of names."""
        names = tuple(self.name(f"{op.lower()}_{len(self._graph.node)}") for _ in range(outputs))
        self._graph.node.append(helper.make_node(op, [i or "" for i in inputs], names, **attributes))
        return names if outputs > 1 else names[0]


def _drop_unused_constants(graph: onnx.GraphProto) -> set[str]:
    """Removes constants that no node reads from a graph and the graphs inside; returns the names that are read."""
    read = {output.name for output in graph.output} | {name for node in graph.node for name in node.input}
    for attribute in (a for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH):
        read |= _drop_unused_constants(attribute.g)
    for number in reversed(range(len(graph.initializer))):
        if graph.initializer[number].name not in read:
            del graph.initializer[number]
    return read


def _python(value: Any) -> Any:
    return value.value if hasattr(value, "value") else value


def _labels(entry: Any, attribute: str, count: int) -> list[str]:
    """The names of the arguments or the results of a function; "" for arguments and results without a name."""
    attributes = entry.operation.attributes
    if attribute not in attributes:
        return [""] * count
    dicts = [ir.DictAttr(d) for d in ir.ArrayAttr(attributes[attribute])]
    return [str(ir.StringAttr(d["oneflow.name"]).value) if "oneflow.name" in d else "" for d in dicts]


def _decompose(entry: ir.Operation) -> None:
    """Expands operators without a row by the decompositions in their records."""
    pending = True
    while pending:
        operations: list[ir.Operation] = []
        dialect.walk(entry, functools.partial(_collect, operations))
        for op in operations:
            rule = dialect.record_of(op).decompose
            assert rule is not None
            replace(op, rule, REGISTRY, Recorder)
        pending = bool(operations)


def _collect(operations: list[ir.Operation], op: ir.Operation) -> None:
    if _is_decomposed(op):
        operations.append(op)


def _is_decomposed(op: ir.Operation) -> bool:
    if not dialect.is_oneflow(op):
        return False
    record = dialect.record_of(op)
    return record.name not in ROWS and record.decompose is not None
