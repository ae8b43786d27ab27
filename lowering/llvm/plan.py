"""The plan of an entry or of a body: sizes, buffers and launches in program order.

Input is a function at the `kernels` stage, output its plan as MLIR text. Buffers of static size are at fixed offsets
of one workspace and share memory where their lifetimes do not overlap; a pointwise kernel overwrites an operand that
has no later use. Buffers of dynamic size are allocated at run time. Results are allocated by `oneflow_rt_alloc` and
belong to the caller, or take the memory of donated arguments. Where memory runs out, the plan returns early.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffer_assignment import Buffer, Liveness, control_bytes, plan_workspace
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.llvm.body_cloner import clone_operation, constant_text
from oneflow.lowering.llvm.constants import constant_global
from oneflow.lowering.llvm.donation import CalledFunctions, DonationAnalysis
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.plan_calls import PlanCalls, integer_address
from oneflow.lowering.llvm.plan_memory import PlanMemory, argument_name
from oneflow.lowering.llvm.plan_results import GivenResults, PlanResults, ReturnedResults
from oneflow.lowering.llvm.plan_symbols import ADDRESS, plan_symbol
from oneflow.lowering.llvm.tensor_views import TensorView, view_shape
from oneflow.lowering.llvm.writer import Index, Writer, memory_type, reference
from oneflow.passes.walk import returned_values


def plan_of_entry(function: ir.Operation, functions: CalledFunctions) -> Plan:
    """The plan of an entry, whose last parameters are the workspace and `io`."""
    writer, block = Writer(), function.regions[0].blocks[0]
    results = ReturnedResults(writer, list(block.arguments), returned_values(block))
    return Plan(function, functions, writer, results, "oneflow.entry, llvm.linkage = #llvm.linkage<internal>")


def plan_of_body(function: ir.Operation, functions: CalledFunctions) -> Plan:
    """The plan of a body.

    The parameters are the addresses of the arguments, of the results, of the workspace of the body, and of the first
    slot of external kernels.
    """
    writer = Writer()
    results = GivenResults(writer, returned_values(function.regions[0].blocks[0]))
    return Plan(function, functions, writer, results, "oneflow.body")


@dataclass
class Plan:
    """Writes one plan.

    Attributes:
        entry, functions: the function, and the analysis of the functions that it calls.
        writer: the plan that is written.
        results: writes the results to the memory of the caller.
        kind: the attributes of the plan's function.
    """

    entry: ir.Operation
    functions: CalledFunctions
    writer: Writer
    results: PlanResults
    kind: str
    globals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = ir.StringAttr(self.entry.attributes["sym_name"]).value
        self.block = self.entry.regions[0].blocks[0]
        self.ops = [o.operation for o in self.block.operations]
        self.values: dict[ir.Value, TensorView] = {}
        self.scalars: dict[ir.Value, LaneValue] = {}
        self.parameters: list[tuple[str, str]] = []
        self.lanes = Lanes(self.writer, Kernel(self.name, self.entry), None)
        self._plan_memory()
        self.memory = PlanMemory(
            self.writer, self.liveness.buffers, self.results.parameters, self.results.record_address
        )
        self.calls = PlanCalls(self.writer, self.memory, self.functions, self.results.slots)

    def _plan_memory(self) -> None:
        """Finds the buffers of the function and their offsets in the workspace."""
        functions = self.functions
        self.liveness = Liveness(self.ops, self.block, functions.kernels)
        self.liveness.share_in_place(self.ops, functions.in_place)
        DonationAnalysis(self.ops, self.block, self.liveness, functions).donate(self.entry)
        self.scratch: dict[int, Buffer] = {}
        for index, op in enumerate(self.ops):
            if callee_of(op) in functions.controls:
                size = control_bytes(op, functions.controls[callee_of(op)], functions.workspaces)
                self.scratch[index] = self.liveness.scratch(index, size)
        self.workspace = plan_workspace(self.entry, self.liveness.buffers)

    def module_attributes(self) -> dict[str, ir.Attribute]:
        """The metadata of the executable, as attributes of the module."""
        i64 = ir.IntegerType.get_signless(64)
        kinds = [ir.StringAttr.get(str(v.type)) for v in returned_values(self.block)]
        in_place = [[b.result, b.argument] for b in self.liveness.buffers if b.argument is not None]
        return {
            "oneflow.workspace": ir.IntegerAttr.get(i64, self.workspace),
            "oneflow.results": ir.ArrayAttr.get(kinds),
            "oneflow.in_place": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(pair) for pair in in_place]),
        }

    def emit(self) -> str:
        """The plan's function and its globals as MLIR text."""
        for index, argument in enumerate(self.block.arguments):
            self._argument(index, argument)
        for index, op in enumerate(self.ops[:-1]):
            self._op(index, op)
            self.memory.release(index)
        for index, value in enumerate(returned_values(self.block)):
            self.results.return_result(index, value, self.values[value], self.memory)
        memory = [(name, ADDRESS) for name in (*self.results.parameters, "%workspace", "%io")]
        parameters = ", ".join(f"{n}: {t}" for n, t in [*self.parameters, *memory])
        head = f"func.func {reference(plan_symbol(self.name))}({parameters}) attributes {{{self.kind}}} {{"
        tail = ["cf.br ^end", "^end:", "return", "}"]
        return "\n".join([*self.globals, head, *self.writer.head, *self.writer.lines, *tail])

    def _argument(self, index: int, argument: ir.Value) -> None:
        """Adds the parameters of an argument."""
        address = argument_name(index)
        self.parameters.append((address, ADDRESS))
        shape: list[Index] = []
        for axis in range(argument.type.rank):
            if argument.type.is_dynamic_dim(axis):
                self.parameters.append((f"{address}_{axis}", "index"))
                shape.append(f"{address}_{axis}")
            else:
                shape.append(argument.type.get_dim_size(axis))
        buffer = self.liveness.buffer_of[argument]
        self.memory.addresses[buffer.number] = address
        self.values[argument] = TensorView(buffer, tuple(shape), str(argument.type.element_type))

    def _op(self, index: int, op: ir.Operation) -> None:
        """Writes one operation."""
        if op.name == "func.call":
            self._call(index, op)
        elif op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType):
            self._constant(op)
        elif op.name == "tensor.empty" and op.results[0] in self.liveness.buffer_of:
            self._allocate(op.results[0], self._empty_shape(op.results[0]))
        elif op.name in ("tensor.empty", "tensor.from_elements"):
            return
        elif op.name == "tensor.dim":
            self._dim(op)
        elif op.name == "tensor.extract":
            self._extract(op)
        elif isinstance(op.results[0].type, ir.RankedTensorType):
            source = self.values[op.operands[0]]
            shape = view_shape(op, source.shape, self.writer, self._index)
            self.values[op.results[0]] = TensorView(source.buffer, shape, source.element)
        elif op.name == "arith.constant":
            self.scalars[op.results[0]] = self.lanes.constant(constant_text(op), str(op.results[0].type))
        else:
            self.scalars[op.results[0]] = clone_operation(op, [self.scalars[v] for v in op.operands], self.lanes)

    def _allocate(self, value: ir.Value, shape: tuple[Index, ...]) -> None:
        """Gives a tensor memory."""
        self.values[value] = TensorView(self.liveness.buffer_of[value], shape, str(value.type.element_type))
        self.memory.allocate(self.values[value])

    def _address(self, value: ir.Value) -> str:
        """The address of a tensor."""
        return self.memory.address(self.values[value].buffer)

    def _index(self, value: ir.Value) -> Index:
        """The value of an index: an int if it is constant, the name of the SSA value otherwise."""
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

    def _dim(self, op: ir.Operation) -> None:
        """A size of a tensor."""
        tensor, axis = op.operands
        shape = self.values[tensor].shape if tensor in self.values else self._empty_shape(tensor)
        size = shape[int(constant_text(axis.owner))]
        self.scalars[op.results[0]] = LaneValue(self.writer.index(size), "index")

    def _extract(self, op: ir.Operation) -> None:
        """Loads an element of a tensor as a scalar."""
        view, writer = self.values[op.operands[0]], self.writer
        offset: Index = 0
        for size, index in zip(view.shape, list(op.operands)[1:], strict=True):
            offset = writer.add(writer.mul(offset, size), self._index(index))
        kind = memory_type(view.element)
        integer = writer.op(f"arith.index_cast {writer.index(offset)} : index to i64")
        pointer = self.memory.address(view.buffer)
        address = writer.op(f"llvm.getelementptr {pointer}[{integer}] : ({ADDRESS}, i64) -> {ADDRESS}, {kind}")
        value = writer.op(f"llvm.load {address} : {ADDRESS} -> {kind}")
        if kind != view.element:
            value = writer.op(f"arith.trunci {value} : {kind} to {view.element}")
        self.scalars[op.results[0]] = LaneValue(value, view.element)

    def _constant(self, op: ir.Operation) -> None:
        """The address of a constant tensor."""
        result, writer = op.results[0], self.writer
        buffer, symbol = self.liveness.buffer_of[result], f"oneflow_constant_{len(self.globals)}_{self.name}"
        text, kind = constant_global(symbol, op.attributes["value"], result.type)
        self.globals.append(text)
        memory = writer.op(f"memref.get_global {reference(symbol)} : {kind}")
        integer = integer_address(writer, memory, kind)
        self.memory.addresses[buffer.number] = writer.op(f"llvm.inttoptr {integer} : i64 to {ADDRESS}")
        self.values[result] = TensorView(buffer, tuple(result.type.shape), str(result.type.element_type))

    def _call(self, index: int, op: ir.Operation) -> None:
        """A call of a kernel, an external kernel, bodies, or a run-time check."""
        callee, functions = callee_of(op), self.functions
        if not any(callee in known for known in (functions.kernels, functions.external, functions.controls)):
            self._check(op, callee)
            return
        inputs = list(op.operands)[: len(op.operands) - len(op.results)]
        self.calls.stop_before_in_place_write([self.liveness.buffer_of[r] for r in op.results])
        for result, empty in zip(op.results, list(op.operands)[len(inputs) :], strict=True):
            self._allocate(result, self._empty_shape(empty))
        if callee in functions.kernels:
            self.calls.launch(callee, [a for v in (*inputs, *op.results) for a in self._launch_arguments(v)])
            return
        arguments, results = list(map(self._address, inputs)), list(map(self._address, op.results))
        if callee in functions.external:
            self.calls.run_external(callee, [*arguments, *results])
        else:
            self.calls.run_control(op, self.scratch[index], arguments, results)

    def _launch_arguments(self, value: ir.Value) -> list[str]:
        """The arguments of a launch for a tensor or a scalar."""
        if value in self.values:
            return self.calls.tensor_arguments(value, self.values[value])
        return [self.scalars[value].name]

    def _check(self, op: ir.Operation, callee: str) -> None:
        """A call of a run-time check. After a wrong size the run ends before anything reads beyond a buffer."""
        names = ", ".join(self.scalars[v].name for v in op.operands)
        types = f"({', '.join(str(v.type) for v in op.operands)}) -> "
        call = f"func.call {reference(callee)}({names}) : {types}"
        if not len(op.results):
            self.writer.line(f"{call}()")
            return
        kind = str(op.results[0].type)
        self.scalars[op.results[0]] = LaneValue(self.writer.op(f"{call}{kind}"), kind)
