"""The entry as a plan: a Python function that computes sizes, takes memory and launches kernels.

    def main(run, in0, in0_0):
        b1 = run.result(0, in0_0 * 4, (in0_0,))
        run.launch("main_kernel_0", in0, in0_0, b1, in0_0, writes=1)

Static temporaries have offsets in one workspace, planned by their lifetimes. A kernel that updates an operand
overwrites the operand if no later operation reads the operand, else a copy. A result takes the memory of the argument
that is donated to the result where the reads of the argument precede the write (`donation.py`). `run` executes the
plan on a device (`oneflow.runtime.cuda`, `oneflow.testing.triton_interpreter`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.buffer_assignment import Buffer, Liveness, control_bytes, plan_workspace
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.linalg.control import Control
from oneflow.lowering.linalg.emit import BARRIER
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.body import literal
from oneflow.lowering.triton.codegen.kernel import Kernel
from oneflow.lowering.triton.launch.control import ControlWriter
from oneflow.lowering.triton.launch.donation import donations
from oneflow.lowering.triton.launch.overlap import extend_lifetimes
from oneflow.lowering.triton.names import PLAN, identifier
from oneflow.lowering.triton.source import FAILURE, Source
from oneflow.lowering.triton.symbolic_sizes import Size, product
from oneflow.passes.base import PassError

#: Scalar operations of an entry in Python.
SCALARS = {
    "arith.addi": "{0} + {1}", "arith.subi": "{0} - {1}", "arith.muli": "{0} * {1}",
    "arith.floordivsi": "{0} // {1}", "arith.ceildivsi": "-(-{0} // {1})", "arith.remsi": "{0} % {1}",
    "arith.divsi": "{0} // {1}", "arith.divui": "{0} // {1}", "arith.remui": "{0} % {1}",
    "arith.maxsi": "max({0}, {1})", "arith.minsi": "min({0}, {1})", "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}", "arith.xori": "{0} ^ {1}", "arith.select": "({1} if {0} else {2})",
    "arith.addf": "{0} + {1}", "arith.subf": "{0} - {1}", "arith.mulf": "{0} * {1}", "arith.divf": "{0} / {1}",
    **{f"arith.{k}": "{0}" for k in "index_cast index_castui extsi extui trunci extf truncf".split()},
    **{f"arith.{k}": "float({0})" for k in ("sitofp", "uitofp")},
    **{f"arith.{k}": "int({0})" for k in ("fptosi", "fptoui")},
    **{f"math.{k}": f"math.{k}({{0}})" for k in ("ceil", "floor", "trunc", "sqrt")},
    "math.roundeven": "round({0})", "arith.maximumf": "max({0}, {1})", "arith.minimumf": "min({0}, {1})",
}  # fmt: skip
#: The comparisons of an entry in Python, by the integer of the predicate.
PREDICATES: dict[str, dict[int, str]] = {
    "arith.cmpi": dict(enumerate(("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">="))),
    "arith.cmpf": {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="},
}
INDENT = "    "


@dataclass
class PlacedTensor:
    """A tensor of the entry: its buffer, sizes and element type."""

    buffer: Buffer
    shape: tuple[Size, ...]
    element: str


@dataclass
class Plan:
    """Plans one entry. `functions` are the kernels at the `kernels` stage, `sources` their Triton forms.

    Operands and results of `external` kernels, which are host code, and of the kernels `hosts` are copied to the host
    and back. `in_place` has for each external kernel the pairs of a result and the operand whose memory it may take.
    `controls` are the calls of bodies, and `workspaces` the bytes that the plan of each body needs.
    """

    entry: ir.Operation
    functions: Mapping[str, ir.Operation]
    sources: Mapping[str, Source]
    external: Sequence[str] = ()
    hosts: Collection[str] = ()
    in_place: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    controls: Mapping[str, Control] = field(default_factory=dict)
    workspaces: Mapping[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    constants: list[ir.Attribute] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    placed: dict[ir.Value, PlacedTensor] = field(default_factory=dict)
    scalars: dict[ir.Value, Size] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = ir.StringAttr(self.entry.attributes["sym_name"]).value
        self.block = self.entry.regions[0].blocks[0]
        self.ops = [o.operation for o in self.block.operations]
        kernels = {name: Kernel.read(f) for name, f in self.functions.items()}
        self.liveness = Liveness(self.ops, self.block, kernels)
        target, temporaries = gpu_target(), _static_bytes(self.liveness.buffers)
        without_reuse = temporaries <= target.kernels.launches.no_reuse_l2_share * target.l2_cache_bytes
        if not without_reuse:
            self.liveness.share_in_place(self.ops, self.in_place)
        self.scratch = {n: self.liveness.scratch(n, control_bytes(op, self.controls[callee_of(op)], self.workspaces))
                        for n, op in enumerate(self.ops)
                        if callee_of(op) in self.controls}  # fmt: skip
        self.copied = {r: v for index, op in enumerate(self.ops) for r, v in self._updates(index, op)}
        extend_lifetimes(self.ops, self.liveness)
        self.workspace = plan_workspace(self.entry, self.liveness.buffers, without_reuse)
        updates = {name: source.updates for name, source in self.sources.items()}
        self.donated = donations(self.entry, self.ops, self.liveness.buffer_of, self.functions, updates)
        for result in self.donated:
            self.copied.pop(self.ops[-1].operands[result], None)
        self.ending: dict[int, list[Buffer]] = defaultdict(list)
        for buffer in self.liveness.buffers:
            if buffer.aliases is None and buffer.dynamic:
                self.ending[buffer.last].append(buffer)

    def _updates(self, index: int, op: ir.Operation) -> list[tuple[ir.Value, ir.Value]]:
        """Lets results share the buffers of operands that the results update.

        Returns the results that share no buffer, each with the operand that is copied into the result before.
        """
        source = self.sources.get(callee_of(op))
        copies = []
        for result, operand in (source.updates if source else {}).items():
            buffer, value = self.liveness.buffer_of[op.results[result]], op.operands[operand]
            if not isinstance(value, ir.BlockArgument) and value.owner.name == "tensor.empty":
                continue
            if not _try_share(buffer, self.liveness.buffer_of[value], index):
                copies.append((op.results[result], value))
        return copies

    def text(self) -> str:
        """The function's source."""
        parameters = self._first_parameters()
        for index, argument in enumerate(self.block.arguments):
            parameters += self._argument(index, argument)
        for index, op in enumerate(self.ops[:-1]):
            try:
                self._op(index, op)
            except Unsupported:
                raise PassError(
                    f"expected kernels, views and sizes in the entry, got {op.name}", op.location
                ) from None
            self._release(index)
        for index, value in enumerate(self.ops[-1].operands):
            self._return(index, value)
        parameters += self._last_parameters()
        body = "\n".join(INDENT + line for line in self.lines or ["pass"])
        return f"def {identifier(self.name)}({', '.join(parameters)}):\n{body}\n"

    def _first_parameters(self) -> list[str]:
        """The parameters before the parameters of the arguments."""
        return ["run"]

    def _last_parameters(self) -> list[str]:
        """The parameters after the parameters of the arguments."""
        return []

    def write(self, module: ir.Module, bodies: Sequence[str] = ()) -> None:
        """Writes the plan as an attribute of the entry, and the metadata of runs as attributes of the module.

        `bodies` are the plans of the bodies that the entry runs.
        """
        self.entry.attributes[PLAN] = ir.StringAttr.get("\n\n".join([self.text(), *bodies]))
        attributes = module.operation.attributes
        attributes["oneflow.workspace"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.workspace)
        results = [ir.StringAttr.get(str(v.type)) for v in self.ops[-1].operands]
        attributes["oneflow.results"] = ir.ArrayAttr.get(results)
        attributes["oneflow.constants"] = ir.ArrayAttr.get(self.constants)

    def _argument(self, index: int, argument: ir.Value) -> list[str]:
        """Records an argument, and returns its parameters."""
        name, shape, parameters = f"in{index}", [], [f"in{index}"]
        for axis in range(argument.type.rank):
            static = not argument.type.is_dynamic_dim(axis)
            shape.append(Size.of(argument.type.get_dim_size(axis) if static else f"{name}_{axis}"))
            parameters += [] if static else [f"{name}_{axis}"]
        buffer = self.liveness.buffer_of[argument]
        self.names[buffer.number] = name
        self.placed[argument] = PlacedTensor(buffer, tuple(shape), str(argument.type.element_type))
        return parameters

    def _op(self, index: int, op: ir.Operation) -> None:
        if op.name == "func.call":
            self._call(index, op)
            return
        if op.name in ("tensor.empty", "linalg.fill", "tensor.from_elements"):
            return
        result = op.results[0]
        if op.name == "tensor.dim":
            axis = self._size(op.operands[1]).static or 0
            self.scalars[result] = self._shape(op.operands[0])[axis]
        elif op.name == "tensor.extract":
            self._extract(op)
        elif isinstance(result.type, ir.RankedTensorType):
            self._tensor(op, result)
        else:
            self._scalar(op, result)

    def _tensor(self, op: ir.Operation, result: ir.Value) -> None:
        if op.name == "arith.constant":
            self.placed[result] = PlacedTensor(
                self.liveness.buffer_of[result], _static(result.type), str(result.type.element_type)
            )
            self.names[self.liveness.buffer_of[result].number] = f"run.constant({len(self.constants)})"
            self.constants.append(op.attributes["value"])
            return
        if op.operands[0] in self.placed:
            source = self.placed[op.operands[0]]
            self.placed[result] = PlacedTensor(source.buffer, self._view(op, source.shape), source.element)

    def _shape(self, value: ir.Value) -> tuple[Size, ...]:
        if value in self.placed:
            return self.placed[value].shape
        op = value.owner
        if op.name == "tensor.empty":
            return self._sized(value.type, op.operands)
        if op.name == "linalg.fill":
            return self._shape(op.operands[1])
        return self._view(op, self._shape(op.operands[0]))

    def _sized(self, kind: ir.Type, dynamic: ir.OpOperandList) -> tuple[Size, ...]:
        rest = iter(dynamic)
        return tuple(
            self._size(next(rest)) if kind.is_dynamic_dim(i) else Size.of(kind.get_dim_size(i))
            for i in range(kind.rank)
        )

    def _view(self, op: ir.Operation, shape: tuple[Size, ...]) -> tuple[Size, ...]:
        """The sizes of the result of a view operation on a tensor of sizes `shape`."""
        kind = op.results[0].type
        if op.name in ("tensor.cast", BARRIER):
            return tuple(s if kind.is_dynamic_dim(i) else Size.of(kind.get_dim_size(i)) for i, s in enumerate(shape))
        if op.name == "tensor.collapse_shape":
            groups = [[ir.IntegerAttr(i).value for i in g] for g in op.attributes["reassociation"]]
            return tuple(product(shape[i] for i in g) for g in groups)
        if op.name == "tensor.expand_shape":
            return self._sized(kind, list(op.operands)[1:])
        elements = op.operands[1].owner
        if op.name != "tensor.reshape" or elements.name != "tensor.from_elements":
            raise Unsupported(f"{op.name} in an entry")
        return tuple(self._size(v) for v in elements.operands)

    def _size(self, value: ir.Value) -> Size:
        if value not in self.scalars:
            raise Unsupported("a size that the entry does not compute")
        return self.scalars[value]

    def _scalar(self, op: ir.Operation, result: ir.Value) -> None:
        if op.name == "arith.constant":
            value = op.attributes["value"]
            self.scalars[result] = Size.of(value.value if isinstance(value, ir.IntegerAttr) else literal(value))
            return
        args = [self._size(v) for v in op.operands]
        if op.name in ("arith.addi", "arith.muli"):
            self.scalars[result] = args[0] + args[1] if op.name == "arith.addi" else args[0] * args[1]
            return
        if op.name in PREDICATES:
            text = f"{{0}} {PREDICATES[op.name][ir.IntegerAttr(op.attributes['predicate']).value]} {{1}}"
        elif op.name in SCALARS:
            text = SCALARS[op.name]
        else:
            raise Unsupported(f"{op.name} in an entry")
        self.scalars[result] = args[0] if text == "{0}" else self._named(text.format(*(a.atom for a in args)))

    def _named(self, text: str) -> Size:
        """A new name for the value of an expression."""
        name = f"n{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return Size.of(name)

    def _extract(self, op: ir.Operation) -> None:
        tensor = self.placed[op.operands[0]]
        offset = Size()
        for axis, position in enumerate(list(op.operands)[1:]):
            offset = offset + self._size(position) * product(tensor.shape[axis + 1 :])
        text = f'run.read({self._pointer(tensor.buffer)}, {offset}, "{tensor.element}")'
        self.scalars[op.results[0]] = self._named(text)

    def _call(self, index: int, op: ir.Operation) -> None:
        callee = callee_of(op)
        if not any(callee in known for known in (self.sources, self.external, self.hosts, self.controls)):
            self._check(op)
            return
        inputs = list(op.operands)[: len(op.operands) - len(op.results)]
        for result, empty in zip(op.results, list(op.operands)[len(inputs) :], strict=True):
            self.placed[result] = PlacedTensor(
                self.liveness.buffer_of[result], self._shape(empty), str(result.type.element_type)
            )  # fmt: skip
            self._allocate(self.placed[result])
        if callee in self.external:
            operands, results = (", ".join(map(self._extent, v)) for v in (inputs, op.results))
            self.lines.append(f"run.host({self.external.index(callee)}, [{operands}], [{results}])")
        elif callee in self.hosts:
            operands, results = (", ".join(map(self._host_operand, v)) for v in (inputs, op.results))
            self.lines.append(f'run.on_host("{callee}", [{operands}], [{results}])')
        elif callee in self.controls:
            self._control(index, op, inputs)
        else:
            self._launch(op, inputs)

    def _launch(self, op: ir.Operation, inputs: Sequence[ir.Value]) -> None:
        """A launch of a Triton kernel, after the copies and fills that the kernel needs."""
        callee = callee_of(op)
        source = self.sources[callee]
        for result, operand in source.updates.items():
            self._copy(op.results[result], op.operands[operand])
        for result, value in source.fills.items():
            filled = self.placed[op.results[result]]
            address, size = self._pointer(filled.buffer), product(filled.shape)
            self.lines.append(f'run.fill({address}, {size}, {value}, "{filled.element}")')
        arguments = [a for v in (*inputs, *op.results) for a in self._arguments(v)]
        arguments += ["run.failure"] if source.parameters and source.parameters[-1].name == FAILURE else []
        arguments += [f"writes={len(op.results)}"] if len(op.results) else []
        self.lines.append(f'run.launch("{callee}", {", ".join(arguments)})')
        op.attributes["oneflow.at"] = ir.ArrayAttr.get([ir.StringAttr.get(self._location(r)) for r in op.results])

    def _control(self, index: int, op: ir.Operation, inputs: Sequence[ir.Value]) -> None:
        """A call that runs bodies."""
        buffer = self.scratch[index]
        base = self._workspace_offset(buffer.offset or 0)
        arguments, results = ([self._pointer(self.placed[v].buffer) for v in part] for part in (inputs, op.results))
        call = ControlWriter(index, op, self.controls[callee_of(op)], arguments, results, base, buffer.bytes or 0)
        self.lines += call.text()

    def _workspace_offset(self, offset: int) -> str:
        """The offset of memory in the workspace of the program."""
        return str(offset)

    def _extent(self, value: ir.Value) -> str:
        """The address and the bytes of a tensor, as text."""
        tensor = self.placed[value]
        return f"({self._pointer(tensor.buffer)}, {_bytes(tensor)})"

    def _host_operand(self, value: ir.Value) -> str:
        """The address and the sizes of a tensor, or a scalar, as text."""
        if not isinstance(value.type, ir.RankedTensorType):
            return str(self._size(value))
        sizes = "".join(f"{s}, " for s in self._shape(value))
        address = self._pointer(self.placed[value].buffer) if value in self.placed else "0"
        return f"({address}, ({sizes}))"

    def _location(self, result: ir.Value) -> str:
        """The memory of a result as text, for people who read the plan."""
        buffer = self.liveness.buffer_of[result].root
        if buffer.result is not None:
            argument = self.donated.get(buffer.result)
            return f"result {buffer.result}" + ("" if argument is None else f" in argument {argument}")
        return "allocated" if buffer.offset is None else f"workspace {buffer.offset}"

    def _copy(self, result: ir.Value, value: ir.Value) -> None:
        if result in self.copied:
            to, source = self.placed[result], self.placed[value]
            self.lines.append(f"run.copy({self._pointer(to.buffer)}, {self._pointer(source.buffer)}, {_bytes(to)})")

    def _arguments(self, value: ir.Value) -> list[str]:
        if isinstance(value.type, ir.RankedTensorType):
            if value not in self.placed:
                sizes = [s for i, s in enumerate(self._shape(value)) if value.type.is_dynamic_dim(i)]
                return ["0", *map(str, sizes)]
            tensor = self.placed[value]
            sizes = [s for i, s in enumerate(tensor.shape) if value.type.is_dynamic_dim(i)]
            return [self._pointer(tensor.buffer), *map(str, sizes)]
        return [str(self._size(value))]

    def _check(self, op: ir.Operation) -> None:
        """A run-time check of a size or a position on the host."""
        kind = callee_of(op).removeprefix("oneflow_rt_")
        args = ", ".join(str(self._size(v)) for v in op.operands)
        if len(op.results):
            self.scalars[op.results[0]] = self._named(f"run.{kind}({args})")
        else:
            self.lines.append(f"run.{kind}({args})")

    def _pointer(self, buffer: Buffer) -> str:
        return self.names[buffer.root.number]

    def _allocate(self, tensor: PlacedTensor) -> None:
        buffer = tensor.buffer.root
        if buffer.number in self.names:
            return
        name = self.names[buffer.number] = f"b{buffer.number}"
        if buffer.result is not None:
            text = self._result_memory(buffer.result, tensor)
        elif buffer.offset is not None:
            text = f"run.at({self._workspace_offset(buffer.offset)}, {buffer.bytes})"
        else:
            text = f"run.temporary({_bytes(tensor)})"
        self.lines.append(f"{name} = {text}")

    def _result_memory(self, index: int, tensor: PlacedTensor) -> str:
        """The expression that takes the memory of a result."""
        sizes = "".join(f"{s}, " for s in tensor.shape).rstrip(" ")
        argument = self.donated.get(index)
        call = f"result({index}" if argument is None else f"donated({index}, {argument}"
        return f"run.{call}, {_bytes(tensor)}, ({sizes}))"

    def _release(self, index: int) -> None:
        """Frees allocated buffers whose last use is the operation with this index."""
        for buffer in self.ending[index]:
            if buffer.number in self.names:
                self.lines.append(f"run.release({self.names[buffer.number]})")

    def _return(self, index: int, value: ir.Value) -> None:
        """Returns a value as result `index`: a value outside of the buffer of the result is copied."""
        tensor = self.placed.get(value) or self._undefined(value)
        sizes = "".join(f"{s}, " for s in tensor.shape)
        if tensor.buffer.root.result == index:
            self.lines.append(f"run.shape({index}, ({sizes}))")
            return
        name = f"r{index}"
        self.lines.append(f"{name} = run.result({index}, {_bytes(tensor)}, ({sizes}))")
        self.lines.append(f"run.copy({name}, {self._pointer(tensor.buffer)}, {_bytes(tensor)})")

    def _undefined(self, value: ir.Value) -> PlacedTensor:
        """A result that no operation writes: a tensor without elements."""
        buffer = Buffer(-1 - len(self.names), "temporary", None, 0, 0)
        self.names[buffer.number] = "0"
        return PlacedTensor(buffer, self._shape(value), str(value.type.element_type))


