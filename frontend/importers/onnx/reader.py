"""Reading models: protobufs become graphs, whose sizes, names and order are checked before anything is computed.

Arrays next to the model are mapped into memory, from files in the model's own folder alone. Large constants in the
file of the model are read from the file.
"""

from __future__ import annotations

import math
import mmap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from oneflow.frontend.importers.onnx.embedded import PACKED, referring
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.graph import Function, Input, Model, Node, OnnxGraph, Reference
from oneflow.frontend.importers.onnx.table import DOMAINS
from oneflow.frontend.importers.onnx.types import NAMES, type_name

#: The most elements that a sparse constant may have in dense form.
_MAX_SPARSE_ELEMENTS = 2**28
#: The most nodes of a model whose functions are expanded, and the most nesting levels of graphs and functions.
_MAX_NODES, MAX_DEPTH = 2**20, 64
_MAX_OPSET = onnx.defs.onnx_opset_version()


def read_model(source: Any) -> Model:
    """The model in a file, in bytes or in a `ModelProto`.

    Raises:
        OnnxError: the model is malformed, or newer than the known operator sets.
    """
    proto, file = _proto(source)
    if not proto.HasField("graph"):
        raise OnnxError("expected an ONNX model with a graph, got a model without graph: is the file an ONNX model?")
    if not proto.graph.output:
        raise OnnxError(f"expected a model with results, got the graph {proto.graph.name!r} without any")
    opsets = _opsets(proto.opset_import)
    reader = _Reader(file, opsets)
    functions = {(_domain(f.domain), f.name, f.overload): reader.function(f) for f in proto.functions}
    model = Model(reader.graph(proto.graph, frozenset()), functions, opsets)
    _Expansion(model).count(model.graph)
    return model


class _Expansion:
    """Counts the nodes of a model whose functions are expanded, without expanding them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._counts: dict[int, int] = {}
        self._depth = 0

    def count(self, graph: OnnxGraph) -> int:
        """The nodes of a graph, of the functions that it calls, and of the graphs in its nodes.

        Raises:
            OnnxError: there are too many, or they are nested too deeply.
        """
        if id(graph) not in self._counts:
            if self._depth == MAX_DEPTH:
                raise OnnxError(
                    f"expected at most {MAX_DEPTH} graphs and functions inside each other: does one call itself?"
                )
            self._depth += 1
            self._counts[id(graph)] = sum(map(self._of_node, graph.nodes))
            self._depth -= 1
        return self._counts[id(graph)]

    def _of_node(self, node: Node) -> int:
        function = self._model.functions.get((node.domain, node.op, node.overload))
        graphs = [g for x in node.attributes.values() for g in (x if isinstance(x, list) else [x])]
        total = 1 + sum(self.count(g) for g in graphs if isinstance(g, OnnxGraph))
        total += 0 if function is None else self.count(function.graph)
        if total > _MAX_NODES:
            raise OnnxError(f"{node}: expected at most {_MAX_NODES} nodes in a model, got {total} with its functions")
        return total


def _proto(source: Any) -> tuple[ModelProto, Path | None]:
    """The protobuf, and the file that it was read from."""
    if isinstance(source, ModelProto):
        return source, None
    if isinstance(source, bytes):
        return _parsed(source, "the bytes"), None
    if not isinstance(source, (str, Path)):
        raise OnnxError(f"expected the path of an ONNX model, its bytes or a ModelProto, got {type(source).__name__}")
    return _read(Path(source)), Path(source)


def _read(path: Path) -> ModelProto:
    """The protobuf in a file, which refers to the large constants in the file."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return _parsed(file.read(), str(path))
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        return ModelProto.FromString(referring(data, path.name))
    except (DecodeError, ValueError):
        return _parsed(bytes(data), str(path))


def _parsed(data: bytes, where: str) -> ModelProto:
    try:
        return ModelProto.FromString(data)
    except (DecodeError, ValueError) as error:
        raise OnnxError(
            f"expected an ONNX model in {where}, its {len(data)} bytes are no protobuf of one ({error}): "
            "is it complete?"
        ) from None


def _domain(name: str) -> str:
    return DOMAINS.get(name, name)


def _opsets(imports: Iterable[Any]) -> dict[str, int]:
    """The version of each operator set that is used."""
    opsets = {_domain(entry.domain): int(entry.version) for entry in imports} or {"": 1}
    version = opsets.get("", 1)
    if not 1 <= version <= _MAX_OPSET:
        raise OnnxError(f"expected an operator set from 1 to {_MAX_OPSET}, the newest that is known, got {version}")
    return opsets


