"""The results of a plan: an entry returns addresses and sizes in slots of `io`, a body writes to the caller's memory.

`io` has one slot for the address of each argument and result, each followed by the slots of its dynamic sizes, and at
its end the function and the context of each external kernel. A result that takes the memory of an argument has the
argument's address in its slot from the start of the write; no run-time check has failed by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from oneflow.dialect._mlir import ir
from oneflow.lowering.llvm.plan_memory import PlanMemory
from oneflow.lowering.llvm.plan_symbols import ADDRESS, PLAN_SUFFIX, copy_text
from oneflow.lowering.llvm.tensor_views import TensorView
from oneflow.lowering.llvm.writer import Index, Writer


class PlanResults(Protocol):
    """Writes the results of a plan to the memory of its caller. `result` is the index of a result."""

    @property
    def parameters(self) -> Sequence[str]:
        """The parameters of the plan that are memory for results."""

    @property
    def slots(self) -> int:
        """The number of slots of `io` before the slots of external kernels."""

    def record_address(self, result: int, address: str) -> None:
        """Writes what the caller needs to know about the memory of a result."""

    def return_result(self, result: int, value: ir.Value, view: TensorView, memory: PlanMemory) -> None:
        """Writes a result; one without its own memory, such as an argument or a constant, is copied."""


def io_slot(writer: Writer, index: int) -> str:
    """The address of a slot of `io`."""
    return writer.op(f"llvm.getelementptr %io[{index}] : ({ADDRESS}) -> {ADDRESS}, i64")


def dynamic_count(value: ir.Value) -> int:
    """The number of dynamic dimensions of a tensor."""
    return sum(value.type.is_dynamic_dim(i) for i in range(value.type.rank))


@dataclass
class ReturnedResults:
    """The results of an entry, whose memory is allocated for the caller. `arguments` are the entry's parameters."""

    writer: Writer
    arguments: Sequence[ir.Value]
    results: Sequence[ir.Value]
    parameters: Sequence[str] = ()

    def __post_init__(self) -> None:
        widths = [1 + dynamic_count(v) for v in (*self.arguments, *self.results)]
        *offsets, self.slots = accumulate(widths, initial=0)
        self._slot_of = offsets[len(self.arguments) :]

    def record_address(self, result: int, address: str) -> None:
        """Stores the address of a result for the caller, who frees the result in any case."""
        slot = io_slot(self.writer, self._slot_of[result])
        self.writer.line(f"llvm.store {address}, {slot} : {ADDRESS}, {ADDRESS}")

    def return_result(self, result: int, value: ir.Value, view: TensorView, memory: PlanMemory) -> None:
        """Stores the dynamic sizes of a result, and copies a result without its own memory."""
        if view.buffer.result != result:
            size = self.writer.index(memory.bytes_of(view))
            call = f"func.call @oneflow_rt_alloc{PLAN_SUFFIX}({size}) : (index) -> {ADDRESS}"
            target = self.writer.op(call)
            self.record_address(result, target)
            self.writer.line(copy_text(target, memory.address(view.buffer), size))
        sizes = [s for i, s in enumerate(view.shape) if value.type.is_dynamic_dim(i)]
        for offset, dimension in enumerate(sizes, 1):
            self._store(self._slot_of[result] + offset, dimension)

    def _store(self, slot: int, value: Index) -> None:
        """Stores a size in a slot."""
        integer = self.writer.op(f"arith.index_cast {self.writer.index(value)} : index to i64")
        self.writer.line(f"llvm.store {integer}, {io_slot(self.writer, slot)} : i64, {ADDRESS}")


@dataclass
class GivenResults:
    """The results of a body, whose memory the caller allocates."""

    writer: Writer
    results: Sequence[ir.Value]
    slots: int = 0

    @property
    def parameters(self) -> list[str]:
        """The addresses of the results."""
        return [f"%out{n}" for n in range(len(self.results))]

    def record_address(self, result: int, address: str) -> None:
        """Writes nothing: the caller knows the memory."""

    def return_result(self, result: int, value: ir.Value, view: TensorView, memory: PlanMemory) -> None:
        """Copies a result without its own memory."""
        if view.buffer.result != result:
            size = self.writer.index(memory.bytes_of(view))
            self.writer.line(copy_text(self.parameters[result], memory.address(view.buffer), size))
