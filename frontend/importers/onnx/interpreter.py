"""The interpreter of graphs: the interpreter calls the builder of each node, in eager mode or while a function is
traced.

A value is a tensor, an array of the host (constants, shapes), a list (a sequence), `Codes` (a tensor of a small
type), or None (an omitted operand, or an empty optional).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, helper

from oneflow.dialect.record import suggestion
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import OneFlowError, SourceLocation, located
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.importers.onnx import operators  # noqa: F401  (fills the table)
from oneflow.frontend.importers.onnx.errors import OnnxError, ValueNeeded
from oneflow.frontend.importers.onnx.graph import Function, Model, Node, OnnxGraph, Reference
from oneflow.frontend.importers.onnx.host import fold, of_sizes
from oneflow.frontend.importers.onnx.reader import MAX_DEPTH, function_of
from oneflow.frontend.importers.onnx.table import Builder, find_builder, operator_names
from oneflow.frontend.importers.onnx.types import NUMBERS, SMALL, Codes

#: Attributes of the first operator sets that say nothing about results.
_IGNORED = frozenset({"consumed_inputs"})
#: The exceptions of builders on incompatible operands.
_REFUSALS = (
    OneFlowError, ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError, NotImplementedError,
    MemoryError,
)  # fmt: skip
#: The bytes of the machine's memory, and the most dimensions of an array of NumPy.
_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
_MAX_DIMENSIONS = 64


@dataclass
class Scope:
    """The values of one graph by name, and the model's inputs that each is computed from."""

    outer: Scope | None = None
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, frozenset[str]] = field(default_factory=dict)
    depth: int = 0

    def find(self, name: str) -> tuple[Any, frozenset[str]]:
        """A value and its sources, in this scope or an enclosing scope."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name], scope.sources.get(name, frozenset())
            scope = scope.outer
        raise OnnxError(f"the value {name!r} is read before its definition")

    def inner(self) -> Scope:
        """A scope for an inner graph, which sees this scope."""
        return self._child(self)

    def separate(self) -> Scope:
        """A scope for a function, which sees its operands alone."""
        return self._child(None)

    def _child(self, outer: Scope | None) -> Scope:
        if self.depth >= MAX_DEPTH:
            raise OnnxError(
                f"expected at most {MAX_DEPTH} graphs and functions inside each other: does one call itself?"
            )
        return Scope(outer, depth=self.depth + 1)


class Interpreter:
    """Runs the graphs of a model.

    Args:
        model: the model to run.
        state: tensors in place of constants, by the identity of their arrays.
    """

    def __init__(self, model: Model, state: Mapping[int, EagerTensor]) -> None:
        self.model, self._state = model, state

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The results of the model's graph for the values of its inputs.

        Raises:
            OnnxError: a node is not supported, or its operands do not fit; the node is named.
            ValueNeeded: a shape or a branch follows from values that are not known here.
        """
        scope = Scope()
        scope.values |= feeds
        scope.sources |= {name: frozenset([name]) for name in feeds}
        return [value for value, _ in self.run_graph(self.model.graph, scope)]

    def run_graph(self, graph: OnnxGraph, scope: Scope) -> list[tuple[Any, frozenset[str]]]:
        """The results of a graph whose inputs are in `scope`, with the inputs of the model that each follows from."""
        scope.values |= graph.constants
        for node in graph.nodes:
            results, sources = self._step(node, scope)
            for name, value in zip(node.outputs, results, strict=False):
                scope.values[name], scope.sources[name] = value, sources
        return [scope.find(output.name) for output in graph.outputs]

    def call(self, graph: OnnxGraph, operands: Sequence[Any], node: CurrentNode) -> list[Any]:
        """The results of a graph inside a node, for the values of its inputs."""
        scope = node.scope.inner()
        for name, value in zip((i.name for i in graph.inputs), operands, strict=False):
            scope.values[name], scope.sources[name] = value, node.sources
        pairs = self.run_graph(graph, scope)
        node.sources = node.sources.union(*(sources for _, sources in pairs))
        return [value for value, _ in pairs]

    def tensor(self, value: Any) -> Tensor:
        """A value as a tensor.

        Raises:
            OnnxError: the value is no tensor, or has a type that the operator does not accept.
        """
        if isinstance(value, Tensor):
            return value
        if isinstance(value, np.ndarray):
            if value.dtype.name in SMALL:
                raise OnnxError(f"expected elements of 16 bits or more, or bytes, got {value.dtype}")
            return self._state[id(value)] if id(value) in self._state else from_array(value)
        if isinstance(value, Codes):
            raise OnnxError(f"expected elements of 16 bits or more, or bytes, got {value.type}")
        kind = "a sequence" if isinstance(value, list) else "nothing" if value is None else type(value).__name__
        raise OnnxError(f"expected a tensor, got {kind}")

    def _step(self, node: Node, scope: Scope) -> tuple[Sequence[Any], frozenset[str]]:
        read = [scope.find(name) if name else (None, frozenset[str]()) for name in node.inputs]
        operands = [value for value, _ in read]
        while operands and operands[-1] is None:
            operands.pop()
        current = CurrentNode(self, node, scope, frozenset().union(*(s for _, s in read)))
        try:
            with located(SourceLocation(f"<{node}>", 1, 1)):
                results = self._results(current, operands)
            for result in results:
                _expect_fits(result)
            return results, current.sources
        except (OnnxError, ValueNeeded) as error:
            raise _naming(node, error) from None
        except _REFUSALS as error:
            text = error.text if isinstance(error, OneFlowError) else f"{type(error).__name__}: {error}"
            raise OnnxError(f"{node}: {text}") from error

    def _results(self, current: CurrentNode, operands: Sequence[Any]) -> Sequence[Any]:
        node = current.proto
        function = self.model.functions.get((node.domain, node.op, node.overload))
        if function is not None:
            return self._expanded(function, current, operands)
        if not node.domain and len(node.outputs) == 1:
            folded = self._folded(node, operands)
            if folded is not NotImplemented:
                return [folded]
        row = find_builder(node.domain, node.op, node.version)
        if row is None:
            return self._expanded(self._standard_function(current, operands), current, operands)
        results = row.function(*self._operands(row, current, operands), **self._attributes(row, current))
        results = results if isinstance(results, tuple) else (results,)
        wanted = [name for name in node.outputs[len(results) :] if name]
        if wanted:
            raise OnnxError(f"the result {wanted[0]!r}, number {len(results) + 1}, is not supported")
        return results

    def _folded(self, node: Node, operands: Sequence[Any]) -> Any:
        if any(id(x) in self._state for x in operands):
            return NotImplemented
        return fold(node.op, operands, dict(node.attributes))

    def _operands(self, row: Builder, current: CurrentNode, operands: Sequence[Any]) -> list[Any]:
        """Operands in the form of the builder's parameters."""
        names = list(row.operands)
        if row.variadic:
            names += [names[-1]] * (len(operands) - len(names))
        elif len(operands) > len(names):
            raise OnnxError(f"expected at most {len(names)} operands, got {len(operands)}")
        moved = {row.renamed.get(k, k): v for k, v in current.proto.attributes.items() if k not in row.attributes}
        last = max((i + 1 for i, name in enumerate(names) if name in moved), default=0)
        filled = [*operands, *[None] * (last - len(operands))]
        entries = []
        for index, (name, value) in enumerate(zip(names, filled, strict=False)):
            if value is None and name in moved:
                entries.append(_as_operand(moved[name], name in row.known))
            elif value is None or row.raw:
                entries.append(value)
            else:
                entries.append(current.known(index, value) if name in row.known else self.tensor(value))
        if len(entries) < row.required:
            raise OnnxError(f"expected the operands {', '.join(names[: row.required])}, got {len(entries)}")
        return entries

    def _attributes(self, row: Builder, current: CurrentNode) -> dict[str, Any]:
        """Attributes in the form of the builder's parameters.

        Raises:
            OnnxError: it does not know one, or needs another.
        """
        attributes = {k: v for k, v in current.proto.attributes.items() if k in row.attributes}
        moved = {row.renamed.get(k, k) for k in current.proto.attributes}
        unknown = moved - row.attributes - set(row.operands) - _IGNORED
        if unknown:
            known = ", ".join(sorted(row.attributes)) or "none"
            raise OnnxError(f"the attribute {min(unknown)!r} is not supported; supported are {known}")
        missing = row.mandatory - attributes.keys()
        if missing:
            raise OnnxError(f"expected the attribute {min(missing)!r}, got {', '.join(sorted(attributes)) or 'none'}")
        return attributes | ({"node": current} if row.takes_node else {})

    def _expanded(self, function: Function, current: CurrentNode, operands: Sequence[Any]) -> list[Any]:
        """The results of a function's body."""
        scope = current.scope.separate()
        scope.values |= dict.fromkeys(output.name for output in function.graph.outputs)  # a body may leave some out
        filled = [*operands, *[None] * (len(function.graph.inputs) - len(operands))]
        for of, value in zip(function.graph.inputs, filled, strict=False):
            scope.values[of.name], scope.sources[of.name] = value, current.sources
        attributes = {**function.defaults, **current.proto.attributes}
        pairs = self.run_graph(bound(function.graph, attributes), scope)
        current.sources = current.sources.union(*(sources for _, sources in pairs))
        return [value for value, _ in pairs]

    def _standard_function(self, current: CurrentNode, operands: Sequence[Any]) -> Function:
        """The function that the standard defines an operator by.

        Raises:
            OnnxError: the operator is unknown.
        """
        node = current.proto
        types = [_type_of(x) for x in operands]
        function = standard_function(node, tuple(t.SerializeToString() if t else b"" for t in types))
        if function is None:
            advice = suggestion(node.op, operator_names(node.domain))
            raise OnnxError(f"the operator is not supported{advice}")
        return function


