"""`oneflow-choose-layouts`: layout assignment, the memory layouts of tensors between convolutions.

A convolution is fastest with its image in the layout of its result. On GPUs an earlier pass,
`oneflow-prefer-channels-last`, decides which convolutions have channels last, and these alone are considered. A
`linalg.generic` has an indexing map for each operand, so another layout of a tensor is another type and another
indexing map: no element is moved. The layout also propagates through insertions into larger tensors (padded images).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from oneflow.dialect._mlir import func, ir, linalg, tensor
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.access import find_any_node, read_any_node
from oneflow.lowering.kernels.form_kernels import fuse_elementwise
from oneflow.lowering.kernels.nodes import Node, Use, find_node, has_innermost_window, is_contraction
from oneflow.lowering.kernels.reduction_split import new_generic
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

#: The ranks of image tensors: batch, channels, and one to three spatial dimensions.
RANKS = (3, 4, 5)
#: A permutation: for each dimension in memory, the dimension of the tensor as written.
Order = tuple[int, ...]


@register_pass
@dataclass(frozen=True)
class ChooseLayouts(Pass):
    """Gives tensors of rank 3 to 5 the layout of neighbouring convolutions, and propagates that layout.

    With `gpu` only convolutions with channels last count.

    %y = linalg.generic {convolution} -> tensor<8x56x56x64xbf16>
    %z = linalg.generic {relu, (n, h, w, c) -> (n, c, h, w)} ins(%y) -> tensor<8x64x56x56xbf16>
    .. = linalg.generic {(n, c, h, w) -> (n, h, w, c)} ins(%z)
      ->   %z = linalg.generic {relu} ins(%y) -> tensor<8x56x56x64xbf16>
    """

    name: ClassVar[str] = "oneflow-choose-layouts"
    gpu: bool = False

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every function with a body."""
        functions = [f for f in module.body.operations if isinstance(f, func.FuncOp) and not f.is_external]
        if not any(True for f in functions for _ in _convolutions(f, self.gpu)):
            return
        fuse_elementwise(module, fuses_conversions=not self.gpu)
        for function in functions:
            layouts = Layouts.of(function, self.gpu)
            layouts.propagate()
            layouts.apply()


def _convolutions(function: func.FuncOp, gpu: bool) -> Iterator[Node]:
    """The contractions of convolutions whose layout is propagated: on a GPU those with channels last, else all."""
    for view in function.regions[0].blocks[0].operations:
        node = find_node(view.operation)
        if node is None or not is_contraction(node) or not _has_windows(node):
            continue
        if not gpu or not has_innermost_window(node):
            yield node


def _has_windows(node: Node) -> bool:
    """Whether an operand is read at sums of loops: at image positions plus window positions."""
    return any(len(f.dims) > 1 for use in node.inputs for f in use.access)


