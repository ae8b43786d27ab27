"""Buffer assignment, the memory planning of an entry: liveness analysis, offsets in the workspace, scratch memory.

In-place reuse of temporaries is decided here; `llvm/donation.py` and `triton/launch/donation.py` decide on donated
arguments.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.kernels.nodes import Unsupported, read_node
from oneflow.lowering.linalg.control import Control
from oneflow.passes.base import PassError
from oneflow.passes.walk import returned_values

ALIGNMENT = 64
#: The most bytes that the tensors of a run may have at a time; larger sizes saturate.
MAX_BYTES = 2**63 - 1
#: Live buffers are looked up in buckets of this many operations.
BUCKET = 64


@dataclass(eq=False)
class Buffer:
    """Memory of an entry, live from operation `first` to operation `last`.

    `kind` is `argument`, `constant` or `temporary`. `bytes` is None for dynamic sizes. A temporary that is returned
    is the result with index `result`; it takes the memory of the argument with index `argument` if that argument is
    donated to the result.
    Buffers in the workspace have an `offset` in bytes. A buffer that `aliases` another one has that buffer's memory.
    """

    number: int
    kind: str
    bytes: int | None
    first: int
    last: int
    result: int | None = None
    offset: int | None = None
    aliases: Buffer | None = None
    argument: int | None = None

    @property
    def root(self) -> Buffer:
        """The buffer at the end of the chain of aliases."""
        return self if self.aliases is None else self.aliases.root

    @property
    def dynamic(self) -> bool:
        """Whether the buffer is allocated and freed during the run."""
        return self.kind == "temporary" and self.bytes is None and self.result is None


#: A buffer in the workspace: the offset, the aligned end, and the first and the last operation of the lifetime.
LiveRange = tuple[int, int, int, int]


class Kernel(Protocol):
    """A kernel of any backend."""

    @property
    def block(self) -> ir.Block:
        """The block of the kernel's function."""


