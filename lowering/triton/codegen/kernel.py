"""A kernel function for Triton: parameters by name, tensors with strides.

The parameters of a kernel are a pointer for each tensor, each dynamic size as i64, and its scalars.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.access import read_any_node
from oneflow.lowering.kernels.nodes import Node, Structure, Unsupported, analyse
from oneflow.lowering.triton.codegen.views import View
from oneflow.lowering.triton.source import Parameter, TensorDescriptor
from oneflow.lowering.triton.symbolic_sizes import Size, product

#: Floats of 8 bits, with Triton's pointer types for tensor cores. Other kernels compute with the codes of these
#: floats: Triton's conversions depend on the GPU.
FLOAT8 = {"f8E4M3FN": "*fp8e4nv", "f8E5M2": "*fp8e5"}
#: Triton's value types and pointer types, by MLIR element type.
TYPES = {
    "i1": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "index": "int64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    **dict.fromkeys(FLOAT8, "int8"),
}  # fmt: skip
POINTERS = {"i1": "*i8", "i8": "*i8", "i16": "*i16", "i32": "*i32", "i64": "*i64",
            "f16": "*fp16", "bf16": "*bf16", "f32": "*fp32", "f64": "*fp64",
            **dict.fromkeys(FLOAT8, "*i8")}  # fmt: skip
#: Floats of 16 bits, and of more.
HALVES, FULL_FLOATS = frozenset({"f16", "bf16"}), frozenset({"f32", "f64"})
#: Operations that are no node of a loop nest.
SETUP = frozenset({"arith.constant", "tensor.empty", "linalg.fill", "tensor.dim"})


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory: the name of its pointer (empty inside a kernel), its sizes and its element type.

    A tensor is contiguous. Only templates have tensors that are a `view` of the memory behind their pointer.
    """

    name: str
    shape: tuple[Size, ...]
    element: str
    view: View | None = None

    @staticmethod
    def viewed(tensor: Tensor, view: View) -> Tensor:
        """A view of a tensor, as a tensor."""
        return Tensor(tensor.name, tuple(map(Size.of, view.shape)), tensor.element, view)

    @property
    def pointer(self) -> str:
        """The text of the address of the first element."""
        return f"{self.name} + {self.view.first}" if self.view is not None and self.view.first else self.name

    @property
    def strides(self) -> list[Size]:
        """The stride of each dimension, in elements."""
        if self.view is not None:
            return [Size.of(n) for n in self.view.strides]
        return [product(self.shape[axis + 1 :]) for axis in range(len(self.shape))]

    def descriptor(
        self, name: str, block: tuple[int, ...], layout: str = "", module: str = ""
    ) -> TensorDescriptor | None:
        """The statement that creates a descriptor of the tensor, None where a size is dynamic."""
        shape, strides = ([s.static for s in sizes if s.static is not None] for sizes in (self.shape, self.strides))
        if len(shape) + len(strides) < 2 * len(self.shape):
            return None
        offset = self.view.first if self.view is not None else 0
        return TensorDescriptor(name, self.name, offset, tuple(shape), tuple(strides), block, layout, module)

    @property
    def count(self) -> Size:
        """The number of elements."""
        return product(self.shape)


