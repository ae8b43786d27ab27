"""Programs of ONNX models: modules with the model's constants as parameters, called with its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType
from oneflow.frontend.compile.compiled import CompiledFunction
from oneflow.frontend.compile.compiled import compile as compile_function
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.core.mode import tracing
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.importers.onnx.errors import OnnxError, ValueNeeded
from oneflow.frontend.importers.onnx.graph import Input, Model, Node, OnnxGraph
from oneflow.frontend.importers.onnx.host import MAX_ELEMENTS
from oneflow.frontend.importers.onnx.interpreter import Interpreter, from_array
from oneflow.frontend.importers.onnx.reader import read_model
from oneflow.frontend.importers.onnx.table import find_builder
from oneflow.frontend.importers.onnx.types import (
    SMALL,
    Codes,
    from_host,
    to_host,
    type_name,
    type_of_number,
)
from oneflow.frontend.nn.module import Module, Parameter
from oneflow.frontend.tracing.trace import trace


def from_onnx(model: Any, *, device: Any = None, max_programs: int = 64) -> OnnxProgram:
    """The program of an ONNX model.

    Args:
        model: the path of a model, whose constants may be in files next to it; its bytes; or a `ModelProto`.
        device: where the program runs; see `flow.compile`.
        max_programs: the most programs for several values of inputs that are kept.

    Raises:
        OnnxError: the model is malformed, or uses what is not supported; the node and its operator are named.
    """
    program = OnnxProgram(read_model(model), device, max_programs)
    return program if device is None else program.to(device)


class OnnxProgram(Module):
    """A model as a function of its inputs, by position or by name.

    Inputs are arrays or tensors, lists of them for sequences, and None for what an optional leaves out. Results are
    arrays where all inputs are arrays, else tensors: the only one, or a tuple. Constants of floating-point type with
    dimensions are parameters under the model's names; they require no grad unless told otherwise.

    A call compiles a program for the shapes of its inputs. Inputs whose values decide shapes or branches are part of
    the program by value. A model in which computed values decide shapes runs operator by operator.
    """

    def __init__(self, model: Model, device: Any = None, max_programs: int = 64) -> None:
        super().__init__()
        graph = _with_constants(model.graph)
        object.__setattr__(self, "model", Model(graph, model.functions, model.opsets))
        on_host = set(_read_on_the_host(graph.nodes))
        parameters = {n: a for n, a in graph.constants.items() if _is_parameter(a) and n not in on_host}
        for name, array in parameters.items():
            self.register_parameter(name, Parameter(np.require(array, requirements="W"), requires_grad=False))
        object.__setattr__(self, "_device", device)
        object.__setattr__(self, "_max_programs", max(max_programs, 1))
        object.__setattr__(self, "_known", frozenset[str]())
        object.__setattr__(self, "_runs_eagerly", False)
        object.__setattr__(self, "_compiled", dict[Any, CompiledFunction]())

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of the model, with their types."""
        result: tuple[Input, ...] = self.model.graph.inputs
        return result

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results."""
        return tuple(output.name for output in self.model.graph.outputs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The results for inputs by position or by name.

        Raises:
            CallError: an input is missing or has another type than the model says.
        """
        results = self.run(self.bind(args, kwargs))
        return results[0] if len(results) == 1 else tuple(results)

    def bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name.

        Raises:
            CallError: an input is missing, unknown, given twice, or has another type than the model says.
        """
        names = [i.name for i in self.inputs]
        if len(args) > len(names):
            raise CallError(f"expected at most {len(names)} inputs, {', '.join(names)}, got {len(args)}")
        bound = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name not in names or name in bound:
                wrong = "given twice" if name in bound else f"not one of {', '.join(names)}"
                raise CallError(f"the input {name!r} is {wrong}")
            bound[name] = value
        missing = [n for n in names if n not in bound]
        if missing:
            raise CallError(f"expected the input {missing[0]!r}: the model has {', '.join(names)}")
        return {i.name: _checked(i, bound[i.name]) for i in self.inputs}

    def run(self, feeds: Mapping[str, Any], eager: bool = False) -> list[Any]:
        """The results for the inputs by name, all of them in order.

        With `eager` the model runs operator by operator.
        """
        if tracing():
            return _traced(self._interpreter(self._parameters), feeds)
        if not (eager or self._runs_eagerly):
            try:
                return self._run_compiled(feeds)
            except ValueNeeded:
                object.__setattr__(self, "_runs_eagerly", True)
        return self._run_eagerly(feeds)

    def _interpreter(self, parameters: Mapping[str, Any]) -> Interpreter:
        """An interpreter that reads tensors in place of the constants of these names."""
        constants = self.model.graph.constants
        return Interpreter(self.model, {id(constants[name]): tensor for name, tensor in parameters.items()})

    def _run_eagerly(self, feeds: Mapping[str, Any]) -> list[Any]:
        as_arrays = not any(isinstance(v, Tensor) for v in feeds.values())
        results = self._interpreter(self._parameters).run({k: _eager(v) for k, v in feeds.items()})
        return [_as_result(v, as_arrays) for v in results]

    def _run_compiled(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Runs the program for the feeds; inputs whose values it asks for are made part of it."""
        while True:
            plain = {k: v for k, v in feeds.items() if k not in self._known and _is_plain(v)}
            fixed = {k: _fixed(v) for k, v in feeds.items() if k not in plain}
            key = tuple(plain), tuple((k, _value_key(v)) for k, v in fixed.items())
            if key not in self._compiled:
                if len(self._compiled) == self._max_programs:
                    del self._compiled[next(iter(self._compiled))]
                self._compiled[key] = self._compile(tuple(plain), fixed)
            try:
                results = self._compiled[key](*plain.values())
            except ValueNeeded as needed:
                del self._compiled[key]
                if needed.inputs <= self._known or any(_is_large(feeds[name]) for name in needed.inputs):
                    raise
                object.__setattr__(self, "_known", self._known | needed.inputs)
                continue
            as_arrays = not any(isinstance(v, Tensor) for v in feeds.values())
            return [_as_result(v, as_arrays) for v in _joined(results)]

    def _compile(self, names: Sequence[str], fixed: Mapping[str, Any]) -> CompiledFunction:
        def model(*tensors: Any) -> Any:
            feeds = {**dict(zip(names, tensors, strict=True)), **fixed}
            return _traced(self._interpreter(self._parameters), feeds)

        return compile_function(model, device=self._device)

    def specs(self, shapes: Mapping[str, Sequence[int | None]] | None = None) -> list[TensorSpec]:
        """The specs of the inputs for a trace: the types that the model states, or other sizes by name.

        Raises:
            OnnxError: a type or a rank is open.
        """
        return [_spec(i, (shapes or {}).get(i.name)) for i in self.inputs]

    def call_of_specs(self) -> tuple[Callable[..., Any], list[TensorSpec]]:
        """A function of the model's tensors, and the specs of the tensors.

        Raises:
            OnnxError: a type or a rank is open.
        """
        return self, self.specs()

    def trace(self, shapes: Mapping[str, Sequence[int | None]] | None = None, name: str = "main") -> ir.Module:
        """The model as a module of the dialect, its parameters as further arguments under their names.

        Args:
            shapes: the sizes of inputs by name, None for dynamic sizes; missing sizes are as in the model.
            name: the name of the function.

        Raises:
            OnnxError: a shape follows from the values of inputs, or a rank is open.
        """
        specs = self.specs(shapes)
        state = dict(self._parameters)
        of = [TensorSpec(v.shape, v.dtype, k) for k, v in state.items()]

        def model(inputs: list[Any], parameters: list[Any]) -> Any:
            interpreter = self._interpreter(dict(zip(state, parameters, strict=True)))
            results = _traced(interpreter, dict(zip((i.name for i in self.inputs), inputs, strict=True)))
            return dict(zip(self.outputs, results, strict=True))

        try:
            return trace(model, specs, of, name=name)
        except ValueNeeded as needed:
            raise OnnxError(
                f"{needed}: such a model is no single program; give sizes as numbers, or call it with its inputs"
            ) from None