@dataclass
class CurrentNode:
    """The node that is being built, for builders with a parameter `node`."""

    interpreter: Interpreter
    proto: Node
    scope: Scope
    sources: frozenset[str]

    @property
    def version(self) -> int:
        """The version of the operator set."""
        return self.proto.version

    def result_count(self) -> int:
        """How many results are asked for."""
        return len(self.proto.outputs)

    def asks_for(self, index: int) -> bool:
        """Whether a result is used."""
        return index < len(self.proto.outputs) and bool(self.proto.outputs[index])

    def call(self, graph: OnnxGraph, *operands: Any) -> list[Any]:
        """The results of a graph inside the node."""
        return self.interpreter.call(graph, operands, self)

    def tensor(self, value: Any) -> Tensor:
        """A value as a tensor."""
        return self.interpreter.tensor(value)

    def known(self, index: int, value: Any) -> np.ndarray:
        """Operand `index`, whose value is `value`, as an array of the host.

        Raises:
            ValueNeeded: it is computed in a trace.
        """
        if value is None or isinstance(value, (list, Codes)):
            kind = {list: "a sequence", Codes: "a tensor of codes"}.get(type(value), "none")
            raise OnnxError(f"expected a tensor as operand {index + 1}, got {kind}")
        name = self.proto.inputs[index]
        return self.array_of(value, f"{name!r} ({self.proto})", self.scope.find(name)[1])

    def array_of(self, value: Any, what: str, sources: frozenset[str] | None = None) -> np.ndarray:
        """A value as an array of the host; `sources` are the inputs of the model that the value follows from.

        Raises:
            ValueNeeded: it is computed in a trace.
        """
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, EagerTensor):
            return value.numpy()
        if isinstance(value, Size):
            return of_sizes([value]).reshape(())
        raise ValueNeeded(self.sources if sources is None else sources, what)


