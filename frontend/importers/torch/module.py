"""`flow.from_torch`: a PyTorch model as a module of this library."""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from oneflow.dialect._mlir import ir
from oneflow.frontend.compile.compiled import CompiledFunction, checked_spec
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.dispatch import as_tensor, current_builder
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.core.mode import tracing
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.importers.torch.decompositions import functional
from oneflow.frontend.importers.torch.exchange import to_array, to_tensor
from oneflow.frontend.importers.torch.fx_interpreter import FxInterpreter
from oneflow.frontend.methods import inplace, methods  # noqa: F401  adds the methods of tensors
from oneflow.frontend.nn.module import Module, Parameter, SignatureOf
from oneflow.frontend.tracing.trace import trace

_STATE = (InputKind.PARAMETER, InputKind.BUFFER)
#: Arguments that are no trees of arguments.
_TENSORS = (torch.Tensor, np.ndarray, Tensor)
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def from_torch(
    model: torch.nn.Module | ExportedProgram,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> TorchModule:
    """A PyTorch model as a module of this library.

    Args:
        model: a module, or an exported program, which needs no further arguments.
        args, kwargs: example arguments; sizes of 2 and more may be dynamic.
        dynamic_shapes: the dynamic dimensions, in the form of `torch.export.export`.

    Raises:
        CallError: the model is neither.
        UnsupportedError: the model has operators that have no counterpart; all are named.
    """
    if isinstance(model, torch.nn.Module):
        arguments = tuple(args) if isinstance(args, (tuple, list)) else (args,)
        model = torch.export.export(model, arguments, dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    if not isinstance(model, ExportedProgram):
        raise CallError(f"expected a torch.nn.Module or a torch.export.ExportedProgram, got {type(model).__name__}")
    return TorchModule(model)


def read_torch(path: str) -> TorchModule:
    """A file that `torch.export.save` wrote, as a module of this library.

    Raises:
        CallError: the file is not such a file.
        UnsupportedError: the model has operators that have no counterpart; all are named.
    """
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("another kind of file" if Path(path).is_file() else "no file")
        exported = torch.export.load(path)
    except Exception as error:  # PyTorch does not document its exceptions for broken files
        text = " ".join(str(error).split())[:200]
        raise CallError(f"cannot read {path}: expected a file of torch.export.save, got {text}") from None
    return TorchModule(exported)


class TorchModule(Module):
    """An exported program as a module, whose parameters and buffers have PyTorch's names and share its memory.

    A call has the arguments and results of the model: tensors of PyTorch, arrays of NumPy, or tensors of this
        library, which
    record gradients. The call is compiled once for all dynamic sizes. Inside a traced function it is a part of the
    trace.
    """

    def __init__(self, exported: ExportedProgram) -> None:
        super().__init__()
        self._exported = exported = functional(exported)
        self._call_spec = exported.call_spec  # PyTorch makes another object for each access
        inputs = exported.graph_signature.input_specs
        self._graph = FxInterpreter(exported.graph_module, {s.arg.name: s.target or s.arg.name for s in inputs})
        for spec in inputs:
            if spec.kind in _STATE:
                self._register(spec.target, spec.kind, _tensor(exported, spec.target))

    def _register(self, name: str, kind: InputKind, tensor: torch.Tensor) -> None:
        """Adds a parameter or a buffer, with modules for the parts of its name."""
        *path, last = name.split(".")
        owner: Module = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        if kind is InputKind.PARAMETER:
            owner.register_parameter(last, Parameter(to_array(tensor), tensor.requires_grad))
        else:
            owner.register_buffer(last, wrapped(to_array(tensor)))

    @property
    def _inputs(self) -> Iterator[tuple[InputKind, str, Any]]:
        """The inputs of the graph: its kind, the name of its state, and the input."""
        specs = self._exported.graph_signature.input_specs
        return ((s.kind, s.target, source) for s, source in zip(specs, self._graph.inputs, strict=True))

    @functools.cached_property
    def _user_inputs(self) -> list[Any]:
        return [source for kind, _, source in self._inputs if kind is InputKind.USER_INPUT]

    @functools.cached_property
    def _num_tensors(self) -> int | None:
        """The number of arguments of a model that takes tensors one by one; None for other models."""
        count = len(self._user_inputs)
        is_flat = self._call_spec.in_spec == pytree.tree_structure(((0,) * count, {}))
        return count if is_flat and all(source.spec is not None for source in self._user_inputs) else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracing():
            return super().__call__(*args, **kwargs)
        are_tensors = len(args) == self._num_tensors and all(isinstance(x, _TENSORS) for x in args)
        flat = args if are_tensors and not kwargs else self._flat(args, kwargs)
        arrays = [to_array(x) if isinstance(x, torch.Tensor) else x for x in flat]
        present = _program_arguments(arrays, self._user_inputs)
        try:
            results = self.program(*present)
        except CallError:
            self._check(present)
            raise
        if any(isinstance(x, torch.Tensor) for x in flat):
            results = list(map(_as_torch, results))
        return pytree.tree_unflatten(results, self._call_spec.out_spec)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the model, in the current trace or operator by operator."""
        present = _program_arguments(self._flat(args, kwargs), self._user_inputs)
        return pytree.tree_unflatten(self._results(*present), self._call_spec.out_spec)

    def call_of_specs(self) -> tuple[Callable[..., Any], list[TensorSpec]]:
        """A function of the model's tensors, and the specs of the tensors."""
        return self._results, [x.spec for x in self._user_inputs if x.spec is not None]

    def _flat(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call one by one.

        Raises:
            CallError: the arguments are nested in another way than in the export.
        """
        leaves: list[Any]
        leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
        expected = self._call_spec.in_spec
        if structure != expected:
            names = [source.name for source in self._user_inputs]
            wanted, got = _written(names, expected), _written([_kind(x) for x in leaves], structure)
            raise CallError(f"expected arguments as in the export, {wanted}, got {got}")
        for leaf, source in zip(leaves, self._user_inputs, strict=True):
            if source.spec is None and leaf != source.value:
                raise CallError(f"expected {source.name}={source.value!r} as in the export, got {leaf!r}")
        return leaves

    def _check(self, present: Sequence[Any]) -> None:
        """Compares the tensors of a call with the tensors of the export.

        Raises:
            CallError: one has another type; the argument is named.
        """
        specs = [(source.spec, source.name) for source in self._user_inputs if source.spec is not None]
        for value, (spec, name) in zip(present, specs, strict=True):
            checked_spec(spec, value, name)

    def _results(self, *arguments: Any) -> list[Any]:
        """The results of the model; updated buffers and arguments get their new values."""
        state = dict(self.named_parameters()) | dict(self.named_buffers())
        names = (source.name for source in self._user_inputs if source.spec is not None)
        updatable = dict(zip(names, map(as_tensor, arguments), strict=True)) | state
        results, updates = self._split(self._graph.run(self._tensors(state, arguments)))
        with no_grad():
            for name, value in updates.items():
                current_builder().assign(updatable[name], value, "the model")
        return results

    def _tensors(self, state: Mapping[str, Any], arguments: Sequence[Any]) -> list[Any]:
        """The tensor arguments of the graph: state by its names, constants, and the arguments of a call."""
        rest, tensors = iter(arguments), []
        for kind, name, known in self._inputs:
            if known.spec is None:
                continue
            if kind is InputKind.USER_INPUT:
                tensors.append(as_tensor(next(rest)))
            elif kind is InputKind.CONSTANT_TENSOR:
                tensors.append(as_tensor(to_array(_tensor(self._exported, name))))
            else:
                tensors.append(state[name])
        return tensors

    def _split(self, results: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The results that the model returns, and the new values of its buffers and arguments by name."""
        specs = self._exported.graph_signature.output_specs
        updates = {s.target: x for s, x in zip(specs, results, strict=True) if s.kind in _MUTATIONS}
        return [x for s, x in zip(specs, results, strict=True) if s.kind is OutputKind.USER_OUTPUT], updates

    @functools.cached_property
    def program(self) -> CompiledFunction:
        """The compiled function of the tensors of a call, for all dynamic sizes."""
        return CompiledFunction(*self.call_of_specs(), None)

    @property
    def arguments(self) -> dict[str, Any]:
        """The parameters and buffers that the model reads, by name."""
        state = dict(self.named_parameters()) | dict(self.named_buffers())
        nodes = (n for n in self._graph.nodes if n.op == "placeholder")
        read = {name for node, (_, name, _) in zip(nodes, self._inputs, strict=True) if node.users}
        return {name: tensor for name, tensor in state.items() if name in read}

    @property
    def module(self) -> ir.Module:
        """The program in the dialect: `arguments` under their names, then the tensors of a call; new values of
        buffers and tensors are results after the results of the model.
        """
        state = self.arguments
        unread = {name: None for kind, name, _ in self._inputs if kind in _STATE}

        def main(named: dict[str, Any], arguments: list[Any]) -> dict[str, Any]:
            results, updates = self._split(self._graph.run(self._tensors(unread | named, arguments)))
            names = [f"result{i}" for i in range(len(results))] if len(results) > 1 else ["result"]
            named_results = dict(zip(names, results, strict=True)) | updates
            return {name: x for name, x in named_results.items() if isinstance(x, Tensor)}

        specs = {name: known.spec for kind, name, known in self._inputs if kind in _STATE and name in state}
        return trace(main, specs, [x.spec for x in self._user_inputs if x.spec is not None])

    __signature__ = SignatureOf("_results")


def _written(leaves: Sequence[str], structure: Any) -> str:
    """Arguments in the form of a call, with names in place of values."""
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    return f"({', '.join([*map(_text, args), *(f'{k}={_text(v)}' for k, v in kwargs.items())])})"


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _text(nested: Any) -> str:
    if isinstance(nested, dict):
        return f"{{{', '.join(f'{k!r}: {_text(v)}' for k, v in nested.items())}}}"
    if isinstance(nested, (list, tuple)):
        return f"[{', '.join(map(_text, nested))}]"
    return str(nested)


def _as_torch(result: Any) -> Any:
    """A result for a caller with tensors of PyTorch: an array as a tensor of PyTorch, other results unchanged."""
    if isinstance(result, EagerTensor):
        return to_tensor(result.numpy())
    return to_tensor(np.asarray(result)) if is_array(result) else result


def _program_arguments(leaves: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The arguments of the program; a size is the length of an array without elements."""
    present = [x for x, known in zip(leaves, inputs, strict=True) if known.spec is not None]
    return [np.empty((x, 0), np.int8) if isinstance(x, int) else x for x in present]


def _tensor(exported: ExportedProgram, name: str) -> torch.Tensor:
    """A parameter, buffer or constant; buffers that are not saved are among the constants."""
    tensor: torch.Tensor = exported.state_dict[name] if name in exported.state_dict else exported.constants[name]
    return tensor
