"""An interpreter of FX graphs of functional ATen operators, with tensors of this library.

In a trace the interpreter records the operations of a program, in eager mode it computes the values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from oneflow.dialect.dtypes import DType
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.dispatch import as_tensor, current_builder
from oneflow.frontend.core.errors import OneFlowError, SourceLocation, located, user_location
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.importers.torch import aten  # noqa: F401  fills the table
from oneflow.frontend.importers.torch.errors import UnsupportedError
from oneflow.frontend.importers.torch.exchange import dtype_of, to_array
from oneflow.frontend.importers.torch.sizes import Sizes
from oneflow.frontend.importers.torch.table import ATEN, Result, name_of
from oneflow.frontend.importers.torch.updates import counterpart, updated_values

#: Operators that compute nothing: checks of sizes and types.
_CHECKS = re.compile(r"_assert_|sym_constrain_range|_functional_assert|assert_async")
#: Arguments for the device and the memory layout of a tensor.
_IN_MEMORY = frozenset(("layout", "device", "pin_memory", "memory_format", "non_blocking"))
#: The errors that builders raise on unsupported arguments.
_REFUSALS = (OneFlowError, TypeError, ValueError, IndexError, KeyError, OverflowError, NotImplementedError)
#: A frame in the text of a stack.
_STACK_FRAME = re.compile(r'File "(.+)", line (\d+)')


@dataclass(frozen=True)
class Input:
    """A placeholder: a tensor, a size (`spec` of `size_spec`), a floating-point number, or None for a
    value that the program does not use.
    """

    name: str
    value: Any
    spec: TensorSpec | None


def _function(module: fx.GraphModule, node: fx.Node) -> fx.GraphModule | None:
    """The graph that a `get_attr` node refers to, which a higher-order operator runs."""
    value = getattr(module, node.target) if node.op == "get_attr" and hasattr(module, node.target) else None
    return value if isinstance(value, fx.GraphModule) else None


def size_spec(name: str) -> TensorSpec:
    """A size as an argument: the first dimension of a tensor without elements."""
    return TensorSpec((None, 0), dtype_of(torch.int8), name)


class FxInterpreter:
    """Runs an FX graph whose operators are in the table.

    Raises:
        UnsupportedError: operators are not in the table (the message has all of them, with the reasons), or the graph
            updates tensors that may share memory with other tensors.
    """

    def __init__(self, module: fx.GraphModule, names: dict[str, str] | None = None) -> None:
        self.module = module
        needed = _needed(module.graph)
        self.nodes = [n for n in module.graph.nodes if n in needed]
        missing = sorted({_name(n) for n in self.nodes if n.op == "call_function" and not _is_known(n)})
        missing += [f"the call {n.target}" for n in self.nodes if n.op in ("call_module", "call_method")]
        if missing:
            raise UnsupportedError(missing)
        names = names or {}
        self._updated_values = updated_values(self.nodes)
        self.functions = {n.target: FxInterpreter(f) for n in self.nodes if (f := _function(module, n)) is not None}
        self.inputs = [_input(n, names.get(n.name, n.name)) for n in self.nodes if n.op == "placeholder"]

    @property
    def outputs(self) -> Sequence[Any]:
        """The nodes, numbers and None values that the graph returns."""
        returned: Any = self.nodes[-1].args[0]
        return returned if isinstance(returned, (list, tuple)) else [returned]

    @property
    def specs(self) -> list[TensorSpec]:
        """The types of the inputs that are tensors or sizes."""
        return [i.spec for i in self.inputs if i.spec is not None]

    def run(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The results of the graph for its inputs that are tensors or sizes.

        Raises:
            UnsupportedError: an operator does not take the arguments that it is called with.
        """
        sizes, rest = Sizes(), iter(tensors)
        values: dict[fx.Node, Any] = {}
        placeholders = (n for n in self.nodes if n.op == "placeholder")
        for node, known in zip(placeholders, self.inputs, strict=True):
            values[node] = known.value if known.spec is None else _bound(node, next(rest), sizes)
        for node in self.nodes:
            if node.op == "get_attr" and node.target in self.functions:
                values[node] = self.functions[node.target].run
            elif node.op == "get_attr":
                values[node] = _constant(getattr(self.module, node.target))
            elif node.op == "call_function":
                with located(source_location_of(node)):
                    values[node] = _called(node, values, sizes)
                values |= dict.fromkeys(self._updated_values.get(node, ()), values[node])
        return list(fx.node.map_arg(list(self.outputs), values.__getitem__))


def _constant(tensor: torch.Tensor) -> Tensor:
    """A constant of the graph, with elements also while PyTorch traces with fake tensors."""
    with unset_fake_temporarily():
        return as_tensor(to_array(tensor))


def _bound(node: fx.Node, tensor: Tensor, sizes: Sizes) -> Any:
    """An input; its symbolic sizes are bound."""
    value = node.meta["val"]
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        number = tensor.size(0) if isinstance(value, torch.SymInt) else tensor
        sizes.bind(value, number)
        return number
    for at, size in enumerate(value.shape):
        sizes.bind(size, tensor.size(at))
    return tensor