@dataclass
class Layouts:
    """The nodes of a function, the users of each tensor, and the layouts chosen so far.

    `insertions` are the insertions into new tensors, by source and by result.
    """

    nodes: dict[ir.Operation, Node]
    users: dict[ir.Value, list[Node]]
    insertions: dict[ir.Value, list[ir.Operation]]
    orders: dict[ir.Value, Order] = field(default_factory=dict)

    @classmethod
    def of(cls, function: func.FuncOp, gpu: bool) -> Layouts:
        """The layouts of a function after the convolutions have chosen."""
        ops = [o.operation for o in function.regions[0].blocks[0].operations]
        nodes = {op: node for op in ops if (node := find_any_node(op)) is not None}
        users: dict[ir.Value, list[Node]] = {}
        for node in nodes.values():
            for value in (*(u.value for u in node.inputs), *node.results):
                users.setdefault(value, []).append(node)
        insertions: dict[ir.Value, list[ir.Operation]] = {}
        for op in filter(_is_insertion, ops):
            for value in (op.operands[0], op.results[0]):
                insertions.setdefault(value, []).append(op)
        layouts = cls(nodes, users, insertions)
        for node in _convolutions(function, gpu):
            layouts.orders.update({v: _identity(v) for v in node.results if _is_image(v)})
            for use in (u for u in node.inputs if _is_image(u.value)):
                layouts._choose_operand(node, use)
        return layouts

    def _choose_operand(self, node: Node, use: Use) -> None:
        """Chooses the layout of a convolution's operand: the layout of the result if the operand may be reordered."""
        order = _order_like_result(node, use)
        if order != _identity(use.value) and not self._can_reorder(use.value):
            order = _identity(use.value)
        self.orders.setdefault(use.value, order)

    def propagate(self) -> None:
        """Propagates layouts between tensors that the same loops index."""
        worklist = list(self.orders)
        for value in worklist:
            for node in self.users.get(value, ()):
                if not is_contraction(node):
                    worklist += self._propagate_node(node, value)
            for op in self.insertions.get(value, ()):
                worklist += self._propagate_insertion(op, value)

    def _propagate_insertion(self, op: ir.Operation, value: ir.Value) -> list[ir.Value]:
        """Chooses the layout of the other tensor of an insertion; returns that tensor."""
        other = op.results[0] if value == op.operands[0] else op.operands[0]
        if other in self.orders or not _is_image(other) or not self._can_reorder(other):
            return []
        self.orders[other] = self.orders[value]
        return [other]

    def _propagate_node(self, node: Node, value: ir.Value) -> list[ir.Value]:
        """Chooses the layouts of the other tensors of a node; returns those tensors."""
        loop_orders = {
            v: _loop_order(node, v) for v in (*(u.value for u in node.inputs), *node.results) if _is_image(v)
        }
        order = [loop_orders[value][d] for d in self.orders[value]]
        chosen = []
        for other, loop_order in loop_orders.items():
            if other not in self.orders and sorted(loop_order) == sorted(order) and self._can_reorder(other):
                self.orders[other] = tuple(loop_order.index(loop) for loop in order)
                chosen.append(other)
        return chosen

    def _can_reorder(self, value: ir.Value) -> bool:
        """Whether a tensor is new and has no users but nodes and insertions."""
        if isinstance(value, ir.BlockArgument):
            return False
        if value.owner in self.nodes:
            node = self.nodes[value.owner]
            new = _is_fresh(node.outputs[node.results.index(value)].value)
        else:
            new = _is_insertion(value.owner)
        return new and all(self._is_reorderable_use(u.owner, u.operand_number) for u in value.uses)

    def _is_reorderable_use(self, op: ir.Operation, operand: int) -> bool:
        """Whether an operation reads the operand with index `operand`, in any layout."""
        if op in self.nodes:
            return operand < len(self.nodes[op].inputs)
        return _is_insertion(op) and operand == 0

    def apply(self) -> None:
        """Changes the types of tensors, and the order of the loops of nodes."""
        reordered = {v: o for v, o in self.orders.items() if o != _identity(v)}
        changed = dict.fromkeys(n for v in reordered for n in self.users[v])
        for node in changed:
            _rewrite(node, reordered)
        for value, order in reordered.items():
            value.set_type(_reordered(value, order))
        for op in dict.fromkeys(op for v in reordered for op in self.insertions.get(v, ())):
            _insert(op, *(reordered.get(v, _identity(v)) for v in (op.operands[0], op.results[0])))
        for node in changed:
            if not is_contraction(node):
                _interchange(read_any_node(node.op))
                _erase_identity(read_any_node(node.op))


def _is_fresh(value: ir.Value) -> bool:
    """Whether a tensor is an empty or filled destination."""
    return not isinstance(value, ir.BlockArgument) and value.owner.name in ("tensor.empty", "linalg.fill")


def _is_insertion(op: ir.Operation) -> bool:
    """Whether an operation inserts an image into a new image of the same rank at static positions."""
    return (
        op.name == "tensor.insert_slice"
        and len(op.operands) == len(("source", "destination"))
        and len({ir.RankedTensorType(v.type).rank for v in op.operands} & set(RANKS)) == 1
        and all(v.type.has_static_shape for v in op.operands)
        and _is_fresh(op.operands[1])
    )


def _is_image(value: ir.Value) -> bool:
    """Whether a tensor is static, has the rank of an image, and several of its dimensions exceed 1."""
    kind = value.type
    if not isinstance(kind, ir.RankedTensorType) or kind.rank not in RANKS or not kind.has_static_shape:
        return False
    return bool(sum(size > 1 for size in kind.shape) > 1)


def _identity(value: ir.Value) -> Order:
    """The layout of a tensor as written."""
    return tuple(range(ir.RankedTensorType(value.type).rank))


def _loop_order(node: Node, value: ir.Value) -> list[int]:
    """The first loop along each dimension of a tensor; for a dimension d without a loop, a loop of one step that no
    other dimension has, else -1 - d.
    """
    uses = dict(zip(node.results, node.outputs, strict=True))
    use = uses.get(value) or next(u for u in node.inputs if u.value == value)
    spare = iter(sorted(node.unit_loops - use.dims))
    return [min(f.dims) if f.dims else next(spare, -1 - d) for d, f in enumerate(use.access)]


def _order_like_result(node: Node, use: Use) -> Order:
    """The layout of a convolution's image in which the dimensions are in the order of the result's, channels at the
    position of the channels; the layout as written for filters.
    """
    result = [min(f.dims, default=-1) for f in node.outputs[0].access]
    along = [[result.index(loop) for loop in f.dims if loop in result] for f in use.access]
    free = [p for p in range(len(result)) if [p] not in along]
    summed = [d for d, positions in enumerate(along) if not positions]
    if len(along) != len(result) or len(free) != len(summed) or not any(len(f.dims) > 1 for f in use.access):
        return _identity(use.value)
    positions = [p[0] if p else free[summed.index(d)] for d, p in enumerate(along)]
    return tuple(sorted(range(len(along)), key=positions.__getitem__))


