"""The entry as a plan: buffers, launches, results.

Buffers of static size lie at fixed offsets of one workspace, and share it where their lives do not overlap; a
pointwise kernel writes over an input that ends there. Others are allocated in the run. Results are allocated by
`oneflow_rt_alloc` and belong to the caller, or lie in arguments given up for them; where memory runs out, the entry
is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffers import Buffer, Liveness, assign_offsets
from oneflow.lowering.llvm.body import Lanes, V, clone_scalar, constant_text
from oneflow.lowering.llvm.constants import constant_global
from oneflow.lowering.llvm.define_launches import plan_symbol
from oneflow.lowering.llvm.donation import Donor, Known
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.shapes import Shaped, view_shape
from oneflow.lowering.llvm.writer import POINTER, Index, Writer, memory_type
from oneflow.passes.base import PassError
from oneflow.passes.walk import returned_values

#: What counts of bytes end at.
MOST_BYTES = 2**63 - 1
#: An address in the plan. An entry of many launches is mostly addresses, and those of LLVM are lowered already.
ADDRESS = "!llvm.ptr"
#: The end of the names by which a plan calls functions that take memrefs; `define-launches` takes it off.
PLANNED = ".plan"


def planned(name: str, parameters: str, result: str = "") -> str:
    """The declaration of a function as a plan calls it."""
    gives = f" -> {result}" if result else ""
    text = f"func.func private @{name}{PLANNED}({parameters}){gives}".replace(POINTER, ADDRESS)
    return f"{text} attributes {{oneflow.planned = @{name}}}"


#: What plans call of the runtime with addresses.
RUNTIME = (
    planned("oneflow_rt_alloc", "index", ADDRESS),
    planned("oneflow_rt_temporary", "index", ADDRESS),
    planned("oneflow_rt_release", ADDRESS),
    planned("oneflow_rt_copy", f"{ADDRESS}, {ADDRESS}, index"),
)


@dataclass
class Plan:
    """Writes one entry. The last slots of `io` hold function and context of each external kernel.

    A result that lies in an argument has the argument's address in its slot from when it is being written on; no
    check has failed by then.
    """

    entry: ir.Operation
    known: Known
    writer: Writer = field(default_factory=Writer)
    globals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = ir.StringAttr(self.entry.attributes["sym_name"]).value
        self.block = self.entry.regions[0].blocks[0]
        self.ops = [o.operation for o in self.block.operations]
        self.values: dict[ir.Value, Shaped] = {}
        self.scalars: dict[ir.Value, V] = {}
        self.pointers: dict[int, str] = {}
        self.parameters: list[tuple[str, str]] = []
        self.lanes = Lanes(self.writer, Kernel(self.name, self.entry), None)
        self.kernels, self.external = self.known.kernels, self.known.external
        self.liveness = Liveness(self.ops, self.block, self.kernels)
        self.liveness.share_in_place(self.ops, self.known.in_place)
        Donor(self.ops, self.block, self.liveness, self.known).donate(self.entry)
        self.workspace = assign_offsets(self.liveness.buffers)
        if self.workspace > MOST_BYTES:
            what = f"expected tensors of at most {MOST_BYTES} bytes at a time, got {self.workspace} bytes"
            raise PassError(f"@{self.name}: {what}", self.entry.location)
        results = returned_values(self.block)
        self.total = sum(1 + _dynamic_count(v) for v in (*self.block.arguments, *results)) + 2 * len(self.external)
        self.unsure = False
        self.ends: dict[int, list[Buffer]] = {}
        for buffer in self.liveness.buffers:
            if buffer.dynamic:
                self.ends.setdefault(buffer.last, []).append(buffer)

    def facts(self) -> dict[str, ir.Attribute]:
        """What a run has to know, as attributes of the module."""
        number = ir.IntegerType.get_signless(64)
        kinds = [ir.StringAttr.get(str(v.type)) for v in returned_values(self.block)]
        given = [[b.result, b.argument] for b in self.liveness.buffers if b.argument is not None]
        return {
            "oneflow.workspace": ir.IntegerAttr.get(number, self.workspace),
            "oneflow.results": ir.ArrayAttr.get(kinds),
            "oneflow.in_place": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(pair) for pair in given]),
        }

    def emit(self) -> str:
        """The entry's function, with what it declares."""
        for number, argument in enumerate(self.block.arguments):
            self._argument(number, argument)
        results = returned_values(self.block)
        self.slots = _slots(len(self.parameters), results)
        for number, op in enumerate(self.ops[:-1]):
            self._op(number, op)
            self._release(number)
        for value, slot in zip(results, self.slots, strict=True):
            self._return(value, slot)
        parameters = ", ".join(f"{n}: {t}" for n, t in [*self.parameters, ("%workspace", ADDRESS), ("%io", ADDRESS)])
        attributes = "{oneflow.entry, llvm.linkage = #llvm.linkage<internal>}"
        head = f"func.func @{plan_symbol(self.name)}({parameters}) attributes {attributes} {{"
        tail = ["cf.br ^end", "^end:", "return", "}"]
        return "\n".join([*self.globals, head, *self.writer.head, *self.writer.lines, *tail])

    def _argument(self, number: int, argument: ir.Value) -> None:
        self.parameters.append((f"%in{number}", ADDRESS))
        shape: list[Index] = []
        for axis in range(argument.type.rank):
            if argument.type.is_dynamic_dim(axis):
                name = f"%in{number}_{axis}"
                self.parameters.append((name, "index"))
                shape.append(name)
            else:
                shape.append(argument.type.get_dim_size(axis))
        buffer = self.liveness.buffer_of[argument]
        self.pointers[buffer.number] = f"%in{number}"
        self.values[argument] = Shaped(buffer, tuple(shape), str(argument.type.element_type))

    def _op(self, number: int, op: ir.Operation) -> None:
        if op.name == "func.call":
            self._call(op)
        elif op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType):
            self._constant(op)
        elif op.name == "tensor.empty" and op.results[0] in self.liveness.buffer_of:
            result = op.results[0]
            self.values[result] = Shaped(
                self.liveness.buffer_of[result], self._empty_shape(result), str(result.type.element_type)
            )
            self._allocate(self.values[result])
        elif op.name in ("tensor.empty", "tensor.from_elements"):
            return
        elif op.name == "tensor.dim":
            position = constant_text(op.operands[1].owner)
            size = self.values[op.operands[0]].shape[int(position)] if op.operands[0] in self.values else None
            size = size if size is not None else self._empty_shape(op.operands[0])[int(position)]
            self.scalars[op.results[0]] = V(self.writer.index(size), "index")
        elif op.name == "tensor.extract":
            self._extract(op)
        elif isinstance(op.results[0].type, ir.RankedTensorType):
            shape = view_shape(op, self.values[op.operands[0]].shape, self.writer, self._index)
            source = self.values[op.operands[0]]
            self.values[op.results[0]] = Shaped(source.buffer, shape, source.element)
        elif op.name == "arith.constant":
            self.scalars[op.results[0]] = self.lanes.constant(constant_text(op), str(op.results[0].type))
        else:
            self.scalars[op.results[0]] = clone_scalar(op, [self.scalars[v] for v in op.operands], self.lanes)

    def _index(self, value: ir.Value) -> Index:
        owner = None if isinstance(value, ir.BlockArgument) else value.owner
        if owner is not None and owner.name == "arith.constant":
            return int(constant_text(owner))
        return self.scalars[value].name

    def _empty_shape(self, value: ir.Value) -> tuple[Index, ...]:
        sizes = iter(value.owner.operands)
        return tuple(
            self._index(next(sizes)) if value.type.is_dynamic_dim(i) else value.type.get_dim_size(i)
            for i in range(value.type.rank)
        )

    def _extract(self, op: ir.Operation) -> None:
        shaped, writer = self.values[op.operands[0]], self.writer
        offset: Index = 0
        for size, position in zip(shaped.shape, list(op.operands)[1:], strict=True):
            offset = writer.add(writer.mul(offset, size), self._index(position))
        kind, pointer = memory_type(shaped.element), self._pointer(shaped.buffer)
        number = writer.op(f"arith.index_cast {writer.index(offset)} : index to i64")
        address = writer.op(f"llvm.getelementptr {pointer}[{number}] : ({ADDRESS}, i64) -> {ADDRESS}, {kind}")
        value = writer.op(f"llvm.load {address} : {ADDRESS} -> {kind}")
        if kind != shaped.element:
            value = writer.op(f"arith.trunci {value} : {kind} to {shaped.element}")
        self.scalars[op.results[0]] = V(value, shaped.element)

    def _constant(self, op: ir.Operation) -> None:
        result = op.results[0]
        buffer, symbol = self.liveness.buffer_of[result], f"{self.name}_constant_{len(self.globals)}"
        text, kind = constant_global(symbol, op.attributes["value"], result.type)
        self.globals.append(text)
        memory = self.writer.op(f"memref.get_global @{symbol} : {kind}")
        address = f"llvm.inttoptr {self._number(memory, kind)} : i64 to {ADDRESS}"
        self.pointers[buffer.number] = self.writer.op(address)
        self.values[result] = Shaped(buffer, tuple(result.type.shape), str(result.type.element_type))

    def _call(self, op: ir.Operation) -> None:
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        if callee not in self.kernels and callee not in self.external:
            self._check(op, callee)
            return
        inputs = list(op.operands)[: len(op.operands) - len(op.results)]
        self._expect_no_failure(op)
        for result, empty in zip(op.results, list(op.operands)[len(inputs) :], strict=True):
            shaped = Shaped(self.liveness.buffer_of[result], self._empty_shape(empty), str(result.type.element_type))
            self.values[result] = shaped
            self._allocate(shaped)
        if callee in self.external:
            self._external(self.external.index(callee), [*inputs, *op.results])
            return
        arguments = [a for v in (*inputs, *op.results) for a in self._kernel_arguments(v)]
        types = self.kernels[callee].types().replace(POINTER, ADDRESS)
        self.writer.line(f"func.call @{callee}_launch{PLANNED}({', '.join(arguments)}) : ({types}) -> ()")
        self.unsure |= callee in self.known.checking

    def _expect_no_failure(self, op: ir.Operation) -> None:
        """Ends the run before a call that writes into an argument, if a check has failed."""
        if self.unsure and any(self.liveness.buffer_of[r].argument is not None for r in op.results):
            self._stop_if_failed()
            self.unsure = False

    def _kernel_arguments(self, value: ir.Value) -> list[str]:
        if value not in self.values:
            return [self.scalars[value].name]
        shaped = self.values[value]
        sizes = [s for i, s in enumerate(shaped.shape) if value.type.is_dynamic_dim(i)]
        return [self._pointer(shaped.buffer), *(self.writer.index(s) for s in sizes)]

    def _check(self, op: ir.Operation, callee: str) -> None:
        """A run-time check; where a size is wrong the run is left before anything reads beyond a buffer."""
        names = [self.scalars[v].name for v in op.operands]
        types = f"({', '.join(str(v.type) for v in op.operands)}) -> "
        if len(op.results):
            call = f"func.call @{callee}({', '.join(names)}) : {types}{op.results[0].type}"
            self.scalars[op.results[0]] = V(self.writer.op(call), str(op.results[0].type))
            return
        self.writer.line(f"func.call @{callee}({', '.join(names)}) : {types}()")

    def _external(self, number: int, values: Sequence[ir.Value]) -> None:
        """A call of a kernel made elsewhere, which gets the addresses of all tensors in an array."""
        writer, kind = self.writer, f"memref<{max(len(values), 1)}xi64>"
        array = writer.fresh()
        writer.head.append(f"{array} = memref.alloca() : {kind}")
        for slot, value in enumerate(values):
            pointer = self._pointer(self.values[value].buffer)
            address = writer.op(f"llvm.ptrtoint {pointer} : {ADDRESS} to i64")
            writer.line(f"memref.store {address}, {array}[{writer.index(slot)}] : {kind}")
        first = self.total - 2 * (len(self.external) - number)
        slots = [self._slot(first), self._slot(first + 1)]
        function, context = (writer.op(f"llvm.load {slot} : {ADDRESS} -> i64") for slot in slots)
        arguments = f"{function}, {context}, {self._number(array, kind)}, {writer.constant(str(number), 'i32')}"
        writer.line(f"func.call @oneflow_rt_call({arguments}) : (i64, i64, i64, i32) -> ()")
        self._stop_if_failed()

    def _slot(self, number: int) -> str:
        """The address of a slot of `io`."""
        return self.writer.op(f"llvm.getelementptr %io[{number}] : ({ADDRESS}) -> {ADDRESS}, i64")

    def _number(self, memory: str, kind: str) -> str:
        """The address of a memref as a number."""
        address = self.writer.op(f"memref.extract_aligned_pointer_as_index {memory} : {kind} -> index")
        return self.writer.op(f"arith.index_cast {address} : index to i64")

    def _stop_if_failed(self) -> None:
        failed = self.writer.op("func.call @oneflow_rt_failed() : () -> i64")
        zero = self.writer.constant("0", "i64")
        bad = self.writer.op(f"arith.cmpi ne, {failed}, {zero} : i64")
        label = f"^go{self.writer.fresh()[1:]}"
        self.writer.line(f"cf.cond_br {bad}, ^end, {label}")
        self.writer.line(f"{label}:")

    def _pointer(self, buffer: Buffer) -> str:
        return self.pointers[buffer.number]

    def _bytes(self, shaped: Shaped) -> Index:
        """The bytes of a tensor; where they do not fit 64 bits, more than any memory holds."""
        total: Index = element_bytes(shaped.element)
        for size in shaped.shape:
            total = self._times(total, size)
        return min(total, MOST_BYTES) if isinstance(total, int) else total

    def _times(self, a: Index, b: Index) -> Index:
        if (isinstance(a, int) and isinstance(b, int)) or 1 in (a, b):
            return self.writer.mul(a, b)
        names = ", ".join(self.writer.index(min(x, MOST_BYTES) if isinstance(x, int) else x) for x in (a, b))
        return self.writer.op(f"func.call @oneflow_rt_times({names}) : (index, index) -> index")

    def _allocate(self, shaped: Shaped) -> None:
        buffer = shaped.buffer
        if buffer.number in self.pointers:
            return
        if buffer.argument is not None:
            self.pointers[buffer.number] = f"%in{buffer.argument}"
        elif buffer.offset is not None:
            # Constants in the operation have 32 bits; programs may take more.
            offset = self.writer.constant(str(buffer.offset), "i64")
            text = f"llvm.getelementptr %workspace[{offset}] : ({ADDRESS}, i64) -> {ADDRESS}, i8"
            self.pointers[buffer.number] = self.writer.op(text)
        else:
            kind = "temporary" if buffer.result is None else "alloc"
            size = self.writer.index(self._bytes(shaped))
            call = f"func.call @oneflow_rt_{kind}{PLANNED}({size}) : (index) -> {ADDRESS}"
            self.pointers[buffer.number] = self.writer.op(call)
        if buffer.result is not None:
            self._publish(self.pointers[buffer.number], self.slots[buffer.result])

    def _publish(self, pointer: str, slot: int) -> None:
        """Gives the caller a result's address, so that it can free it whatever happens next."""
        self.writer.line(f"llvm.store {pointer}, {self._slot(slot)} : {ADDRESS}, {ADDRESS}")

    def _store(self, slot: int, value: Index) -> None:
        number = self.writer.op(f"arith.index_cast {self.writer.index(value)} : index to i64")
        self.writer.line(f"llvm.store {number}, {self._slot(slot)} : i64, {ADDRESS}")

    def _release(self, number: int) -> None:
        for buffer in self.ends.get(number, ()):
            if buffer.number in self.pointers:
                pointer = self.pointers[buffer.number]
                self.writer.line(f"func.call @oneflow_rt_release{PLANNED}({pointer}) : ({ADDRESS}) -> ()")

    def _return(self, value: ir.Value, slot: int) -> None:
        shaped = self.values[value]
        if shaped.buffer.result is None or self.slots[shaped.buffer.result] != slot:
            self._copy_out(shaped, slot)
        dynamic = [s for i, s in enumerate(shaped.shape) if value.type.is_dynamic_dim(i)]
        for offset, size in enumerate(dynamic, 1):
            self._store(slot + offset, size)

    def _copy_out(self, shaped: Shaped, slot: int) -> None:
        size = self.writer.index(self._bytes(shaped))
        target = self.writer.op(f"func.call @oneflow_rt_alloc{PLANNED}({size}) : (index) -> {ADDRESS}")
        self._publish(target, slot)
        arguments = f"{target}, {self._pointer(shaped.buffer)}, {size}"
        self.writer.line(f"func.call @oneflow_rt_copy{PLANNED}({arguments}) : ({ADDRESS}, {ADDRESS}, index) -> ()")


def element_bytes(element: str) -> int:
    """The bytes of one element in memory."""
    return max(int("".join(c for c in element if c.isdigit()) or 64) // 8, 1)


def _dynamic_count(value: ir.Value) -> int:
    return sum(value.type.is_dynamic_dim(i) for i in range(value.type.rank))


def _slots(first: int, results: list[ir.Value]) -> list[int]:
    """Where each result's address goes; its dynamic sizes follow."""
    slots = []
    for value in results:
        slots.append(first)
        first += 1 + _dynamic_count(value)
    return slots
