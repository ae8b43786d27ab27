"""The loop nest of a kernel around one contraction: loops by their role, operands, multiply-add, epilogue.

The columns are the last outer loop, which only the right operand has. The rows are outer loops that only the left
operand has. The depth is the inner loops, which are reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.factors import factors_of
from oneflow.lowering.kernels.nodes import Node, Structure, Unsupported, is_contraction, main_input
from oneflow.lowering.llvm.body_cloner import captured_scalar, clone_operation
from oneflow.lowering.llvm.flat_columns import ColumnRows, column_rows
from oneflow.lowering.llvm.iteration_space import IterationSpace, Loop, Subscript
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized
from oneflow.lowering.llvm.nest_emitters import NestEmitters
from oneflow.lowering.llvm.writer import Index, Writer


@dataclass
class ContractionNest:
    """The nest around the contraction `node`.

    Attributes:
        kernel, structure, vectorized, space_of: as for `LoopNest`.
        left, right: the indices of the main inputs of the factors.
        element: the type of the products.
    """

    kernel: Kernel
    structure: Structure
    vectorized: Vectorized
    space_of: Callable[[Kernel, Structure, Writer], IterationSpace] = IterationSpace
    nest: LoopNest = field(init=False)
    emitters: NestEmitters = field(init=False)

    def __post_init__(self) -> None:
        self.nest = LoopNest(self.kernel, self.structure, self.vectorized, self.space_of)
        self.emitters = NestEmitters(self.nest)
        self.node: Node = next(n for n in self.structure.nodes if is_contraction(n))
        outer, inner = self.nest.space.outer, self.nest.space.inner
        if not outer or not inner:
            raise Unsupported("a contraction of one step, or into one element")
        self.columns, self.depth = outer[-1], inner
        self.nest.vector = inner[-1] if self.vectorized is Vectorized.INNER else self.columns
        self.left, self.right, self._factors, self.element = self._read_operands()

    def _read_operands(self) -> tuple[int, int, dict[int, ir.Value], str]:
        """The main inputs of the left and of the right factor, the factors by input, and the type of the product.

        Raises:
            Unsupported: the body has another form, or both factors have the columns.
        """
        ops = [o.operation for o in self.node.body.operations]
        product = next(o for o in reversed(ops) if o.name in ("arith.mulf", "arith.muli"))
        total = next(o for o in reversed(ops) if o.name in ("arith.addf", "arith.addi"))
        if product.results[0] not in list(total.operands):
            raise Unsupported("a product with a conversion before the addition")
        factors = factors_of(self.node.body, len(self.node.inputs)) or ()
        by_input = {main_input(self.node, f): f.value for f in factors}
        right = [index for index in by_input if self.columns.id in self._loops_of(index)]
        if len(by_input) != 2 or len(right) != 1:
            raise Unsupported("a contraction with columns in both factors or in none")
        (left,) = by_input.keys() - right
        return left, right[0], by_input, str(product.results[0].type)

    def subscripts(self, index: int) -> list[Subscript]:
        """The subscripts of the input with this index."""
        return self.nest.space.subscripts(self.node, self.node.inputs[index])

    def _loops_of(self, index: int) -> set[int]:
        """The loops of an input."""
        return set().union(*(s.form.dims for s in self.subscripts(index)))

    def row_loops(self) -> list[Loop]:
        """The outer loops of the left operand that the right operand does not have."""
        rows = self._loops_of(self.left) - self._loops_of(self.right)
        return [loop for loop in self.nest.space.outer if loop.id in rows]

    def column_loops(self) -> list[Loop]:
        """The outer loops of the right operand that the left operand does not have."""
        columns = self._loops_of(self.right) - self._loops_of(self.left)
        return [loop for loop in self.nest.space.outer if loop.id in columns]

    @property
    def column_rows(self) -> ColumnRows | None:
        """The rows of flat columns in the right operand; None where the columns are one loop there."""
        return column_rows(self.nest.space, self.columns)

    def batch_loops(self, rows: Sequence[Loop], space: IterationSpace | None = None) -> list[Loop]:
        """The outer loops that are neither rows nor columns, in the space of the nest or in an equal one."""
        others = {*(loop.id for loop in rows), self.columns.id}
        return [loop for loop in (space or self.nest.space).outer if loop.id not in others]

    def is_contiguous_along_depth(self, index: int) -> bool:
        """Whether an input is contiguous along the last loop of the depth."""
        last, subscripts = self.depth[-1].id, self.subscripts(index)
        is_last = bool(subscripts) and subscripts[-1].form.dim == last
        return is_last and all(last not in s.form.dims for s in subscripts[:-1])

    def has_vector_columns(self) -> bool:
        """Whether the right operand's columns are contiguous or have stride 2, so that vectors can be loaded."""
        rows = self.column_rows
        subscripts, columns = self.subscripts(self.right), (rows.last if rows else self.columns).id
        axes = [i for i, s in enumerate(subscripts) if columns in s.form.dims]
        return axes == [len(subscripts) - 1] and dict(subscripts[-1].form.terms)[columns] in (1, 2)

    def load(self, index: int, lanes: Lanes) -> LaneValue:
        """An element, or a vector of elements, of the factor of a main input at the current point."""
        return self.compute(self._factors[index], lanes)

    def compute(self, value: ir.Value, lanes: Lanes) -> LaneValue:
        """A value of a factor at the current point."""
        body = self.node.body
        if value in list(body.arguments):
            return self.load_input(list(body.arguments).index(value), lanes)
        if isinstance(value, ir.BlockArgument) or value.owner.operation.block != body:
            return captured_scalar(lanes, value)
        return clone_operation(value.owner, [self.compute(v, lanes) for v in value.owner.operands], lanes)

    def load_input(self, index: int, lanes: Lanes) -> LaneValue:
        """An element, or a vector of elements, of an input at the current point."""
        use = self.node.inputs[index]
        tensor = self.kernel.tensors.get(use.value)
        if tensor is None:
            raise Unsupported("a contraction of a value of the kernel")
        return self.emitters.memory.load(self.node, use, tensor, lanes)

    def exceeds_cache(self, index: int) -> bool:
        """Whether an input of static size does not fit in the L2 cache."""
        use = self.node.inputs[index]
        return self.emitters.memory.exceeds_cache(self.subscripts(index), str(use.value.type.element_type))

    def prefetch(self, index: int, lanes: Lanes) -> None:
        """Prefetches the vector of an input at the current point."""
        use = self.node.inputs[index]
        memory, subscripts = self.emitters.memory.locate(self.node, use, self.kernel.tensors[use.value])
        indices, _ = self.emitters.memory.indices(subscripts, lanes)
        self.emitters.memory.prefetch(memory, indices)

    def multiply_add(self, a: str, b: str, total: LaneValue) -> LaneValue:
        """`a * b + total` of vectors, as an FMA where the target has one."""
        writer, kind, is_float = self.nest.writer, self.vector_type, self.element[0] in "fb"
        if is_float and self.kernel.target.has_fma:
            return LaneValue(writer.op(f"math.fma {a}, {b}, {total.name} : {kind}"), total.element, True)
        letter = "f" if is_float else "i"
        product = writer.op(f"arith.mul{letter} {a}, {b} : {kind}")
        return LaneValue(writer.op(f"arith.add{letter} {product}, {total.name} : {kind}"), total.element, True)

    @property
    def vector_type(self) -> str:
        """The type of a vector of accumulators."""
        return f"vector<{self.nest.width}x{self.element}>"

    def initial(self, lanes: Lanes) -> LaneValue:
        """The initial value of an accumulator at the current point."""
        return self.emitters.accumulators.initial(self.node, 0, lanes)

    def identity(self) -> LaneValue:
        """The zero of an accumulator."""
        return self.emitters.accumulators.identity(self.node, 0)

    @property
    def epilogue_nodes(self) -> list[Node]:
        """The nodes of the epilogue."""
        return [node for node in self.structure.nodes if node is not self.node]

    def epilogue(self, total: LaneValue, lanes: Lanes) -> None:
        """Writes the epilogue of a finished accumulator and stores the results."""
        self.emitters.storage.registers = {}
        for node in self.structure.nodes:
            if node is self.node:
                self.emitters.storage.write(node, 0, total, lanes)
            else:
                self.emitters.nodes.emit(node, lanes)

    def depth_index(self) -> Index:
        """The index of the current step of the depth."""
        writer = self.nest.writer
        flat: Index = 0
        for loop in self.depth:
            flat = writer.add(writer.mul(flat, loop.size), self.nest.indices[loop.id])
        return flat

    def depth_loops(self, loops: Sequence[Loop], step: Callable[[], None]) -> None:
        """Writes nested loops of the depth around `step`."""
        if not loops:
            step()
            return

        def body(iv: str) -> None:
            self.nest.indices[loops[0].id] = iv
            self.depth_loops(loops[1:], step)

        self.nest.plain_loop(0, loops[0].size, 1, body)
