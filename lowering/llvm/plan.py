"""The entry as a plan: buffers, launches, results.

Buffers of static size are at fixed offsets of one workspace and share memory where their lifetimes do not overlap; a
pointwise kernel writes over an operand that dies. Buffers of dynamic size are allocated during the run. Results are
allocated by `oneflow_rt_alloc` and belong to the caller, or take the memory of donated arguments. Where memory runs
out, the entry returns early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.buffers import MAX_BYTES, Buffer, Liveness, control_bytes, plan_workspace
from oneflow.lowering.llvm.body_cloner import clone_operation, constant_text
from oneflow.lowering.llvm.constants import constant_global
from oneflow.lowering.llvm.control import ControlWriter, callee_of, copy_text
from oneflow.lowering.llvm.donation import CalledFunctions, DonationAnalysis
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.tensor_views import TensorView, view_shape
from oneflow.lowering.llvm.writer import ADDRESS, PLAN_SUFFIX, POINTER, Index, Writer, memory_type, plan_symbol
from oneflow.passes.walk import returned_values


def plan_declaration(name: str, parameters: str, result: str = "") -> str:
    """The declaration of a function for calls in a plan."""
    gives = f" -> {result}" if result else ""
    text = f"func.func private @{name}{PLAN_SUFFIX}({parameters}){gives}".replace(POINTER, ADDRESS)
    return f"{text} attributes {{oneflow.planned = @{name}}}"


#: The functions of the runtime that plans call with addresses.
RUNTIME = (
    plan_declaration("oneflow_rt_alloc", "index", ADDRESS),
    plan_declaration("oneflow_rt_temporary", "index", ADDRESS),
    plan_declaration("oneflow_rt_release", ADDRESS),
    plan_declaration("oneflow_rt_copy", f"{ADDRESS}, {ADDRESS}, index"),
)


@dataclass
class Plan:
    """Writes one entry. The last slots of `io` hold the function and the context of each external kernel.

    A result that takes the memory of an argument has the argument's address in its slot from the start of the write;
    no run-time check has failed by then.
    """

    #: The attributes of the plan's function.
    kind: ClassVar[str] = "oneflow.entry, llvm.linkage = #llvm.linkage<internal>"

    entry: ir.Operation
    functions: CalledFunctions
    writer: Writer = field(default_factory=Writer)
    globals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = ir.StringAttr(self.entry.attributes["sym_name"]).value
        self.block = self.entry.regions[0].blocks[0]
        self.ops = [o.operation for o in self.block.operations]
        self.values: dict[ir.Value, TensorView] = {}
        self.scalars: dict[ir.Value, LaneValue] = {}
        self.pointers: dict[int, str] = {}
        self.parameters: list[tuple[str, str]] = []
        self.lanes = Lanes(self.writer, Kernel(self.name, self.entry), None)
        self.kernels, self.external = self.functions.kernels, self.functions.external
        self.liveness = Liveness(self.ops, self.block, self.kernels)
        self.liveness.share_in_place(self.ops, self.functions.in_place)
        DonationAnalysis(self.ops, self.block, self.liveness, self.functions).donate(self.entry)
        controls, workspaces = self.functions.controls, self.functions.workspaces
        self.scratch = {n: self.liveness.scratch(n, control_bytes(op, controls[callee_of(op)], workspaces))
                        for n, op in enumerate(self.ops) if callee_of(op) in controls}  # fmt: skip
        self.workspace = plan_workspace(self.entry, self.liveness.buffers)
        self.io_slots = self._own_slots() + 2 * len(self.external)
        self.may_have_failed = False
        self.released_after: dict[int, list[Buffer]] = {}
        for buffer in self.liveness.buffers:
            if buffer.dynamic:
                self.released_after.setdefault(buffer.last, []).append(buffer)

    def _own_slots(self) -> int:
        """The number of slots before those of external kernels."""
        values = (*self.block.arguments, *returned_values(self.block))
        return sum(1 + _dynamic_count(v) for v in values)

    def module_attributes(self) -> dict[str, ir.Attribute]:
        """The metadata of the executable, as attributes of the module."""
        number = ir.IntegerType.get_signless(64)
        kinds = [ir.StringAttr.get(str(v.type)) for v in returned_values(self.block)]
        in_place = [[b.result, b.argument] for b in self.liveness.buffers if b.argument is not None]
        return {
            "oneflow.workspace": ir.IntegerAttr.get(number, self.workspace),
            "oneflow.results": ir.ArrayAttr.get(kinds),
            "oneflow.in_place": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(pair) for pair in in_place]),
        }

    def emit(self) -> str:
        """The entry's function and its globals as MLIR text."""
        for number, argument in enumerate(self.block.arguments):
            self._argument(number, argument)
        results = returned_values(self.block)
        self.slots = _slots(len(self.parameters), results)
        for number, op in enumerate(self.ops[:-1]):
            self._op(number, op)
            self._release(number)
        for value, slot in zip(results, self.slots, strict=True):
            self._return(value, slot)
        memory = [(name, ADDRESS) for name in (*self._destinations(), "%workspace", "%io")]
        parameters = ", ".join(f"{n}: {t}" for n, t in [*self.parameters, *memory])
        head = f"func.func @{plan_symbol(self.name)}({parameters}) attributes {{{self.kind}}} {{"
        tail = ["cf.br ^end", "^end:", "return", "}"]
        return "\n".join([*self.globals, head, *self.writer.head, *self.writer.lines, *tail])

    def _destinations(self) -> list[str]:
        """The parameters that are memory for results."""
        return []

    def _argument(self, number: int, argument: ir.Value) -> None:
        """Adds the parameters of an argument."""
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
        self.values[argument] = TensorView(buffer, tuple(shape), str(argument.type.element_type))

    def _op(self, number: int, op: ir.Operation) -> None:
        """Writes one operation of the entry."""
        if op.name == "func.call":
            self._call(number, op)
        elif op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType):
            self._constant(op)
        elif op.name == "tensor.empty" and op.results[0] in self.liveness.buffer_of:
            result = op.results[0]
            self.values[result] = TensorView(
                self.liveness.buffer_of[result], self._empty_shape(result), str(result.type.element_type)
            )
            self._allocate(self.values[result])
        elif op.name in ("tensor.empty", "tensor.from_elements"):
            return
        elif op.name == "tensor.dim":
            position = constant_text(op.operands[1].owner)
            size = self.values[op.operands[0]].shape[int(position)] if op.operands[0] in self.values else None
            size = size if size is not None else self._empty_shape(op.operands[0])[int(position)]
            self.scalars[op.results[0]] = LaneValue(self.writer.index(size), "index")
        elif op.name == "tensor.extract":
            self._extract(op)
        elif isinstance(op.results[0].type, ir.RankedTensorType):
            shape = view_shape(op, self.values[op.operands[0]].shape, self.writer, self._index)
            source = self.values[op.operands[0]]
            self.values[op.results[0]] = TensorView(source.buffer, shape, source.element)
        elif op.name == "arith.constant":
            self.scalars[op.results[0]] = self.lanes.constant(constant_text(op), str(op.results[0].type))
        else:
            self.scalars[op.results[0]] = clone_operation(op, [self.scalars[v] for v in op.operands], self.lanes)

    def _index(self, value: ir.Value) -> Index:
        """The value of an index: a number or a name."""
        owner = None if isinstance(value, ir.BlockArgument) else value.owner
        if owner is not None and owner.name == "arith.constant":
            return int(constant_text(owner))
        return self.scalars[value].name

    def _empty_shape(self, value: ir.Value) -> tuple[Index, ...]:
        """The sizes of a `tensor.empty`."""
        sizes = iter(value.owner.operands)
        return tuple(
            self._index(next(sizes)) if value.type.is_dynamic_dim(i) else value.type.get_dim_size(i)
            for i in range(value.type.rank)
        )

    def _extract(self, op: ir.Operation) -> None:
        """Loads an element of a tensor as a scalar."""
        view, writer = self.values[op.operands[0]], self.writer
        offset: Index = 0
        for size, position in zip(view.shape, list(op.operands)[1:], strict=True):
            offset = writer.add(writer.mul(offset, size), self._index(position))
        kind, pointer = memory_type(view.element), self._pointer(view.buffer)
        number = writer.op(f"arith.index_cast {writer.index(offset)} : index to i64")
        address = writer.op(f"llvm.getelementptr {pointer}[{number}] : ({ADDRESS}, i64) -> {ADDRESS}, {kind}")
        value = writer.op(f"llvm.load {address} : {ADDRESS} -> {kind}")
        if kind != view.element:
            value = writer.op(f"arith.trunci {value} : {kind} to {view.element}")
        self.scalars[op.results[0]] = LaneValue(value, view.element)

    def _constant(self, op: ir.Operation) -> None:
        """The address of a constant tensor."""
        result = op.results[0]
        buffer, symbol = self.liveness.buffer_of[result], f"{self.name}_constant_{len(self.globals)}"
        text, kind = constant_global(symbol, op.attributes["value"], result.type)
        self.globals.append(text)
        memory = self.writer.op(f"memref.get_global @{symbol} : {kind}")
        address = f"llvm.inttoptr {self._number(memory, kind)} : i64 to {ADDRESS}"
        self.pointers[buffer.number] = self.writer.op(address)
        self.values[result] = TensorView(buffer, tuple(result.type.shape), str(result.type.element_type))

    def _call(self, number: int, op: ir.Operation) -> None:
        """A call of a kernel, an external kernel, bodies, or a run-time check."""
        callee = callee_of(op)
        if not any(callee in known for known in (self.kernels, self.external, self.functions.controls)):
            self._check(op, callee)
            return
        inputs = list(op.operands)[: len(op.operands) - len(op.results)]
        self._stop_before_in_place_write(op)
        for result, empty in zip(op.results, list(op.operands)[len(inputs) :], strict=True):
            view = TensorView(
                self.liveness.buffer_of[result], self._empty_shape(empty), str(result.type.element_type)
            )
            self.values[result] = view
            self._allocate(view)
        if callee in self.external:
            self._external(self.external.index(callee), [*inputs, *op.results])
            return
        if callee in self.functions.controls:
            self._control(number, op, inputs)
            return
        arguments = [a for v in (*inputs, *op.results) for a in self._kernel_arguments(v)]
        types = self.kernels[callee].types().replace(POINTER, ADDRESS)
        self.writer.line(f"func.call @{callee}_launch{PLAN_SUFFIX}({', '.join(arguments)}) : ({types}) -> ()")
        self.may_have_failed |= callee in self.functions.checking

    def _stop_before_in_place_write(self, op: ir.Operation) -> None:
        """Ends the run before a call that writes into an argument, if a check has failed."""
        if self.may_have_failed and any(self.liveness.buffer_of[r].argument is not None for r in op.results):
            self._stop_if_failed()
            self.may_have_failed = False

    def _kernel_arguments(self, value: ir.Value) -> list[str]:
        """The arguments of a launch for one value: address and dynamic sizes, or a scalar."""
        if value not in self.values:
            return [self.scalars[value].name]
        view = self.values[value]
        sizes = [s for i, s in enumerate(view.shape) if value.type.is_dynamic_dim(i)]
        return [self._pointer(view.buffer), *(self.writer.index(s) for s in sizes)]

    def _check(self, op: ir.Operation, callee: str) -> None:
        """A call of a run-time check. After a wrong size the run ends before anything reads beyond a buffer."""
        names = [self.scalars[v].name for v in op.operands]
        types = f"({', '.join(str(v.type) for v in op.operands)}) -> "
        if len(op.results):
            call = f"func.call @{callee}({', '.join(names)}) : {types}{op.results[0].type}"
            self.scalars[op.results[0]] = LaneValue(self.writer.op(call), str(op.results[0].type))
            return
        self.writer.line(f"func.call @{callee}({', '.join(names)}) : {types}()")

    def _control(self, number: int, op: ir.Operation, inputs: Sequence[ir.Value]) -> None:
        """A call that runs bodies."""
        size = self.writer.constant(str(self.scratch[number].offset), "i64")
        scratch = self.writer.op(f"llvm.getelementptr %workspace[{size}] : ({ADDRESS}, i64) -> {ADDRESS}, i8")
        arguments, made = ([self._pointer(self.values[v].buffer) for v in part] for part in (inputs, op.results))
        external = self._slot(self.io_slots - 2 * len(self.external))
        control = self.functions.controls[callee_of(op)]
        ControlWriter(self.writer, op, control, arguments, made, scratch, external, self._stop_if_failed).emit()

    def _external(self, number: int, values: Sequence[ir.Value]) -> None:
        """A call of an external kernel, with the addresses of all tensors in an array."""
        writer, kind = self.writer, f"memref<{max(len(values), 1)}xi64>"
        array = writer.fresh()
        writer.head.append(f"{array} = memref.alloca() : {kind}")
        for slot, value in enumerate(values):
            pointer = self._pointer(self.values[value].buffer)
            address = writer.op(f"llvm.ptrtoint {pointer} : {ADDRESS} to i64")
            writer.line(f"memref.store {address}, {array}[{writer.index(slot)}] : {kind}")
        first = self.io_slots - 2 * (len(self.external) - number)
        slots = [self._slot(first), self._slot(first + 1)]
        function, context = (writer.op(f"llvm.load {slot} : {ADDRESS} -> i64") for slot in slots)
        arguments = f"{function}, {context}, {self._number(array, kind)}, {writer.constant(str(number), 'i32')}"
        writer.line(f"func.call @oneflow_rt_call({arguments}) : (i64, i64, i64, i32) -> ()")
        self._stop_if_failed()

    def _slot(self, number: int) -> str:
        """The address of a slot of `io`."""
        return self.writer.op(f"llvm.getelementptr %io[{number}] : ({ADDRESS}) -> {ADDRESS}, i64")

    def _number(self, memory: str, kind: str) -> str:
        """The address of a memref as an i64."""
        address = self.writer.op(f"memref.extract_aligned_pointer_as_index {memory} : {kind} -> index")
        return self.writer.op(f"arith.index_cast {address} : index to i64")

    def _stop_if_failed(self) -> None:
        """Jumps to the end if the run has failed."""
        failed = self.writer.op("func.call @oneflow_rt_failed() : () -> i64")
        zero = self.writer.constant("0", "i64")
        bad = self.writer.op(f"arith.cmpi ne, {failed}, {zero} : i64")
        label = f"^go{self.writer.fresh()[1:]}"
        self.writer.line(f"cf.cond_br {bad}, ^end, {label}")
        self.writer.line(f"{label}:")

    def _pointer(self, buffer: Buffer) -> str:
        """The address of a buffer."""
        return self.pointers[buffer.number]

    def _bytes(self, view: TensorView) -> Index:
        """The bytes of a tensor, saturated at `MAX_BYTES`."""
        total: Index = element_bytes(view.element)
        for size in view.shape:
            total = self._times(total, size)
        return min(total, MAX_BYTES) if isinstance(total, int) else total

    def _times(self, a: Index, b: Index) -> Index:
        """A product of sizes, saturated at run time."""
        if (isinstance(a, int) and isinstance(b, int)) or 1 in (a, b):
            return self.writer.mul(a, b)
        names = ", ".join(self.writer.index(min(x, MAX_BYTES) if isinstance(x, int) else x) for x in (a, b))
        return self.writer.op(f"func.call @oneflow_rt_times({names}) : (index, index) -> index")

    def _allocate(self, view: TensorView) -> None:
        """Gives a buffer an address: an argument's memory, the workspace, or an allocation."""
        buffer = view.buffer
        if buffer.number in self.pointers:
            return
        if buffer.argument is not None:
            self.pointers[buffer.number] = f"%in{buffer.argument}"
        elif buffer.result is not None and self._destinations():
            self.pointers[buffer.number] = self._destinations()[buffer.result]
            return
        elif buffer.offset is not None:
            # Constant offsets in llvm.getelementptr have 32 bits; workspaces can be larger.
            offset = self.writer.constant(str(buffer.offset), "i64")
            text = f"llvm.getelementptr %workspace[{offset}] : ({ADDRESS}, i64) -> {ADDRESS}, i8"
            self.pointers[buffer.number] = self.writer.op(text)
        else:
            kind = "temporary" if buffer.result is None else "alloc"
            size = self.writer.index(self._bytes(view))
            call = f"func.call @oneflow_rt_{kind}{PLAN_SUFFIX}({size}) : (index) -> {ADDRESS}"
            self.pointers[buffer.number] = self.writer.op(call)
        if buffer.result is not None:
            self._store_result_address(self.pointers[buffer.number], self.slots[buffer.result])

    def _store_result_address(self, pointer: str, slot: int) -> None:
        """Stores a result's address for the caller, who frees the result in any case."""
        self.writer.line(f"llvm.store {pointer}, {self._slot(slot)} : {ADDRESS}, {ADDRESS}")

    def _store(self, slot: int, value: Index) -> None:
        """Stores a number in a slot of `io`."""
        number = self.writer.op(f"arith.index_cast {self.writer.index(value)} : index to i64")
        self.writer.line(f"llvm.store {number}, {self._slot(slot)} : i64, {ADDRESS}")

    def _release(self, number: int) -> None:
        """Frees the allocated buffers that die at operation `number`."""
        for buffer in self.released_after.get(number, ()):
            if buffer.number in self.pointers:
                pointer = self.pointers[buffer.number]
                self.writer.line(f"func.call @oneflow_rt_release{PLAN_SUFFIX}({pointer}) : ({ADDRESS}) -> ()")

    def _return(self, value: ir.Value, slot: int) -> None:
        """Stores a result's address and dynamic sizes; a result without its own memory is copied."""
        view = self.values[value]
        if view.buffer.result is None or self.slots[view.buffer.result] != slot:
            self._copy_out(view, slot)
        dynamic = [s for i, s in enumerate(view.shape) if value.type.is_dynamic_dim(i)]
        for offset, size in enumerate(dynamic, 1):
            self._store(slot + offset, size)

    def _copy_out(self, view: TensorView, slot: int) -> None:
        """Copies a result that is an argument, a constant, or another result too."""
        size = self.writer.index(self._bytes(view))
        target = self.writer.op(f"func.call @oneflow_rt_alloc{PLAN_SUFFIX}({size}) : (index) -> {ADDRESS}")
        self._store_result_address(target, slot)
        self.writer.line(copy_text(f"{target}, {self._pointer(view.buffer)}, {size}"))


