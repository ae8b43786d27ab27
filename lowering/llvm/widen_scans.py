"""`oneflow-widen-scans`: running sums and products of f32 accumulate in f64.

The rounding errors of a sequential sum accumulate along the scan. f64 costs nothing: the latency of the dependent
additions is the same as in f32.

Input and output are linalg on tensors, before kernels are formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import arith, ir, linalg, tensor
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass
from oneflow.passes.inline import clone_with
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

COMBINING = ("arith.addf", "arith.mulf")


@register_pass
@dataclass(frozen=True)
class WidenScans(Pass):
    """Accumulates running sums and products of f32 in f64.

    %s = arith.addf %acc, %x : f32, yield %s, %s
      ->   %w = arith.extf %x, %s = arith.addf %acc, %w : f64, %n = arith.truncf %s, yield %n, %s
    """

    name: ClassVar[str] = "oneflow-widen-scans"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every such operation in the module."""
        for op in gather(module.operation, _is_scan):
            _widen(op)


def _is_scan(op: ir.Operation) -> bool:
    """Whether an operation is a scan in f32 that starts from a fill and whose total has no use."""
    if op.name != "linalg.generic" or len(op.results) != 2 or any(True for _ in op.results[1].uses):
        return False
    stream, total = _body(op)[-1].operands
    start = op.operands[len(op.operands) - 1]
    if stream != total or isinstance(total, ir.BlockArgument) or not isinstance(total.type, ir.F32Type):
        return False
    if isinstance(start, ir.BlockArgument) or start.owner.name != "linalg.fill":
        return False
    accumulator = list(op.regions[0].blocks[0].arguments)[-1]
    return total.owner.name in COMBINING and sum(v == accumulator for v in total.owner.operands) == 1


def _body(op: ir.Operation) -> list[ir.Operation]:
    return [o.operation for o in op.regions[0].blocks[0].operations]


def _widen(op: ir.Operation) -> None:
    """Replaces one operation."""
    *operands, start = op.operands
    attributes = {name: op.attributes[name] for name in op.attributes}
    with ir.InsertionPoint(op), op.location:
        operands.append(_widened_fill(start.owner))
        types = [op.results[0].type, operands[-1].type]
        wide = ir.Operation.create("linalg.generic", types, operands, attributes, regions=1)
        arguments = list(op.regions[0].blocks[0].arguments)
        kinds = [*(a.type for a in arguments[:-1]), ir.F64Type.get()]
        block = wide.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    with ir.InsertionPoint(block), op.location:
        _write_body(_body(op), dict(zip(arguments, block.arguments, strict=True)))
    op.results[0].replace_all_uses_with(wide.results[0])
    op.erase()


def _write_body(body: list[ir.Operation], values: dict[ir.Value, ir.Value]) -> None:
    """Writes a body whose accumulator is wide; `values` has the block arguments."""
    *ops, end = body
    combination = end.operands[0].owner
    for op in ops:
        if op != combination:
            clone_with(op, values)
            continue
        wide = [values[v] if values[v].type == ir.F64Type.get() else _extended(values[v]) for v in op.operands]
        total = ir.Operation.create(op.name, [ir.F64Type.get()], wide).results[0]
        values[op.results[0]] = arith.truncf(ir.F32Type.get(), total)
    linalg.yield_([values[end.operands[0]], total])


def _widened_fill(fill: ir.Operation) -> ir.Value:
    """The tensor of a `linalg.fill` with f64 as its element."""
    value, empty = fill.operands
    sizes = iter(empty.owner.operands)
    dims = range(empty.type.rank)
    shape = [next(sizes) if empty.type.is_dynamic_dim(i) else empty.type.get_dim_size(i) for i in dims]
    return linalg.fill(_extended(value), outs=[tensor.EmptyOp(shape, ir.F64Type.get()).result])


def _extended(value: ir.Value) -> ir.Value:
    return arith.extf(ir.F64Type.get(), value)
