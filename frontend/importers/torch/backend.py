"""The backend `oneflow` of `torch.compile`: each graph of AOTAutograd is a program of this library.

    compiled = torch.compile(model, backend="oneflow")

PyTorch finds the backend by its entry point. A graph with operators that have no counterpart runs in eager PyTorch,
with a warning that names these operators; `options={"fallback": False}` makes that an error.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext

from oneflow.frontend.compile.compiled import CompiledFunction
from oneflow.frontend.core.devices import device as named_device
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.importers.torch.decompositions import decompositions
from oneflow.frontend.importers.torch.errors import UnsupportedError
from oneflow.frontend.importers.torch.exchange import to_array, to_tensor
from oneflow.frontend.importers.torch.fx_interpreter import FxInterpreter
from oneflow.frontend.importers.torch.output_views import output_views
from oneflow.frontend.methods import inplace, methods  # noqa: F401  adds the methods of tensors

#: The options of `torch.compile(.., options=..)`, with their defaults.
OPTIONS = {"fallback": True}


def backend(module: fx.GraphModule, example_inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
    """A graph of PyTorch functions as programs: forward, and where gradients are needed backward.

    Raises:
        CallError: an option is unknown.
        UnsupportedError: operators have no counterpart, and the option `fallback` is false.
    """
    options = OPTIONS | (unused.get("options") or {})
    if options.keys() != OPTIONS.keys():
        raise CallError(f"expected options among {sorted(OPTIONS)}, got {sorted(options.keys() - OPTIONS.keys())}")
    forward = functools.partial(compiled, fallback=options["fallback"])
    backward = functools.partial(compiled, fallback=options["fallback"], is_backward=True)
    compiler = aot_autograd(
        fw_compiler=forward, bw_compiler=backward, inference_compiler=forward, decompositions=decompositions()
    )
    programs: Callable[..., Any] = compiler(module, example_inputs)
    return programs


def compiled(module: fx.GraphModule, _: Sequence[Any], fallback: bool, is_backward: bool = False) -> Any:
    """A graph of ATen operators as a function of a list of inputs, which it empties.

    Raises:
        UnsupportedError: operators have no counterpart, and there is no `fallback`.
    """
    try:
        return Program(module, 0, ()) if is_backward else _forward_program(module)
    except UnsupportedError as error:
        if not fallback:
            raise
        warnings.warn(f"backend oneflow: a graph runs in eager PyTorch: {error}", stacklevel=2)
        return make_boxed_func(module)


def _forward_program(module: fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
    """A forward graph as a function of a list of inputs, whose results share memory as in PyTorch."""
    count, static = _count_forward_results(module), _static_inputs()
    views = output_views(module, count)
    if views is None:
        return Program(module, count, static)
    program = Program(views.computed, views.count, static)

    def run(inputs: list[Any]) -> list[Any]:
        return views.results(inputs, program(list(inputs)))

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _static_inputs() -> Sequence[int]:
    """The indices of the inputs whose memory does not move between calls: parameters and buffers."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return () if metadata is None else metadata.static_input_indices