def _reordered(value: ir.Value, order: Order) -> ir.RankedTensorType:
    """The type of a tensor in another layout."""
    kind = value.type
    return ir.RankedTensorType.get([kind.shape[d] for d in order], kind.element_type, loc=value.location)


def _rewrite(node: Node, reordered: Mapping[ir.Value, Order]) -> None:
    """Changes the indexing maps and initial values of a node for operands and results in another layout."""
    count = len(node.inputs)
    maps = [a.value for a in node.op.attributes["indexing_maps"]]
    for index, value in enumerate([*(u.value for u in node.inputs), *node.results]):
        order = reordered.get(value)
        if order is None:
            continue
        maps[index] = ir.AffineMap.get(maps[index].n_dims, 0, [maps[index].results[d] for d in order])
        if index >= count:
            node.op.operands[index] = _reordered_init(node.op, index, _reordered(value, order))
    _set_maps(node.op, maps)


def _insert(op: ir.Operation, source: Order, result: Order) -> None:
    """Changes an insertion to the new layouts of its source and its result."""
    if source != result:
        op.operands[0] = _transposed_source(op, [source.index(d) for d in result])
    for name in ("static_offsets", "static_sizes", "static_strides"):
        values = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        op.attributes[name] = ir.DenseI64ArrayAttr.get([values[d] for d in result])
    op.operands[1] = _reordered_init(op, 1, op.results[0].type)


def _transposed_source(op: ir.Operation, order: Sequence[int]) -> ir.Value:
    """The source of an insertion in another layout."""
    source = op.operands[0]
    kind = _reordered(source, tuple(order))
    rank = len(order)
    loops = [ir.AffineExpr.get_dim(order.index(d)) for d in range(rank)]
    maps = [ir.AffineMap.get(rank, 0, loops), ir.AffineMap.get_identity(rank)]
    with ir.InsertionPoint(op), op.location:
        empty = tensor.EmptyOp(list(kind.shape), kind.element_type).result
        transposed = new_generic([source], [empty], maps, ["parallel"] * rank)
        block = transposed.regions[0].blocks.append(kind.element_type, kind.element_type)
        linalg.YieldOp([block.arguments[0]], ip=ir.InsertionPoint(block))
    return transposed.results[0]


def _reordered_init(op: ir.Operation, operand: int, kind: ir.RankedTensorType) -> ir.Value:
    """The initial value of a result, the operand with index `operand`, in another layout."""
    init = op.operands[operand].owner
    with ir.InsertionPoint(op), op.location:
        empty = tensor.EmptyOp(list(kind.shape), kind.element_type).result
        return empty if init.name == "tensor.empty" else linalg.fill(init.operands[0], outs=[empty])


def _set_maps(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> None:
    """Sets the indexing maps of an operation."""
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])


def _interchange(node: Node) -> None:
    """Puts the loops of a node in the order of the dimensions of its first image (results before operands)."""
    images = [v for v in (*node.results, *(u.value for u in node.inputs)) if _is_image(v)]
    loop_order = [loop for loop in _loop_order(node, images[0]) if loop >= 0]
    order = [*loop_order, *(d for d in range(len(node.loop_ids)) if d not in loop_order)]
    new_dims = [order.index(d) for d in range(len(order))]
    op, count = node.op, len(order)
    renamed = ir.AffineMap.get(count, 0, [ir.AffineDimExpr.get(p) for p in new_dims])
    maps = [a.value for a in op.attributes["indexing_maps"]]
    _set_maps(op, [ir.AffineMap.get(count, 0, [e.compose(renamed) for e in m.results]) for m in maps])
    iterators = list(op.attributes["iterator_types"])
    op.attributes["iterator_types"] = ir.ArrayAttr.get([iterators[d] for d in order])
    for view in node.body.operations:
        if view.operation.name == "linalg.index":
            old = ir.IntegerAttr(view.operation.attributes["dim"])
            view.operation.attributes["dim"] = ir.IntegerAttr.get(old.type, new_dims[old.value])


def _erase_identity(node: Node) -> None:
    """Erases a node that copies a tensor without any change."""
    if len(node.body.operations) > 1 or len(node.inputs) != 1 or len(node.results) != 1:
        return
    (yielded,), (value,), (result,) = node.body.operations[0].operands, node.inputs, node.outputs
    alike = value.access == result.access and value.value.type == node.results[0].type
    if alike and yielded == node.body.arguments[0]:
        node.results[0].replace_all_uses_with(value.value)
        node.op.erase()