def _is_large(value: Any) -> bool:
    """Whether a value is data, which no program is specialized to."""
    return isinstance(value, Tensor | np.ndarray) and bool(np.prod(value.shape) > MAX_ELEMENTS)


def _traced(interpreter: Interpreter, feeds: Mapping[str, Any]) -> list[Any]:
    """The results of a model as a trace returns them: codes with the name of their type next to them."""

    def result(value: Any) -> Any:
        if isinstance(value, list):
            return [result(v) for v in value]
        if isinstance(value, np.ndarray) and value.dtype.name in SMALL:
            value = from_host(value)
        if isinstance(value, Codes):
            return (value.tensor, value.type.name)
        return interpreter.tensor(value) if isinstance(value, np.ndarray) else value

    return [result(value) for value in interpreter.run(feeds)]


def _with_constants(graph: OnnxGraph) -> OnnxGraph:
    """The graph with arrays of Constant nodes among its constants."""
    lifted = {n.outputs[0]: n.attributes["value"] for n in graph.nodes if _is_constant(n)}
    nodes = tuple(n for n in graph.nodes if not _is_constant(n))
    return OnnxGraph(graph.name, graph.inputs, graph.outputs, nodes, {**graph.constants, **lifted})


def _is_constant(node: Node) -> bool:
    value = node.attributes.get("value")
    return node.op == "Constant" and not node.domain and len(node.outputs) == 1 and isinstance(value, np.ndarray)