@dataclass
class Kernel:
    """One kernel function.

    Attributes:
        name, func: the function.
        tensors, scalars: its arguments.
        parameters: the parameters of the Triton function.
        aliases: the canonical size for each name of a size that is known to be equal.
        checks: whether a body has run-time checks.
        destinations: the argument that each result is written to.
    """

    name: str
    func: ir.Operation
    tensors: dict[ir.Value, Tensor] = field(default_factory=dict)
    scalars: dict[ir.Value, str] = field(default_factory=dict)
    parameters: list[Parameter] = field(default_factory=list)
    aliases: dict[str, Size] = field(default_factory=dict)
    checks: bool = False

    def __post_init__(self) -> None:
        for index, argument in enumerate(self.block.arguments):
            self._add(index, argument)
        arguments = list(self.block.arguments)
        self.destinations = arguments[len(arguments) - len(self.returned) :]

    @staticmethod
    def read(func: ir.Operation) -> Kernel:
        """The kernel of a function at the `kernels` stage.

        Raises:
            Unsupported: an argument has an element type that Triton lacks.
        """
        return Kernel(ir.StringAttr(func.attributes["sym_name"]).value, func)

    def _add(self, index: int, argument: ir.Value) -> None:
        if not isinstance(argument.type, ir.RankedTensorType):
            self.scalars[argument] = f"s{index}"
            self.parameters.append(Parameter(f"s{index}", scalar_type(str(argument.type))))
            return
        # Unsigned integers are signless in memory; operations say how they are read.
        element, name = str(argument.type.element_type).removeprefix("u"), f"p{index}"
        if element not in POINTERS:
            raise Unsupported(f"element type {element}")
        self.parameters.append(Parameter(name, POINTERS[element]))
        shape = []
        for axis in range(argument.type.rank):
            static = not argument.type.is_dynamic_dim(axis)
            shape.append(Size.of(argument.type.get_dim_size(axis) if static else f"{name}_{axis}"))
            if not static:
                self.parameters.append(Parameter(f"{name}_{axis}", "i64"))
        self.tensors[argument] = Tensor(name, tuple(shape), element)

    @property
    def block(self) -> ir.Block:
        """The function's one block."""
        return self.func.regions[0].blocks[0]

    @property
    def ops(self) -> list[ir.Operation]:
        """The operations without the terminator."""
        return [o.operation for o in self.block.operations][:-1]

    @property
    def returned(self) -> list[ir.Value]:
        """The values that the function returns."""
        return list(self.block.operations[len(self.block.operations) - 1].operands)

    def structure(self) -> Structure:
        """The operations that are nodes, as one loop nest.

        Raises:
            Unsupported: the operations share no loops.
        """
        nodes = [read_any_node(op) for op in self.ops if op.name not in SETUP]
        structure = analyse(nodes) or analyse(nodes, siblings=True)
        if structure is None:
            raise Unsupported("operations that share no loops")
        return structure

    def shape(self, value: ir.Value) -> tuple[Size, ...]:
        """The sizes of a tensor; equal sizes have one name."""
        return tuple(s.renamed(self.aliases) for s in self._shape(value))

    def _shape(self, value: ir.Value) -> tuple[Size, ...]:
        if value in self.tensors:
            return self.tensors[value].shape
        if isinstance(value, ir.BlockArgument):
            raise Unsupported("a scalar argument where a tensor is expected")
        op = value.owner
        if op.name == "tensor.empty":
            sizes = iter(op.operands)
            dims = range(value.type.rank)
            return tuple(
                self.size(next(sizes)) if value.type.is_dynamic_dim(i) else Size.of(value.type.get_dim_size(i))
                for i in dims
            )
        if op.name.startswith("linalg."):
            first = len(op.operands) - len(op.results)
            return self._shape(op.operands[first + list(op.results).index(value)])
        if op.name == "tensor.insert_slice":
            return self._shape(op.operands[1])
        raise Unsupported(f"the shape of {op.name}'s result")

    def size(self, value: ir.Value) -> Size:
        """An index value as a size.

        Raises:
            Unsupported: the size is no constant, argument or dimension.
        """
        if value in self.scalars:
            return Size.of(self.scalars[value])
        if not isinstance(value, ir.BlockArgument) and value.owner.name == "arith.constant":
            return Size.of(ir.IntegerAttr(value.owner.attributes["value"]).value)
        if not isinstance(value, ir.BlockArgument) and value.owner.name == "tensor.dim":
            return self._shape(value.owner.operands[0])[self.size(value.owner.operands[1]).static or 0]
        raise Unsupported("a size that is computed in a kernel")

    def tensor(self, value: ir.Value) -> Tensor:
        """A tensor argument; equal sizes have one name.

        Raises:
            Unsupported: the tensor is computed in the kernel.
        """
        tensor = self.tensors.get(value)
        if tensor is None:
            raise Unsupported("a tensor that is computed in the kernel, in place of a tensor in memory")
        return Tensor(tensor.name, self.shape(value), tensor.element)

    def loop_sizes(self, nodes: Iterable[Node]) -> dict[int, Size]:
        """The size of each loop of nodes; the dimensions along one loop get one name.

        Raises:
            Unsupported: no tensor has a loop's size.
        """
        nodes = list(nodes)
        sizes: dict[int, Size] = {}
        for node in nodes:
            for use in (*node.inputs, *node.outputs):
                for form, size in zip(use.access, self.shape(use.value), strict=True):
                    if form.dim is not None:
                        self._equate(sizes, node.loop_ids[form.dim], size.renamed(self.aliases))
        missing = {n for node in nodes for n in node.loop_ids} - set(sizes)
        if missing:
            raise Unsupported("a loop whose size no tensor determines")
        return {n: s.renamed(self.aliases) for n, s in sizes.items()}

    def _equate(self, sizes: dict[int, Size], loop: int, size: Size) -> None:
        known = sizes.get(loop, size).renamed(self.aliases)
        if known != size and known.static is not None:
            known, size = size, known
        sizes[loop] = size if size.static is not None else known
        other = known if sizes[loop] == size else size
        names = other.terms[0][0] if len(other.terms) == 1 and other.terms[0][1] == 1 else ()
        if other != sizes[loop] and len(names) == 1:
            self.aliases = {k: v.renamed({names[0]: sizes[loop]}) for k, v in self.aliases.items()}
            self.aliases[names[0]] = sizes[loop]

    @property
    def is_half_precision(self) -> bool:
        """Whether all floats of the largest tensors have 16 bits, so that approximations of f32 suffice."""
        counts = [t.count.static for t in self.tensors.values()]
        most = max((c for c in counts if c is not None), default=0)
        large = {t.element for t, c in zip(self.tensors.values(), counts, strict=True) if c is None or c == most}
        return bool(large & HALVES) and not large & FULL_FLOATS

    @property
    def is_bfloat16(self) -> bool:
        """Whether all floats are bf16."""
        return {t.element for t in self.tensors.values()} & (HALVES | FULL_FLOATS) == {"bf16"}

    @property
    def needs_64_bits(self) -> bool:
        """Whether positions may exceed 32 bits, so that the kernel computes 64-bit offsets."""
        counts = [t.count.static for t in self.tensors.values()]
        return any(c is None or c >= 2**31 for c in counts)


def scalar_type(element: str) -> str:
    """The type of a scalar parameter in a Triton signature."""
    return {"index": "i64", "f32": "fp32", "f64": "fp64", "i1": "i1"}.get(element, element)


def bytes_of(element: str) -> int:
    """Bytes of an element in memory."""
    return max(element_bits(element) // 8, 1)


def triton_type(element: str, sign: str = "") -> str:
    """Triton's type of values of an MLIR element type; with the sign `u` the type of unsigned integers.

    Raises:
        Unsupported: Triton has none.
    """
    if element not in TYPES:
        raise Unsupported(f"element type {element}")
    return f"tl.{sign}{TYPES[element]}"