def _count_forward_results(module: fx.GraphModule) -> int:
    """The number of results that leave AOTAutograd; the results after these are saved for the backward graph."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    outputs = len(module.graph.output_node().args[0])
    return outputs if metadata is None else min(metadata.num_forward_returns, outputs)


class Program:
    """A graph as a compiled program for PyTorch's tensors: a function of a list of inputs, which it empties.

    The first `forward_results` results leave AOTAutograd, the others are saved for the backward graph. The inputs
    `static` are converted to arrays once.
    """

    def __init__(self, module: fx.GraphModule, forward_results: int, static: Sequence[int] = ()) -> None:
        self._boxed_call = True  # PyTorch's mark of such functions, which it looks for in the instance
        self.graph = FxInterpreter(module)
        nodes = [n for n in self.graph.nodes if n.op == "placeholder"]
        self._used = [i for i, source in enumerate(self.graph.inputs) if source.spec is not None]
        self._arrays: dict[int, _StaticInput] = {i: _StaticInput() for i in static if i in self._used}
        self._inputs_returned = [_returned_input(x, nodes) for x in self.graph.outputs]
        self._results = [
            _result(x, i < forward_results)
            for i, x in enumerate(self.graph.outputs)
            if self._inputs_returned[i] is None
        ]
        self._run = self._compile(_device_of(nodes)) if self._results else _nothing

    def _compile(self, device: str) -> Callable[[Sequence[Any]], list[Any]]:
        def graph(*tensors: Any) -> Any:
            pairs = zip(self.graph.run(tensors), self._inputs_returned, strict=True)
            return [x for x, constant in pairs if constant is None]

        return CompiledFunction(graph, self.graph.specs, named_device(device)).on_arrays()

    def __call__(self, inputs: list[Any]) -> list[Any]:
        arrays, static = [], self._arrays
        for number in self._used:
            value = inputs[number]
            arrays.append(static[number].array(value) if number in static else _as_array(value))
        values = [None if get is None else get(inputs) for get in self._inputs_returned]
        inputs.clear()
        results = [make(array) for make, array in zip(self._results, self._run(arrays), strict=True)]
        if len(results) == len(values):
            return results
        rest = iter(results)
        return [next(rest) if get is None else x for get, x in zip(self._inputs_returned, values, strict=True)]


class _StaticInput:
    """A tensor whose memory does not move, with its array."""

    __slots__ = ("_address", "_array", "_tensor")

    def __init__(self) -> None:
        self._tensor: Any = None
        self._address = 0
        self._array: Any = None

    def array(self, tensor: Any) -> Any:
        """The array of a tensor, which is made again where the tensor is another or its memory has moved."""
        if tensor is not self._tensor or tensor.data_ptr() != self._address:
            self._tensor, self._address, self._array = tensor, tensor.data_ptr(), to_array(tensor)
        return self._array


def _returned_input(output: Any, placeholders: list[fx.Node]) -> Callable[[list[Any]], Any] | None:
    """The getter of a result that is an input or a constant; None for a computed result."""
    if not isinstance(output, fx.Node):
        return lambda _: output
    return operator.itemgetter(placeholders.index(output)) if output in placeholders else None


def _result(output: fx.Node, is_forward_result: bool) -> Callable[[Any], Any]:
    """The conversion of an array to a computed result: a tensor, or a number."""
    value = output.meta["val"]
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return _number
    order = _layout(value) if is_forward_result else None
    return to_tensor if order is None else lambda array: _in_layout(to_tensor(array), order)


def _number(array: Any) -> int | float:
    """The element of an array on any device."""
    element: int | float = np.asarray(array).item()
    return element


def _nothing(_: Sequence[Any]) -> list[Any]:
    return []


def _as_array(value: Any) -> Any:
    """An input as an array; a size is the length of one without elements."""
    if isinstance(value, (float, torch.SymFloat)):
        return np.array(float(value))
    return to_array(value) if isinstance(value, torch.Tensor) else np.empty((int(value), 0), np.int8)


def _layout(value: torch.Tensor) -> tuple[int, ...] | None:
    """The order of dimensions in memory, from the outermost, where PyTorch's differs from the order of the shape."""
    if value.is_contiguous():
        return None
    order = sorted(range(value.dim()), key=lambda d: -int(value.stride(d)))
    return None if order == sorted(order) else tuple(order)


def _in_layout(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """A tensor with its dimensions in an order in memory: AOTAutograd builds views of results by their strides."""
    back = [order.index(d) for d in range(len(order))]
    return tensor.permute(order).contiguous().permute(back)


def _device_of(nodes: Sequence[fx.Node]) -> str:
    """The device of the inputs; numbers may be on the host.

    Raises:
        UnsupportedError: the device is neither a CPU nor a CUDA device.
    """
    tensors = [n.meta["val"] for n in nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    devices = sorted({str(t.device) for t in tensors if t.dim()} or {str(t.device) for t in tensors} or {"cpu"})
    if len(devices) > 1 or not devices[0].startswith(("cpu", "cuda")):
        raise UnsupportedError([f"tensors on {', '.join(devices)}"])
    return devices[0]
