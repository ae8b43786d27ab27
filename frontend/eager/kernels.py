"""Operators compiled one by one: each once per attributes and operand types, then kept.

    compile_call(call, results, device).run(arrays)

An operator on global tensors is a program of their ranks, whose results lie as they are cheapest. An operator that
cannot be compiled is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import func, ir
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.locks import Lock
from oneflow.dialect.nd_sbp import NdSbp
from oneflow.dialect.record import REGISTRY, Call, flatten
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data, is_on_ranks, ranks_of
from oneflow.frontend.core.devices import Device, compile_for
from oneflow.frontend.core.layouts import Places, annotate
from oneflow.frontend.core.placements import GlobalProgram
from oneflow.lowering.kernels.donation import donate_arguments
from oneflow.runtime.global_array import Placement
from oneflow.runtime.protocol import Executable

#: The name of the function around the operator; none that a mathematical library has.
ENTRY = "operator_call"
_lock = Lock()
_known: dict[TensorDesc, TensorDesc] = {}


def intern(desc: TensorDesc) -> TensorDesc:
    """The one object that stands for equal descriptions, so that they can be told apart by identity."""
    return _known.setdefault(desc, desc)


@dataclass(frozen=True)
class Ranks:
    """Where a call on global tensors runs; `layouts` are those of its operands, None for tensors of every rank."""

    placement: Placement
    layouts: tuple[NdSbp | None, ...]

    @classmethod
    def of(cls, arrays: Sequence[Data]) -> Ranks | None:
        """The ranks that arrays lie on; None where all are of this process.

        Raises:
            ValueError: they lie on several placements.
        """
        found = list(dict.fromkeys(a.placement for a in arrays if is_on_ranks(a)))
        if len(found) > 1:
            raise ValueError(
                f"expected all tensors on one placement, got {found[0]} and {found[1]}; move one with x.to_global(..)"
            )
        layouts = tuple(ranks_of(a)[1] for a in arrays)
        return cls(found[0], layouts) if found else None


@dataclass(frozen=True)
class _Function:
    """The function around a call on global tensors."""

    module: ir.Module
    entry: str
    places: Places


class Kernel:
    """A compiled call: `op` is the call on descriptions, `results` what it gives."""

    __slots__ = ("executable", "op", "reads", "results", "run")

    def __init__(self, op: Call, results: Sequence[TensorDesc], executable: Executable) -> None:
        self.op, self.executable = op, executable
        self.run, self.reads = executable.run, executable.reads
        self.results = tuple(map(intern, results))


def compile_call(op: Call, results: Sequence[TensorDesc], place: Device | Ranks, over: int | None = None) -> Kernel:
    """Compiles a call on descriptions for a device, or for the ranks that operands lie on; see the module.

    The first result may take the memory of operand number `over`.

    Raises:
        PassError: the operator cannot be lowered.
    """
    descs = flatten(op.inputs.values())
    with _lock.held(), _context(tuple(REGISTRY.operators)), ir.Location.unknown():
        module = ir.Module.create()
        entry = func.FuncOp(ENTRY, ([d.to_mlir() for d in descs], []), ip=ir.InsertionPoint(module.body))
        _fill(entry, op, results)
        if over is not None:
            donate_arguments(entry.operation, [(over, 0)])
        if isinstance(place, Ranks):
            places = Places(place.placement)
            arguments = [(place.placement, nd) for nd in place.layouts]
            annotate(entry.operation, places, arguments, [(None, None)] * len(results))
            return Kernel(op, results, GlobalProgram.of(_Function(module, ENTRY, places), "greedy"))
        return Kernel(op, results, compile_for(place, module, ENTRY))


def _fill(entry: func.FuncOp, op: Call, results: Sequence[TensorDesc]) -> None:
    """Writes the body: the one operation, and its results returned."""
    block = entry.add_entry_block()
    builder = IRBuilder(ip=ir.InsertionPoint(block))
    descs = flatten(op.inputs.values())
    values = iter([Value(builder, a, d) for a, d in zip(block.arguments, descs, strict=True)])
    inputs = {name: _taken(given, values) for name, given in op.inputs.items()}
    given = builder.emit(Call(op.record, inputs, op.attrs), results)
    func.ReturnOp([v.handle for v in given], ip=builder.ip)
    types = [v.handle.type for v in given]
    entry.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([d.to_mlir() for d in descs], types))


def _taken(given: Any, values: Any) -> Any:
    """As many values as an operand slot has."""
    if isinstance(given, tuple):
        return tuple(next(values) for _ in given)
    return None if given is None else next(values)


@functools.lru_cache(maxsize=1)
def _context(names: tuple[str, ...]) -> ir.Context:
    """The context of all calls while these are the operators."""
    return dialect.create_context()


def describe_result(array: Data, desc: TensorDesc) -> TensorDesc:
    """The description of a result that is described by `desc` as far as types tell."""
    return desc if desc.is_static else intern(TensorDesc(tuple(array.shape), desc.dtype))