class BodyPlan(Plan):
    """Writes a function that is a body: the function writes its results to given memory.

    Its parameters are addresses: of the arguments, of the results, of its workspace, and of the first slot of
    external kernels.
    """

    kind: ClassVar[str] = "oneflow.body"

    def _own_slots(self) -> int:
        return 0

    def _destinations(self) -> list[str]:
        return [f"%out{n}" for n in range(len(returned_values(self.block)))]

    def _return(self, value: ir.Value, slot: int) -> None:
        """Copies a result that is an argument, a constant, or another result too."""
        view, number = self.values[value], self.slots.index(slot)
        if view.buffer.result != number:
            size = self.writer.index(self._bytes(view))
            arguments = f"%out{number}, {self._pointer(view.buffer)}, {size}"
            self.writer.line(copy_text(arguments))


def element_bytes(element: str) -> int:
    """The bytes of one element in memory."""
    return max(element_bits(element) // 8, 1)


def _dynamic_count(value: ir.Value) -> int:
    """The number of dynamic dimensions."""
    return sum(value.type.is_dynamic_dim(i) for i in range(value.type.rank))


def _slots(first: int, results: list[ir.Value]) -> list[int]:
    """The slot of each result's address; the slots of its dynamic sizes follow."""
    slots = []
    for value in results:
        slots.append(first)
        first += 1 + _dynamic_count(value)
    return slots
