"""The tensors of a plan: a view has the buffer of its source and its own sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffer_assignment import Buffer
from oneflow.lowering.linalg.emit import BARRIER
from oneflow.lowering.llvm.writer import Index, Writer
from oneflow.passes.base import PassError


@dataclass(frozen=True)
class TensorView:
    """A tensor in the entry: its buffer, sizes and element type."""

    buffer: Buffer
    shape: tuple[Index, ...]
    element: str


def view_shape(
    op: ir.Operation, source: Sequence[Index], writer: Writer, index: Callable[[ir.Value], Index]
) -> tuple[Index, ...]:
    """The sizes of the result of `tensor.cast`, a barrier, `collapse_shape`, `expand_shape` or `reshape`.

    Raises:
        PassError: another operation is left in the entry.
        ValueError: the shape operand of a reshape is not a `tensor.from_elements`.
    """
    target = op.results[0].type
    static = [None if target.is_dynamic_dim(i) else target.get_dim_size(i) for i in range(target.rank)]
    if op.name in ("tensor.cast", BARRIER):
        sizes: Sequence[Index] = source
    elif op.name == "tensor.collapse_shape":
        groups = [[ir.IntegerAttr(i).value for i in g] for g in op.attributes["reassociation"]]
        sizes = [writer.product([source[i] for i in group]) for group in groups]
    elif op.name == "tensor.expand_shape":
        rest = iter(list(op.operands)[1:])
        sizes = [index(next(rest)) if s is None else s for s in static]
    elif op.name == "tensor.reshape":
        sizes = _reshaped(op, static, index)
    else:
        raise PassError(f"expected kernels, views and sizes in the entry, got {op.name}", op.location)
    return tuple(f if s is None else s for s, f in zip(static, sizes, strict=True))


def _reshaped(op: ir.Operation, static: Sequence[int | None], index: Callable[[ir.Value], Index]) -> list[Index]:
    """The sizes of a `tensor.reshape`."""
    if all(s is not None for s in static):
        return [s for s in static if s is not None]
    elements = op.operands[1].owner
    if elements.name != "tensor.from_elements":
        raise ValueError(f"expected the sizes of tensor.reshape from tensor.from_elements, got {elements.name}")
    return [index(v) for v in elements.operands]