class _Reader:
    """Reads the graphs of one model."""

    def __init__(self, file: Path | None, opsets: Mapping[str, int]) -> None:
        self._file, self._opsets = file, opsets

    def function(self, proto: FunctionProto) -> Function:
        """A function, with its operator sets."""
        own = _Reader(self._file, {**self._opsets, **_opsets(proto.opset_import)})
        inputs = tuple(map(Input, proto.input))
        known = {name for name in proto.input if name}
        nodes = own._nodes(proto.node, known, f"the function {proto.name!r}", known)
        outputs = tuple(map(Input, proto.output))
        defaults: dict[str, Any] = dict.fromkeys(proto.attribute)
        defaults |= {a.name: own._attribute(a, known) for a in proto.attribute_proto}
        return Function(OnnxGraph(proto.name, inputs, outputs, nodes, {}), defaults)

    def graph(self, proto: GraphProto, outer: frozenset[str]) -> OnnxGraph:
        """A graph, which may read the names `outer` of the enclosing graphs."""
        what = f"the graph {proto.name!r}"
        _expect_different([t.name for t in proto.initializer], f"constants of {what}")
        _expect_different([v.name for v in proto.input], f"inputs of {what}")
        constants = {t.name: self._array(t) for t in proto.initializer}
        constants |= {t.values.name: self._sparse(t) for t in proto.sparse_initializer}
        inputs = tuple(_input(v) for v in proto.input if v.name not in constants)
        own = {*constants, *(v.name for v in inputs)}
        known = {*outer, *own}
        nodes = self._nodes(proto.node, known, what, own)
        outputs = tuple(map(_input, proto.output))
        _expect_known(outputs, known, what)
        return OnnxGraph(proto.name, inputs, outputs, nodes, constants, proto if outer else None)

    def _nodes(self, protos: Iterable[NodeProto], known: set[str], what: str, own: Iterable[str]) -> tuple[Node, ...]:
        """Nodes; adds the names of their results to the known names. `own` are the graph's inputs and constants.

        Raises:
            OnnxError: a node reads an undefined name, or two nodes define the same name.
        """
        nodes, available = [], set(own)
        for proto in protos:
            node = self._node(proto, frozenset(known))
            for name in node.inputs:
                if name and name not in known:
                    raise OnnxError(
                        f"{node} in {what} reads {name!r}, which no input, constant or earlier node defines: "
                        "expected nodes in the order of their results, without a cycle"
                    )
            for name in filter(None, node.outputs):
                if name in available:
                    raise OnnxError(
                        f"{node} in {what} gives {name!r}, which an input, constant or another node gives, too"
                    )
                available.add(name)
                known.add(name)
            nodes.append(node)
        return tuple(nodes)

    def _node(self, proto: NodeProto, known: frozenset[str]) -> Node:
        if not all(isinstance(text, str) for text in (proto.op_type, proto.domain, proto.overload)):
            raise OnnxError(f"expected text as the operator of a node, got {proto.op_type!r} of {proto.domain!r}")
        domain = _domain(proto.domain)
        node = Node(
            proto.name, proto.op_type, domain, self._opsets.get(domain, 1), proto.overload, tuple(proto.input),
            tuple(proto.output), {},
        )  # fmt: skip
        try:
            attributes = {a.name: self._attribute(a, known) for a in proto.attribute}
        except OnnxError as error:
            raise OnnxError(f"{node}: {error.text}") from None
        return Node(**{**node.__dict__, "attributes": attributes})

    def _attribute(self, proto: AttributeProto, known: Iterable[str]) -> Any:
        """The value of an attribute: graphs are read, tensors are arrays, and text is decoded."""
        kinds = AttributeProto
        if proto.ref_attr_name:
            return Reference(proto.ref_attr_name)
        if proto.type == kinds.GRAPH:
            return self.graph(proto.g, frozenset(known))
        if proto.type == kinds.GRAPHS:
            return [self.graph(g, frozenset(known)) for g in proto.graphs]
        if proto.type == kinds.TENSOR:
            return self._array(proto.t)
        if proto.type == kinds.SPARSE_TENSOR:
            return self._sparse(proto.sparse_tensor)
        if proto.type == kinds.STRING:
            return proto.s.decode(errors="replace")
        if proto.type == kinds.STRINGS:
            return [s.decode(errors="replace") for s in proto.strings]
        try:
            value = onnx.helper.get_attribute_value(proto)
        except ValueError as error:
            raise OnnxError(f"attribute {proto.name!r}: {error}") from None
        return list(value) if proto.type in (kinds.INTS, kinds.FLOATS, kinds.TENSORS, kinds.TYPE_PROTOS) else value

    def _array(self, proto: TensorProto) -> np.ndarray:
        """The array of a constant.

        Raises:
            OnnxError: its type is not supported, or its bytes are not as many as its shape needs.
        """
        what, dims = f"the constant {proto.name!r}", tuple(proto.dims)
        if proto.data_type not in NAMES:
            raise OnnxError(f"{what} has elements that are {type_name(proto.data_type)}, which are not supported")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)
        if any(d < 0 for d in dims):
            raise OnnxError(f"expected sizes of at least 0 for {what}, got {list(dims)}")
        if proto.data_location == TensorProto.EXTERNAL:
            return self._external(proto, what, dims, dtype)
        bits = (2 if dtype.name in ("int2", "uint2") else 4) if dtype.name in PACKED else 8 * dtype.itemsize
        expected = -(-math.prod(dims) * bits // 8)
        if proto.HasField("raw_data"):
            _expect_bytes(expected, len(proto.raw_data), f"{what}, {dtype}{list(dims)}")
        try:
            return np.asarray(numpy_helper.to_array(proto))
        except (ValueError, TypeError) as error:
            raise OnnxError(f"expected the elements of {what}, {dtype}{list(dims)}: {error}") from None

    def _external(self, proto: TensorProto, what: str, dims: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An array in a file: mapped into memory from a file next to the model, read from the file of the model."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        if self._file is None:
            raise OnnxError(f"{what} is in another file; pass the path of the model, not its protobuf")
        is_embedded = entries.get("location", "") == self._file.name
        file = self._file if is_embedded else _inside(self._file.parent, entries.get("location", ""), what)
        size, needed = file.stat().st_size, math.prod(dims) * dtype.itemsize
        offset, length = (_number(entries, key, what) for key in ("offset", "length"))
        if dtype.name in PACKED:
            raise OnnxError(f"{what} has packed elements ({dtype}) in another file, which are not supported")
        if length:
            _expect_bytes(needed, length, f"{what}, {dtype}{list(dims)}")
        if offset < 0 or offset + needed > size:
            raise OnnxError(
                f"expected {needed} bytes for {what}, {dtype}{list(dims)}, at {offset} in {file}, which has {size}"
            )
        if not needed:
            return np.zeros(dims, dtype)
        dtype = dtype.newbyteorder("<")
        # A program's memory must be aligned, and the file of a model may be written again.
        if is_embedded or offset % dtype.alignment:
            return np.fromfile(file, dtype, math.prod(dims), offset=offset).reshape(dims)
        # A parameter that is trained is written to in memory, not in the file.
        return np.memmap(file, dtype, "c", offset, dims)

    def _sparse(self, proto: Any) -> np.ndarray:
        """A sparse constant, written out."""
        dims = tuple(proto.dims)
        if any(d < 0 for d in dims) or math.prod(dims) > _MAX_SPARSE_ELEMENTS:
            raise OnnxError(
                f"expected at most {_MAX_SPARSE_ELEMENTS} elements in a sparse constant, got {list(dims)}"
            )
        values, indices = self._array(proto.values), self._array(proto.indices)
        dense = np.zeros(dims, values.dtype)
        try:
            np.put(dense, indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims), values)
        except (ValueError, IndexError) as error:
            raise OnnxError(f"expected positions in {list(dims)} for the sparse constant: {error}") from None
        return dense


def _expect_bytes(expected: int, count: int, what: str) -> None:
    if count != expected:
        raise OnnxError(f"expected {expected} bytes for {what}, got {count}: is the model complete?")


def _number(entries: Mapping[str, str], key: str, what: str) -> int:
    """A number of the reference to a file, 0 unless given."""
    try:
        return int(entries.get(key, 0))
    except ValueError:
        raise OnnxError(f"expected a number as {key} of {what}, got {entries[key]!r}") from None


def _inside(folder: Path, location: str, what: str) -> Path:
    """The file of an array.

    Raises:
        OnnxError: the path is no file, or not in the folder of the model.
    """
    root, file = folder.resolve(), (folder / location).resolve()
    if not location or not file.is_relative_to(root) or Path(location).is_absolute():
        raise OnnxError(f"expected {what} in a file in the model's folder {root}, got {location!r}")
    if not file.is_file():
        raise OnnxError(f"expected {what} in {file}: there is no such file")
    return file


def _input(proto: Any) -> Input:
    """The type of an input or a result."""
    kind = proto.type.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        return Input(proto.name, None)
    of = proto.type.tensor_type
    if not of.HasField("shape"):
        return Input(proto.name, of.elem_type)
    return Input(proto.name, of.elem_type, tuple(map(_dimension, of.shape.dim)))


def _dimension(proto: Any) -> int | str | None:
    """A size; some exporters write dynamic sizes as -1."""
    if proto.HasField("dim_value"):
        return int(proto.dim_value) if proto.dim_value >= 0 else None
    return str(proto.dim_param) or None


def _expect_different(names: Sequence[str], what: str) -> None:
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise OnnxError(f"expected different names for the {what}, got {repeated!r} twice")


def _expect_known(outputs: Iterable[Input], known: Iterable[str], what: str) -> None:
    for output in outputs:
        if output.name not in known:
            raise OnnxError(f"{what} returns {output.name!r}, which no input, constant or node defines")


def function_of(source: FunctionProto | bytes, version: int) -> Function:
    """A function of the standard."""
    proto = FunctionProto.FromString(source) if isinstance(source, bytes) else source
    imports = {_domain(entry.domain): int(entry.version) for entry in proto.opset_import}
    return _Reader(None, {"": version, **imports}).function(proto)