class Liveness:
    """The buffers of an entry; `buffer_of` maps tensor values, views included, to buffers."""

    def __init__(self, ops: Sequence[ir.Operation], block: ir.Block, kernels: Mapping[str, Kernel]) -> None:
        self.buffers: list[Buffer] = []
        self.buffer_of: dict[ir.Value, Buffer] = {}
        self.kernels = kernels
        for argument in block.arguments:
            self._make("argument", argument, -1)
        for index, op in enumerate(ops):
            self._visit(index, op)
        for index, value in enumerate(returned_values(block)):
            buffer = self.buffer_of[value]
            if buffer.kind == "temporary" and buffer.result is None:
                buffer.result = index

    def scratch(self, index: int, size: int) -> Buffer:
        """A buffer of `size` bytes that is live during the operation with this index."""
        buffer = Buffer(len(self.buffers), "temporary", size, index, index)
        self.buffers.append(buffer)
        return buffer

    def _make(self, kind: str, value: ir.Value, index: int) -> Buffer:
        """The buffer of a value that the operation with this index defines."""
        buffer = Buffer(len(self.buffers), kind, static_bytes(value.type), index, index)
        self.buffers.append(buffer)
        self.buffer_of[value] = buffer
        return buffer

    def _visit(self, index: int, op: ir.Operation) -> None:
        for value in op.operands:
            if value in self.buffer_of:
                self.buffer_of[value].last = index
        if op.name == "func.call":
            for result in op.results:
                if isinstance(result.type, ir.RankedTensorType):
                    self._make("temporary", result, index)
            return
        if op.name == "tensor.empty" and any(map(self._is_read, op.results[0].uses)):
            self._make("temporary", op.results[0], index)
            return
        if op.name in ("tensor.empty", "tensor.from_elements") or not len(op.results):
            return
        if op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType):
            self._make("constant", op.results[0], index)
        elif isinstance(op.results[0].type, ir.RankedTensorType):
            self.buffer_of[op.results[0]] = self.buffer_of[op.operands[0]]

    def _is_read(self, use: ir.OpOperand) -> bool:
        """Whether a use of an empty tensor is no destination: an operation reads its type, or an external kernel
        takes the address of a tensor without elements.
        """
        op = use.owner.operation
        if op.name != "func.call":
            return True
        is_destination = use.operand_number >= len(op.operands) - len(op.results)
        return not is_destination and callee_of(op) not in self.kernels

    def share_in_place(self, ops: Sequence[ir.Operation], proposed: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        """Lets results reuse the memory of dead operands: in pointwise kernels, and in `proposed` pairs."""
        pointwise: dict[str, bool] = {}
        for index, op in enumerate(ops):
            callee = callee_of(op)
            if callee in self.kernels and callee not in pointwise:
                pointwise[callee] = is_pointwise(self.kernels[callee])
            if pointwise.get(callee) and len(op.results) == 1:
                self._reuse_operand(index, op)
            for result, operand in proposed.get(callee, ()):
                self._reuse(index, op, op.operands[operand], self.buffer_of[op.results[result]])

    def _reuse_operand(self, index: int, op: ir.Operation) -> None:
        """Lets the result of a pointwise kernel take the memory of an operand of its type."""
        result = self.buffer_of[op.results[0]]
        if result.bytes is None or result.result is not None:
            return
        for value in list(op.operands)[:-1]:
            if value.type == op.results[0].type and self._reuse(index, op, value, result):
                return

    def _reuse(self, index: int, op: ir.Operation, value: ir.Value, result: Buffer) -> bool:
        """Lets a result take the memory of an operand, if the operand is a temporary whose last use this is."""
        used = self.buffer_of.get(value)
        if used is None or used.kind != "temporary" or used.bytes != result.bytes or used.result is not None:
            return False
        if result.bytes is None or result.result is not None or used.last != index:
            return False
        if sum(self.buffer_of.get(v) is used for v in op.operands) != 1:
            return False
        result.aliases = used
        return True


def is_pointwise(kernel: Kernel) -> bool:
    """Whether each element of the result depends only on the same element of inputs of the result's type."""
    try:
        nodes = [read_node(o.operation) for o in kernel.block.operations if o.operation.name.startswith("linalg.gen")]
    except Unsupported:
        return False
    if len(nodes) != 1 or not nodes[0].outputs:
        return False
    (node,) = nodes
    same = [u.access for u in node.inputs if u.value.type == node.outputs[0].value.type]
    return not node.reductions and all(a == node.outputs[0].access for a in same) and not _has_extract(node.op)


def _has_extract(op: ir.Operation) -> bool:
    """Whether the body reads elements at computed positions."""
    return any(o.operation.name == "tensor.extract" for o in op.regions[0].blocks[0].operations)


def static_bytes(tensor_type: ir.Type) -> int | None:
    """The bytes of a tensor, None where a dimension is dynamic."""
    if any(tensor_type.is_dynamic_dim(i) for i in range(tensor_type.rank)):
        return None
    element = str(tensor_type.element_type)
    bits = element_bits(element)
    return int(math.prod(tensor_type.shape)) * max(bits // 8, 1)


def assign_offsets(buffers: Sequence[Buffer], disjoint: bool = False) -> int:
    """Assigns an offset to each static temporary, largest first; returns the bytes of the workspace.

    Buffers that are not live at the same time share memory, unless all are to be `disjoint`.
    """
    aliased = [b for b in buffers if b.aliases is not None]
    for buffer in aliased:
        root = buffer.root
        root.last = max(root.last, buffer.last)
    placed, top = _PlacedBuffers(), 0
    fixed = [b for b in buffers if b.kind == "temporary" and b.bytes is not None and b.result is None]
    for buffer in sorted((b for b in fixed if b.aliases is None), key=lambda b: -(b.bytes or 0)):
        buffer.offset = top if disjoint else _first_fit(buffer, placed.during(buffer.first, buffer.last))
        end = _aligned(buffer.offset + (buffer.bytes or 0))
        top = max(top, end)
        placed.add((buffer.offset, end, buffer.first, buffer.last))
    for buffer in aliased:
        buffer.offset = buffer.root.offset
    return top


class _PlacedBuffers:
    """The memory of placed buffers by the bucket in which a buffer starts to live, and by all further buckets of its
    lifetime, so that a query finds each buffer once.
    """

    def __init__(self) -> None:
        self._started: dict[int, list[LiveRange]] = defaultdict(list)
        self._continued: dict[int, list[LiveRange]] = defaultdict(list)

    def add(self, placed: LiveRange) -> None:
        """Adds a buffer."""
        start, *others = range(placed[2] // BUCKET, placed[3] // BUCKET + 1)
        self._started[start].append(placed)
        for bucket in others:
            self._continued[bucket].append(placed)

    def during(self, first: int, last: int) -> list[LiveRange]:
        """The buffers in the buckets of a lifetime, sorted by offset."""
        buckets = range(first // BUCKET, last // BUCKET + 1)
        started = (self._started.get(bucket, ()) for bucket in buckets)
        return sorted(itertools.chain(self._continued.get(buckets.start, ()), *started))


def plan_workspace(entry: ir.Operation, buffers: Sequence[Buffer], disjoint: bool = False) -> int:
    """The bytes of the workspace of an entry; see `assign_offsets`.

    Raises:
        PassError: the workspace has more than `MAX_BYTES`.
    """
    workspace = assign_offsets(buffers, disjoint)
    if workspace > MAX_BYTES:
        name = ir.StringAttr(entry.attributes["sym_name"]).value
        what = f"expected tensors of at most {MAX_BYTES} bytes at a time, got {workspace} bytes"
        raise PassError(f"@{name}: {what}", entry.location)
    return workspace


def _first_fit(buffer: Buffer, placed: Sequence[LiveRange]) -> int:
    """The first offset where a buffer fits between placed buffers, sorted by offset, with overlapping lifetimes."""
    offset, size, first, last = 0, buffer.bytes or 0, buffer.first, buffer.last
    for begin, end, first_use, last_use in placed:
        if end > offset and first <= last_use and first_use <= last:
            if offset + size <= begin:
                break
            offset = end
    return offset


def scratch_offsets(op: ir.Operation, control: Control) -> list[int]:
    """The offsets in the scratch memory of a call of bodies: of a second buffer for each state, of the result of a
    condition, and of the workspace of the bodies.
    """
    sizes = [static_bytes(v.type) or 0 for v in list(op.operands)[: control.states]]
    return list(itertools.accumulate((_aligned(size) for size in (*sizes, 1)), initial=0))


def control_bytes(op: ir.Operation, control: Control, workspaces: Mapping[str, int]) -> int:
    """The scratch memory of a call of bodies, which need `workspaces`."""
    return scratch_offsets(op, control)[-1] + max(_aligned(workspaces[name]) for name in control.functions)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
