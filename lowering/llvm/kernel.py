"""A kernel function for the emitters: arguments as pointers and sizes, results by destination.

At the `kernels` stage a kernel takes tensors and scalars, then one destination for each result. The emitted kernel
takes a pointer for each tensor, the dynamic sizes, and the scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.llvm.writer import POINTER, Index, MemRef, Writer, memory_type, view
from oneflow.lowering.targets.cpu import CpuTarget
from oneflow.lowering.targets.selection import cpu_target
from oneflow.passes.walk import returned_values


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory: its pointer, sizes and element type."""

    pointer: str
    shape: tuple[Index, ...]
    element: str


@dataclass
class Kernel:
    """One kernel function.

    `tensors` are the tensor arguments and `scalars` the scalar arguments, by MLIR value. `parameters` is the emitted
    parameter list of `(name, type)`. `target` is the processor that the kernel is emitted for.
    """

    name: str
    func: ir.Operation
    tensors: dict[ir.Value, Tensor] = field(default_factory=dict)
    scalars: dict[ir.Value, str] = field(default_factory=dict)
    parameters: list[tuple[str, str]] = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    target: CpuTarget = field(default_factory=cpu_target)

    @property
    def block(self) -> ir.Block:
        """The block of the function."""
        return self.func.regions[0].blocks[0]

    def signature(self, extra: Sequence[str] = ()) -> str:
        """The parameter list as text, with the indices `extra` at its end."""
        return ", ".join([*(f"{n}: {t}" for n, t in self.parameters), *(f"{n}: index" for n in extra)])

    def types(self, extra: int = 0) -> str:
        """The parameter types as text, with `extra` indices at the end."""
        return ", ".join([*(t for _, t in self.parameters), *["index"] * extra])

    @property
    def names(self) -> list[str]:
        """The parameter names."""
        return [n for n, _ in self.parameters]


def read_kernel(func: ir.Operation) -> Kernel:
    """The kernel of a function at the `kernels` stage."""
    kernel = Kernel(ir.StringAttr(func.attributes["sym_name"]).value, func)
    arguments = list(kernel.block.arguments)
    for index, argument in enumerate(arguments):
        _add_argument(kernel, index, argument)
    returned = returned_values(kernel.block)
    kernel.results = [kernel.tensors[a] for a in arguments[len(arguments) - len(returned) :]]
    return kernel


def _add_argument(kernel: Kernel, index: int, argument: ir.Value) -> None:
    """Adds the parameters of one argument."""
    if not isinstance(argument.type, ir.RankedTensorType):
        kernel.scalars[argument] = f"%s{index}"
        kernel.parameters.append((f"%s{index}", str(argument.type)))
        return
    kernel.parameters.append((f"%p{index}", POINTER))
    shape: list[Index] = []
    for axis in range(argument.type.rank):
        if argument.type.is_dynamic_dim(axis):
            shape.append(f"%p{index}_{axis}")
            kernel.parameters.append((f"%p{index}_{axis}", "index"))
        else:
            shape.append(argument.type.get_dim_size(axis))
    kernel.tensors[argument] = Tensor(f"%p{index}", tuple(shape), str(argument.type.element_type))


_SETUP = frozenset({"arith.constant", "tensor.empty", "linalg.fill", "tensor.dim", "func.return"})


def compute_operations(kernel: Kernel) -> list[ir.Operation]:
    """The operations of a kernel that compute elements."""
    return [o.operation for o in kernel.block.operations if o.operation.name not in _SETUP]


def natural_view(writer: Writer, tensor: Tensor) -> MemRef:
    """A memref of a tensor with its own shape; bools are bytes."""
    return view(writer, tensor.pointer, tensor.shape, memory_type(tensor.element))
