"""The calls of a plan: launches of kernels, external kernels, bodies of control flow, run-time checks.

Where memory runs out, a check of sizes fails, or an external kernel fails, the plan jumps to its end.

Output is MLIR text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffer_assignment import Buffer
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.llvm.control import ControlWriter
from oneflow.lowering.llvm.donation import CalledFunctions
from oneflow.lowering.llvm.plan_memory import PlanMemory
from oneflow.lowering.llvm.plan_results import io_slot
from oneflow.lowering.llvm.plan_symbols import ADDRESS, PLAN_SUFFIX
from oneflow.lowering.llvm.tensor_views import TensorView
from oneflow.lowering.llvm.writer import POINTER, Index, Writer, reference


@dataclass
class PlanCalls:
    """Writes the calls of a plan.

    Attributes:
        writer, memory: the plan that is written, and the addresses of its buffers.
        functions: the analysis of the functions that the plan calls.
        first_slot: the index of the slot of `io` for the first external kernel.
        may_have_failed: whether a run-time check of an earlier kernel may have failed.
    """

    writer: Writer
    memory: PlanMemory
    functions: CalledFunctions
    first_slot: int
    may_have_failed: bool = False

    def launch(self, callee: str, arguments: Sequence[str]) -> None:
        """Launches a kernel."""
        types = self.functions.kernels[callee].types().replace(POINTER, ADDRESS)
        symbol = reference(f"{callee}_launch{PLAN_SUFFIX}")
        self.writer.line(f"func.call {symbol}({', '.join(arguments)}) : ({types}) -> ()")
        self.may_have_failed |= callee in self.functions.checking

    def tensor_arguments(self, value: ir.Value, view: TensorView) -> list[str]:
        """The arguments of a launch for a tensor: its address and its dynamic sizes."""
        sizes: list[Index] = [s for i, s in enumerate(view.shape) if value.type.is_dynamic_dim(i)]
        return [self.memory.address(view.buffer), *map(self.writer.index, sizes)]

    def stop_before_in_place_write(self, results: Sequence[Buffer]) -> None:
        """Ends the run before a call that writes into an argument, if a check has failed."""
        if self.may_have_failed and any(buffer.argument is not None for buffer in results):
            self._stop_if_failed()
            self.may_have_failed = False

    def run_control(self, op: ir.Operation, scratch: Buffer, inputs: Sequence[str], results: Sequence[str]) -> None:
        """Runs the bodies of a call of structured control flow, with the memory `scratch` of the workspace."""
        assert scratch.offset is not None
        address, external = self.memory.in_workspace(scratch.offset), io_slot(self.writer, self.first_slot)
        control = self.functions.controls[callee_of(op)]
        ControlWriter(self.writer, op, control, inputs, results, address, external, self._stop_if_failed).emit()

    def run_external(self, callee: str, addresses: Sequence[str]) -> None:
        """Runs an external kernel, with the addresses of all tensors in an array."""
        writer, kind = self.writer, f"memref<{max(len(addresses), 1)}xi64>"
        index = self.functions.external.index(callee)
        array = writer.fresh()
        writer.head.append(f"{array} = memref.alloca() : {kind}")
        for i, address in enumerate(addresses):
            integer = writer.op(f"llvm.ptrtoint {address} : {ADDRESS} to i64")
            writer.line(f"memref.store {integer}, {array}[{writer.index(i)}] : {kind}")
        first = self.first_slot + 2 * index
        slots = [io_slot(writer, first), io_slot(writer, first + 1)]
        function, context = (writer.op(f"llvm.load {slot} : {ADDRESS} -> i64") for slot in slots)
        arguments = (
            f"{function}, {context}, {integer_address(writer, array, kind)}, {writer.constant(str(index), 'i32')}"
        )
        writer.line(f"func.call @oneflow_rt_call({arguments}) : (i64, i64, i64, i32) -> ()")
        self._stop_if_failed()

    def _stop_if_failed(self) -> None:
        """Jumps to the end if the run has failed."""
        writer = self.writer
        failed = writer.op("func.call @oneflow_rt_failed() : () -> i64")
        has_failed = writer.op(f"arith.cmpi ne, {failed}, {writer.constant('0', 'i64')} : i64")
        label = f"^go{writer.fresh()[1:]}"
        writer.line(f"cf.cond_br {has_failed}, ^end, {label}")
        writer.line(f"{label}:")


def integer_address(writer: Writer, memory: str, kind: str) -> str:
    """The address of a memref as an i64."""
    address = writer.op(f"memref.extract_aligned_pointer_as_index {memory} : {kind} -> index")
    return writer.op(f"arith.index_cast {address} : index to i64")
