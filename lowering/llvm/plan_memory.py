"""The addresses of a plan's buffers: arguments, results, offsets of the workspace, allocations at run time.

Input is the result of the memory planner (`lowering/buffer_assignment.py`), output MLIR text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.buffer_assignment import MAX_BYTES, Buffer
from oneflow.lowering.llvm.plan_symbols import ADDRESS, PLAN_SUFFIX
from oneflow.lowering.llvm.tensor_views import TensorView
from oneflow.lowering.llvm.writer import Index, Writer


@dataclass
class PlanMemory:
    """Writes the addresses of `buffers`.

    Attributes:
        writer: the plan that is written.
        buffers: the buffers of the plan.
        result_addresses: the addresses of results whose memory the caller allocates; empty if the plan allocates it.
        record_address: writes what a caller needs to know about the memory of a result.
    """

    writer: Writer
    buffers: Sequence[Buffer]
    result_addresses: Sequence[str]
    record_address: Callable[[int, str], None]
    addresses: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._released_after: dict[int, list[Buffer]] = {}
        for buffer in self.buffers:
            if buffer.dynamic:
                self._released_after.setdefault(buffer.last, []).append(buffer)

    def address(self, buffer: Buffer) -> str:
        """The address of a buffer."""
        return self.addresses[buffer.number]

    def allocate(self, view: TensorView) -> None:
        """Assigns an address to a buffer, unless it has one."""
        buffer = view.buffer
        if buffer.number in self.addresses:
            return
        self.addresses[buffer.number] = self._new_address(view)
        if buffer.result is not None:
            self.record_address(buffer.result, self.addresses[buffer.number])

    def _new_address(self, view: TensorView) -> str:
        """An argument's memory, memory of the caller, a part of the workspace, or an allocation."""
        buffer = view.buffer
        if buffer.argument is not None:
            return argument_name(buffer.argument)
        if buffer.result is not None and self.result_addresses:
            return self.result_addresses[buffer.result]
        if buffer.offset is not None:
            return self.in_workspace(buffer.offset)
        kind = "temporary" if buffer.result is None else "alloc"
        size = self.writer.index(self.bytes_of(view))
        return self.writer.op(f"func.call @oneflow_rt_{kind}{PLAN_SUFFIX}({size}) : (index) -> {ADDRESS}")

    def in_workspace(self, offset: int) -> str:
        """The address at an offset of the workspace."""
        # Constant offsets in llvm.getelementptr have 32 bits; workspaces can be larger.
        constant = self.writer.constant(str(offset), "i64")
        return self.writer.op(f"llvm.getelementptr %workspace[{constant}] : ({ADDRESS}, i64) -> {ADDRESS}, i8")

    def release(self, index: int) -> None:
        """Frees the allocated buffers whose last use is operation `index`."""
        for buffer in self._released_after.get(index, ()):
            if buffer.number in self.addresses:
                address = self.address(buffer)
                self.writer.line(f"func.call @oneflow_rt_release{PLAN_SUFFIX}({address}) : ({ADDRESS}) -> ()")

    def bytes_of(self, view: TensorView) -> Index:
        """The bytes of a tensor, saturated at `MAX_BYTES`."""
        total: Index = max(element_bits(view.element) // 8, 1)
        for size in view.shape:
            total = self._times(total, size)
        return min(total, MAX_BYTES) if isinstance(total, int) else total

    def _times(self, a: Index, b: Index) -> Index:
        """A product of sizes, saturated at run time."""
        if (isinstance(a, int) and isinstance(b, int)) or 1 in (a, b):
            return self.writer.mul(a, b)
        names = ", ".join(self.writer.index(min(x, MAX_BYTES) if isinstance(x, int) else x) for x in (a, b))
        return self.writer.op(f"func.call @oneflow_rt_times({names}) : (index, index) -> index")


def argument_name(index: int) -> str:
    """The parameter of a plan for the address of an argument."""
    return f"%in{index}"