class BodyPlan(Plan):
    """Plans a function that is a body: the plan writes its results to given memory.

    The parameters are the offset of the body's part of the workspace, addresses of the arguments and of the results.
    """

    def _first_parameters(self) -> list[str]:
        return ["run", "base"]

    def _last_parameters(self) -> list[str]:
        return [f"out{n}" for n in range(len(self.ops[-1].operands))]

    def _workspace_offset(self, offset: int) -> str:
        return f"base + {offset}"

    def _result_memory(self, index: int, tensor: PlacedTensor) -> str:
        return f"out{index}"

    def _return(self, index: int, value: ir.Value) -> None:
        """Copies a value that is not in the memory of the result."""
        tensor = self.placed.get(value) or self._undefined(value)
        if tensor.buffer.root.result != index:
            self.lines.append(f"run.copy(out{index}, {self._pointer(tensor.buffer)}, {_bytes(tensor)})")


def _static_bytes(buffers: Sequence[Buffer]) -> int:
    """The bytes of all temporaries of known sizes."""
    return sum(b.bytes for b in buffers if b.kind == "temporary" and b.bytes is not None and b.result is None)


def _try_share(result: Buffer, operand: Buffer, op: int) -> bool:
    """Lets a result share the buffer of an operand whose last use is the operation with index `op`, if possible."""
    root = operand.root
    if root.kind != "temporary" or operand.last != op or root.result is not None or root is result:
        return False
    if result.result is not None:
        root.result, result.result = result.result, None
    result.aliases = operand
    return True


def _static(kind: ir.Type) -> tuple[Size, ...]:
    return tuple(Size.of(s) for s in kind.shape)


def _bytes(tensor: PlacedTensor) -> str:
    width = max(element_bits(tensor.element) // 8, 1)
    return str(product(tensor.shape) * Size.of(width))
