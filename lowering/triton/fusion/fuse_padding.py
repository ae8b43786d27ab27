"""`oneflow-fuse-padding`: an image that is computed and then padded is computed in the padded image.

    %y = linalg.generic {relu} ins(%x) ; %p = tensor.insert_slice %y into %zeros
      ->   %p = linalg.generic {relu inside, 0 around} ins()      which reads %x at computed positions

Other users of %y read %p inside its border, so that %y is neither stored nor loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from oneflow.dialect._mlir import arith, func, ir, linalg, tensor
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.nodes import Node, Use, find_node, has_unit_strides, is_contraction
from oneflow.lowering.kernels.positions import index_constant, index_of
from oneflow.lowering.kernels.reduction_split import new_generic
from oneflow.passes.base import Pass
from oneflow.passes.inline import clone_with
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather_direct

INSERTION = "tensor.insert_slice"


@register_pass
@dataclass(frozen=True)
class FusePadding(Pass):
    """Computes a tensor that is inserted into a larger tensor within the larger tensor, if all users can read that.

    %y = linalg.generic {exp} ins(%x : tensor<4xf32>)
    %p = tensor.insert_slice %y into %zeros[1] [4] [1] : tensor<4xf32> into tensor<6xf32>
      ->   %p = linalg.generic {i -> 1 <= i < 5 ? exp(%x[i - 1]) : 0} -> tensor<6xf32>
    """

    name: ClassVar[str] = "oneflow-fuse-padding"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every function with a body."""
        functions = [f for f in module.body.operations if isinstance(f, func.FuncOp) and not f.is_external]
        for op in [op for f in functions for op in gather_direct(f.operation, (INSERTION,))]:
            padding = _padding(op)
            if padding is not None:
                padding.replace()


@dataclass
class Padding:
    """A padded tensor.

    Attributes:
        op: the insertion into the larger tensor.
        node: computes the smaller tensor.
        offsets: the position of the smaller tensor in the larger one.
        padding_value: the constant around it.
        other_uses: the other uses of the smaller tensor: the operation, and the index of the operand.
        positions: the clamped position in the smaller tensor, as values, while the body is built.
    """

    op: ir.Operation
    node: Node
    offsets: Sequence[int]
    padding_value: ir.Value
    other_uses: Sequence[tuple[ir.Operation, int]]
    positions: list[ir.Value] = field(default_factory=list)

    def replace(self) -> None:
        """Replaces the computation of the smaller tensor by the computation of the larger tensor."""
        result_type = ir.RankedTensorType(self.op.results[0].type)
        direct = [u for u in self.node.inputs if not self._needs_position(u)]
        maps = [*(self._map(u) for u in direct), ir.AffineMap.get_identity(result_type.rank)]
        locations = ir.Location.fused([self.node.op.location, self.op.location])
        with ir.InsertionPoint(self.node.op), locations:
            padding_value = self.padding_value.owner.operation.clone().results[0]
            empty = tensor.EmptyOp(list(result_type.shape), result_type.element_type).result
            padded = new_generic([u.value for u in direct], [empty], maps, ["parallel"] * result_type.rank)
            elements = [ir.RankedTensorType(v.type).element_type for v in (*(u.value for u in direct), empty)]
            block = padded.regions[0].blocks.append(*elements)
            with ir.InsertionPoint(block):
                loaded = dict(zip((id(u) for u in direct), block.arguments, strict=False))
                linalg.YieldOp([self._element(loaded, padding_value)])
        for user, operand in self.other_uses:
            _read_inside(user, operand, padded.results[0], self.offsets)
        self.op.results[0].replace_all_uses_with(padded.results[0])
        self.op.erase()
        self.node.op.erase()

    @functools.cached_property
    def _axes(self) -> dict[int, int]:
        """The dimension of the result for each loop of the node."""
        return {f.dim: axis for axis, f in enumerate(self.node.outputs[0].access) if f.dim is not None}

    def _is_larger(self, axis: int) -> bool:
        return bool(self.op.operands[0].type.shape[axis] != self.op.results[0].type.shape[axis])

    def _needs_position(self, use: Use) -> bool:
        """Whether an operand is indexed along a padded dimension."""
        return any(self._is_larger(self._axes[d]) for f in use.access for d in f.dims)

    def _map(self, use: Use) -> ir.AffineMap:
        dims = {d: ir.AffineExpr.get_dim(axis) for d, axis in self._axes.items()}
        return ir.AffineMap.get(len(self.offsets), 0, [f.affine_expr(dims) for f in use.access])

    def _element(self, loaded: dict[int, ir.Value], padding_value: ir.Value) -> ir.Value:
        """Builds the body: an element of the smaller tensor, or the constant `padding_value`."""
        inside = self._clamped_position()
        values = dict[ir.Value, ir.Value]()
        for argument, use in zip(self.node.body.arguments, self.node.inputs, strict=False):
            values[argument] = loaded[id(use)] if id(use) in loaded else self._extract(use)
        *ops, last = self.node.body.operations
        for op in ops:
            clone_with(op.operation, values)
        (result,) = last.operands
        element = values.get(result, result)
        return element if inside is None else arith.SelectOp(inside, element, padding_value).result

    def _clamped_position(self) -> ir.Value | None:
        """Computes the position in the smaller tensor, clamped to the tensor; returns whether the position was
        inside.
        """
        inside, source = None, self.op.operands[0].type.shape
        for axis, (offset, size) in enumerate(zip(self.offsets, source, strict=True)):
            index = linalg.IndexOp(axis).result
            if not self._is_larger(axis):
                self.positions.append(index)
                continue
            shifted = arith.SubIOp(index, index_constant(offset)).result
            first, last = index_constant(0), index_constant(size - 1)
            self.positions.append(arith.MinSIOp(arith.MaxSIOp(shifted, first).result, last).result)
            is_same = arith.CmpIOp(arith.CmpIPredicate.eq, shifted, self.positions[-1]).result
            inside = is_same if inside is None else arith.AndIOp(inside, is_same).result
        return inside

    def _extract(self, use: Use) -> ir.Value:
        positions = {d: self.positions[axis] for d, axis in self._axes.items()}
        return tensor.ExtractOp(use.value, [index_of(f, positions) for f in use.access]).result


