"""Programs with external kernels or structured control flow and dynamic sizes, compiled for each set of sizes.

External kernels are chosen for static calls, rules in C++ know numbers only, and the memory of bodies has to be
static. A program that calls an external kernel or bodies on a dynamic tensor is therefore inferred and compiled for
each new set of sizes; the functions of the library run with these sizes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import PREFIX
from oneflow.dialect.record import REGISTRY, Operator, Registry
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.passes.infer_types import InferTypes
from oneflow.runtime.arguments import ArgumentError, bind
from oneflow.runtime.backends import accelerator_of
from oneflow.runtime.executable import CpuExecutable, Options, compile_module
from oneflow.runtime.footprint import Footprint
from oneflow.runtime.program_source import is_named, signature_of
from oneflow.runtime.protocol import Executable, FastPath

E = TypeVar("E", bound=Executable)
Module: TypeAlias = ir.Module


def compile_program(
    module: ir.Module, entry: str = "main", options: Options | None = None, registry: Registry = REGISTRY
) -> CpuExecutable:
    """Compiles a function of a module for the CPU, for each set of sizes if need be; see `compile_module`."""
    if not is_specialized_for_sizes(module, registry):
        return compile_module(module, entry, options, registry)
    return SizeSpecializedExecutable(
        module, entry, registry, lambda made: compile_module(made, entry, options, registry)
    )


def is_specialized_for_sizes(module: ir.Module, registry: Registry) -> bool:
    """Whether a module calls an external kernel or bodies on a dynamic tensor."""
    is_needed = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal is_needed
        name = op.name.removeprefix(PREFIX)
        if op.name.startswith(PREFIX) and name in registry and _needs_static(registry[name]):
            descs = [from_mlir(v.type) for v in op.operands]
            is_needed = is_needed or not all(d is not None and d.is_static for d in descs)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return is_needed


def _needs_static(record: Operator) -> bool:
    """Whether calls run bodies or an external kernel, or are expanded to calls that do."""
    return record.kernel is not None or record.control is not None or "external" in record.traits


class SizeSpecialized(Generic[E]):
    """The common part of executables that compile for each set of sizes: the programs, and queries of the latest."""

    is_size_specialized: ClassVar[bool] = True

    def __init__(self, module: ir.Module, entry: str, registry: Registry, compile: Callable[[ir.Module], E]) -> None:
        self.inputs, self.outputs = signature_of(module, entry)
        self._text, self._context = module.operation.get_asm(enable_debug_info=True), module.context
        self._entry, self._registry = entry, registry
        self._compile: Callable[[Module], E] = compile
        self._programs: dict[tuple[tuple[int, ...], ...], E] = {}
        self._latest: E | None = None
        self._lock = threading.Lock()

    def ir(self, stage: str) -> str:
        """The program of the latest call at a stage."""
        return self._latest_program("ir").ir(stage)

    @property
    def memory(self) -> Footprint:
        """The memory footprint of the latest run."""
        return self._latest_program("memory").memory

    @property
    def peak_bytes(self) -> int:
        """The bytes of the workspace of the latest run."""
        return self._latest_program("peak_bytes").memory.workspace

    def reads(self, index: int) -> bool:
        """Whether the latest program reads the elements of argument `index`."""
        return self._latest_program("reads").reads(index)

    def replay(self, arrays: Sequence[Any], compared: Any = None) -> None:
        """None: every run checks the sizes of its arguments."""

    def _latest_program(self, what: str) -> E:
        if self._latest is None:
            raise ValueError(f"{what} is known after the first call: the program is compiled for the sizes of a call")
        return self._latest

    def _program_for(self, arrays: Sequence[Any]) -> E:
        """The program for the sizes of arguments.

        Raises:
            ArgumentError: an argument has a shape that the program does not allow.
        """
        shapes = tuple(np.shape(x) if accelerator_of(x) is None else tuple(x.shape) for x in arrays)
        for parameter, shape in zip(self.inputs, shapes, strict=True):
            if not TensorDesc(shape, parameter.desc.dtype).refines(parameter.desc):
                raise ArgumentError(
                    f"argument {parameter.name!r}: expected {parameter.desc}, got an array of shape {shape}"
                )
        with self._lock:
            if shapes not in self._programs:
                self._programs[shapes] = self._compile(self._specialized(shapes))
            self._latest = self._programs[shapes]
        return self._latest

    def _specialized(self, shapes: Sequence[tuple[int, ...]]) -> Module:
        """The program for arguments of these shapes."""
        with self._context, ir.Location.unknown():
            module = ir.Module.parse(self._text)
            function = next(o.operation for o in module.body.operations if is_named(o.operation, self._entry))
            arguments = list(function.regions[0].blocks[0].arguments)
            for argument, parameter, shape in zip(arguments, self.inputs, shapes, strict=True):
                argument.set_type(TensorDesc(shape, parameter.desc.dtype).to_mlir())
            kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
            types = [a.type for a in arguments]
            function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, kind.results))
            InferTypes().run(module, self._registry)
            return module


class SizeSpecializedExecutable(SizeSpecialized[CpuExecutable], CpuExecutable):
    """A program for the CPU, compiled for each set of sizes."""

    fast_path: FastPath | None = None

    def __call__(self, *arrays: Any, **named: Any) -> list[np.ndarray]:
        """Runs the program for the sizes of the arguments; see `CpuExecutable`.

        Raises:
            OperatorError: a user's operator does not allow these sizes, or has no kernel for them.
        """
        arguments = bind(self.inputs, arrays, named)
        return self._program_for(arguments)(*arguments)