def _naming(node: Node, error: OnnxError | ValueNeeded) -> Exception:
    """An error of a node or of one in its graphs, with the name of the innermost."""
    is_named = isinstance(error, ValueNeeded) or error.text.startswith(("node ", "the node "))
    return error if isinstance(error, ValueNeeded) or is_named else OnnxError(f"{node}: {error.text}")


def _expect_fits(value: Any) -> None:
    """Checks that a result is no larger than the memory of the machine.

    Raises:
        OnnxError: it is, or has more dimensions than arrays may have.
    """
    if not isinstance(value, Tensor) or not value.desc.is_static:
        return
    size = (value.desc.element_count or 0) * value.dtype.bits // 8
    if size > _MEMORY or value.rank > _MAX_DIMENSIONS:
        raise OnnxError(
            f"expected results of at most {_MAX_DIMENSIONS} dimensions and {_MEMORY} bytes, the memory of this"
            f" machine, got {value.desc if value.rank <= _MAX_DIMENSIONS else value.rank}"
        )


def _as_operand(value: Any, known: bool) -> Any:
    """An attribute that has become an operand."""
    first = value[0] if isinstance(value, list) and value else value
    dtype = np.float32 if isinstance(first, float) else np.int64 if isinstance(first, int) else None
    array = np.asarray(value, dtype)
    return array if known else as_tensor(array)