def _padding(op: ir.Operation) -> Padding | None:
    """An insertion whose source can be computed in the larger tensor; None for other insertions."""
    source, result = op.operands[0], op.results[0]
    padding_value = _padding_value(op)
    node = None if isinstance(source, ir.BlockArgument) else find_node(source.owner)
    chained = any(u.owner.operation.name == INSERTION and u.operand_number == 1 for u in result.uses)
    if padding_value is None or node is None or chained or not _is_elementwise(node):
        return None
    if source.type.rank != result.type.rank:
        return None
    other_uses = [(u.owner.operation, u.operand_number) for u in source.uses if u.owner.operation != op]
    offsets = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    if other_uses and not _is_distinguishable(offsets, source.type.shape, result.type.shape):
        return None
    if not all(_can_read_inside(user, operand, source) for user, operand in other_uses):
        return None
    return Padding(op, node, offsets, padding_value, other_uses)


def _is_distinguishable(offsets: Sequence[int], inner: Sequence[int], outer: Sequence[int]) -> bool:
    """Whether the offset is not zero along each padded dimension.

    Elsewhere a position would be a plain loop index, which means that the dimension has the size of the loop.
    """
    return all(offset > 0 or size == larger for offset, size, larger in zip(offsets, inner, outer, strict=True))


def _padding_value(op: ir.Operation) -> ir.Value | None:
    """The constant that fills the target of an insertion with static sizes and unit strides; None for others."""
    target = op.operands[1]
    is_static = len(op.operands) == len(("source", "target")) and all(v.type.has_static_shape for v in op.operands)
    is_contiguous = set(ir.DenseI64ArrayAttr(op.attributes["static_strides"])) == {1}
    is_filled = not isinstance(target, ir.BlockArgument) and target.owner.name == "linalg.fill"
    if not is_static or not is_contiguous or not is_filled:
        return None
    scalar = target.owner.operands[0]
    is_constant = not isinstance(scalar, ir.BlockArgument) and scalar.owner.name == "arith.constant"
    return scalar if is_constant else None


def _is_elementwise(node: Node) -> bool:
    """Whether each element is computed from elements at its position alone, in the same order of dimensions."""
    loops = [f.dim for f in node.outputs[0].access]
    transposes = any(loops[-1] in {f.dim for f in u.access[:-1]} for u in node.inputs if loops)
    is_arithmetic = all(
        o.operation.name.startswith(("arith.", "math.", "linalg.yield")) for o in node.body.operations
    )
    inits = list(node.body.arguments)[len(node.inputs) :]
    return (
        not node.reductions
        and not transposes
        and len(node.results) == 1
        and set(loops) == set(range(len(node.loop_ids)))
        and len(loops) == len(node.loop_ids)
        and is_arithmetic
        and not any(True for init in inits for _ in init.uses)
        and has_unit_strides(node)
        and bool(node.inputs)
    )


def _can_read_inside(user: ir.Operation, operand: int, value: ir.Value) -> bool:
    """Whether an operation can read a tensor inside a larger tensor: other operands define the sizes of its loops.

    Products that load blocks are faster with the tensor itself, also where their epilogue reads the tensor.
    """
    node = find_node(user)
    if node is None or operand >= len(node.inputs):
        return False
    others = [u for i, u in enumerate((*node.inputs, *node.outputs)) if i != operand]
    producers = [find_node(u.value.owner) for u in others if not isinstance(u.value, ir.BlockArgument)]
    if any(n is not None and is_contraction(n) and has_unit_strides(n) for n in (node, *producers)):
        return False
    known = {f.dim for u in others if u.value != value for f in u.access}
    return known >= set(range(len(node.loop_ids)))


def _read_inside(user: ir.Operation, operand: int, value: ir.Value, offsets: Sequence[int]) -> None:
    """Replaces the operand with index `operand` of an operation by the tensor `value`, read from `offsets` on."""
    maps = [a.value for a in user.attributes["indexing_maps"]]
    shifted = [e + offset for e, offset in zip(maps[operand].results, offsets, strict=True)]
    maps[operand] = ir.AffineMap.get(maps[operand].n_dims, 0, shifted)
    user.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
    user.operands[operand] = value