def _read_on_the_host(nodes: Iterable[Node]) -> Iterator[str]:
    """The names of operands that builders take as arrays, such as the scales of Resize: no gradient reaches them."""
    for node in nodes:
        row = find_builder(node.domain, node.op, node.version)
        operands = () if row is None else zip(node.inputs, row.operands, strict=False)
        yield from (name for name, operand in operands if row is not None and operand in row.known)
        for attribute in node.attributes.values():
            if isinstance(attribute, OnnxGraph):
                yield from _read_on_the_host(attribute.nodes)


def _is_parameter(array: np.ndarray) -> bool:
    return array.ndim > 0 and array.dtype.name in ("float16", "bfloat16", "float32", "float64")


def _checked(of: Input, value: Any) -> Any:
    """The value of an input: a tensor, an array, a list or None.

    Raises:
        CallError: it has another type than the model says.
    """
    if value is None or of.type is None:
        return value
    if isinstance(value, (list, tuple)) and any(map(is_array, value)):
        return list(value)
    if not isinstance(value, Tensor):
        value = np.asarray(value)
        if value.dtype.name not in SMALL:
            try:
                value = to_array(value)
            except TypeError as error:
                raise CallError(f"the input {of.name!r}: {error}") from None
    wanted = type_of_number(of.type) if of.type else None
    if of.type and wanted is None:
        raise CallError(f"the input {of.name!r} has elements that are {type_name(of.type)}, which are not supported")
    name = value.dtype.name
    sizes = tuple(value.shape)
    fits = of.shape is None or (
        len(of.shape) == len(sizes)
        and all(not isinstance(d, int) or n in (d, None) for d, n in zip(of.shape, sizes, strict=True))
    )
    if not fits or (wanted is not None and name != wanted.name):
        raise CallError(f"expected the input {of.name!r} of type {_written(of)}, got {name}{list(sizes)}")
    return value


def _written(of: Input) -> str:
    shape = "[..]" if of.shape is None else "[" + ", ".join("?" if d is None else str(d) for d in of.shape) + "]"
    return f"{type_name(of.type) if of.type else '?'}{shape}"


def _spec(of: Input, shape: Sequence[int | None] | None) -> TensorSpec:
    """The spec of an input for a trace.

    Raises:
        OnnxError: its type or its rank is open.
    """
    dtype = type_of_number(of.type or 0)
    sizes = shape if shape is not None else of.shape
    if not isinstance(dtype, DType) or sizes is None:
        raise OnnxError(f"expected a tensor of a known type and rank as the input {of.name!r}, got {_written(of)}")
    return TensorSpec([d if isinstance(d, int) else None for d in sizes], dtype, of.name)


def _is_plain(value: Any) -> bool:
    """Whether a value is passed to a compiled program as a tensor."""
    return isinstance(value, Tensor) or (isinstance(value, np.ndarray) and value.dtype.name not in SMALL)


def _fixed(value: Any) -> Any:
    """A value that is part of a program, as the interpreter takes it."""
    if isinstance(value, list):
        return [_fixed(v) for v in value]
    return value.numpy() if isinstance(value, EagerTensor) else value


def _value_key(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_value_key, value))
    return None if value is None else (value.shape, value.dtype.name, value.tobytes())


def _eager(value: Any) -> Any:
    """A value as eager mode takes it."""
    if isinstance(value, list):
        return [_eager(v) for v in value]
    if isinstance(value, np.ndarray):
        return from_host(value) if value.dtype.name in SMALL else as_tensor(value)
    return value


def _joined(results: Sequence[Any]) -> list[Any]:
    """The results of a compiled function, codes with their types."""
    return [
        Codes(v[0], SMALL[v[1]]) if isinstance(v, tuple) else _joined(v) if isinstance(v, list) else v
        for v in results
    ]


def _as_result(value: Any, as_array: bool) -> Any:
    """A result as the caller receives it."""
    if isinstance(value, list):
        return [_as_result(v, as_array) for v in value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = from_array(value)
    if isinstance(value, Codes):
        array = value.tensor.numpy() if isinstance(value.tensor, EagerTensor) else np.asarray(value.tensor)
        return to_host(array, value.type)
    if as_array:
        return value.numpy() if isinstance(value, EagerTensor) else value
    return as_tensor(value) if isinstance(value, np.ndarray) else value