def from_array(array: np.ndarray) -> Tensor:
    """An array of the host as a tensor; sizes of the run are computed there."""
    if array.dtype != object:
        return as_tensor(np.asarray(array))
    parts = [as_tensor(v if isinstance(v, Size) else np.int64(v)) for v in array.ravel()]
    return F.reshape(F.stack(parts), array.shape) if array.ndim != 1 else F.stack(parts)


def bound(graph: OnnxGraph, attributes: Mapping[str, Any]) -> OnnxGraph:
    """The body of a function with the attributes of a call in place of references."""

    def filled(value: Any) -> Any:
        if isinstance(value, Reference):
            return attributes.get(value.name)
        return bound(value, attributes) if isinstance(value, OnnxGraph) else value

    def node(of: Node) -> Node:
        attributes = {k: filled(v) for k, v in of.attributes.items()}
        return Node(**{**of.__dict__, "attributes": {k: v for k, v in attributes.items() if v is not None}})

    return OnnxGraph(
        graph.name, graph.inputs, graph.outputs, tuple(map(node, graph.nodes)), graph.constants, graph.proto
    )


def _type_of(value: Any) -> TypeProto | None:
    """The type of a value in the form of the standard's functions."""
    if value is None:
        return None
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_of(value[0]) or TypeProto()) if value else TypeProto()
    if isinstance(value, Codes):
        return helper.make_tensor_type_proto(NUMBERS[value.type.name], list(value.tensor.shape))
    name = "int64" if value.dtype == object else value.dtype.name
    return helper.make_tensor_type_proto(NUMBERS[name], list(value.shape))


def standard_function(node: Node, types: tuple[bytes, ...]) -> Function | None:
    """The function of the standard for an operator and the types of its operands; None where there is none."""
    try:
        schema = onnx.defs.get_schema(node.op, node.version, node.domain)
    except onnx.defs.SchemaError:
        return None
    defaults = {
        name: helper.get_attribute_value(a.default_value) for name, a in schema.attributes.items()
        if a.default_value.type
    }  # fmt: skip
    defaults = {k: v.decode() if isinstance(v, bytes) else v for k, v in defaults.items()}
    made = _body(schema, node, types)
    return None if not made else Function(function_of(made, node.version).graph, defaults)


def _body(schema: Any, node: Node, types: tuple[bytes, ...]) -> Any:
    """The function of a schema as a protobuf or its bytes; None where there is none."""
    versions = [v for v in schema.function_opset_versions if v <= node.version]
    if versions:
        return schema.get_function_with_opset_version(max(versions))
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.version]
    if not versions:
        return None
    proto = helper.make_node(node.op, node.inputs, node.outputs, node.name, domain=node.domain)
    proto.attribute.extend(_attribute_proto(k, v) for k, v in node.attributes.items())
    return schema.get_context_dependent_function_with_opset_version(
        max(versions), proto.SerializeToString(), list(types)
    )


def _attribute_proto(name: str, value: Any) -> Any:
    if isinstance(value, OnnxGraph):
        return helper.make_attribute(name, value.proto)
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, onnx.numpy_helper.from_array(value))
    return helper.make_attribute(name, value)