def _input(node: fx.Node, name: str) -> Input:
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return Input(name, None, size_spec(name))
    if isinstance(value, torch.SymFloat):
        return Input(name, None, TensorSpec((), dtype_of(torch.float64), name))
    if not isinstance(value, torch.Tensor):
        return Input(name, value, None)
    shape = [d if isinstance(d, int) else None for d in value.shape]
    return Input(name, None, TensorSpec(shape, dtype_of(value.dtype), name))


def _needed(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that results and updates depend on, and all that are no calls."""
    needed: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        is_read = not needed.isdisjoint(node.users) or counterpart(node) is not None
        if node.op != "call_function" or (is_read and not _CHECKS.search(str(node.target))):
            needed.add(node)
    return needed


def _is_known(node: fx.Node) -> bool:
    return _is_number(node) or _name(node) in ATEN or node.target.__name__ == "getitem"


def _is_number(node: fx.Node) -> bool:
    """Whether the result is a number that is computed from sizes."""
    value = node.meta.get("val")
    return isinstance(value, (int, float, torch.SymInt, torch.SymFloat)) and not isinstance(value, bool)


def _name(node: fx.Node) -> str:
    """The name of the operator of a node, as in the table; for an update, the operator that computes the result."""
    return name_of(counterpart(node) or node.target)


def source_location_of(node: fx.Node) -> SourceLocation:
    """The line of the user's program that made a node; without a line, a location with the name of the node."""
    lines = _STACK_FRAME.findall(node.meta.get("stack_trace") or "")
    return SourceLocation(lines[-1][0], int(lines[-1][1]), 1) if lines else SourceLocation(f"<{node.name}>", 1, 1)


def _called(node: fx.Node, values: dict[fx.Node, Any], sizes: Sizes) -> Any:
    """The result of one call."""
    meta = node.meta.get("val")
    if _is_number(node):
        return None if all(map(_is_number, node.users)) else sizes.value(meta)
    args, kwargs = (_read(x, values) for x in (node.args, node.kwargs))
    if node.target.__name__ == "getitem":
        return args[0][args[1]]
    row = ATEN[_name(node)]
    kwargs = {k: v for k, v in kwargs.items() if k not in _IN_MEMORY}
    expected = _results(meta, sizes)
    if row.takes_result:
        kwargs["out"] = expected
    try:
        result = row.build(*args, **kwargs)
    except _REFUSALS as error:
        text = error.text if isinstance(error, OneFlowError) else f"{type(error).__name__}: {error}"
        raise UnsupportedError([f"{_name(node)}: {text}"], user_location()) from error
    return _checked(node, result, expected)


def _read(argument: Any, values: dict[fx.Node, Any]) -> Any:
    """An argument with tensors for nodes, and the types of this library for PyTorch's."""
    if isinstance(argument, (list, tuple)):
        return [_read(x, values) for x in argument]
    if isinstance(argument, dict):
        return {k: v if k in _IN_MEMORY else _read(v, values) for k, v in argument.items()}
    if isinstance(argument, fx.Node):
        return values[argument]
    return dtype_of(argument) if isinstance(argument, torch.dtype) else argument


def _results(meta: Any, sizes: Sizes) -> Any:
    """PyTorch's description of the results: sizes and element types of tensors."""
    if isinstance(meta, (list, tuple)):
        return [_results(x, sizes) for x in meta]
    if not isinstance(meta, torch.Tensor):
        return meta
    return Result(tuple(map(sizes.value, meta.shape)), _known_dtype(meta.dtype))


def _known_dtype(dtype: torch.dtype) -> DType | None:
    """An element type; None for one that only results have which nothing reads."""
    try:
        return dtype_of(dtype)
    except UnsupportedError:
        return None


def _checked(node: fx.Node, result: Any, expected: Any) -> Any:
    """The results in the element types, and with the static sizes, that they have in PyTorch.

    Raises:
        UnsupportedError: a result has another shape than in PyTorch.
    """
    if isinstance(result, (list, tuple)) and isinstance(expected, list):
        return [_checked(node, f, e) for f, e in zip(result, expected, strict=False)]
    if not isinstance(result, Tensor) or not isinstance(expected, Result):
        return result
    same = len(result.shape) == len(expected.shape) and all(
        a is None or not isinstance(b, int) or a == b for a, b in zip(result.shape, expected.shape, strict=True)
    )
    if not same:
        raise UnsupportedError(
            [f"{_name(node)}: expected {list(expected.shape)}, built {result.desc}"], user_location()
        )
    result = _with_known_sizes(result, expected.shape)
    return result if expected.dtype is None else cast(result, expected.dtype)


def _with_known_sizes(tensor: Tensor, sizes: Sequence[Any]) -> Tensor:
    """A tensor with the sizes that PyTorch knows as numbers, such as the size of the last element of a dimension."""
    known = tuple(b if a is None and isinstance(b, int) else a for a, b in zip(tensor.shape, sizes, strict=True))
    if known == tuple(tensor.shape):
        return tensor
    builder = current_builder()
    refined: Tensor = builder.to_tensor(builder.retype(tensor, TensorDesc(known, tensor.dtype)))
    return refined
