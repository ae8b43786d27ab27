"""`oneflow-form-kernels`: outlines groups of linalg operations that become one loop nest.

Steps: fuse element-wise producers where no element would be computed twice, group what shares its loops, move
each group into a private function with destinations, emit equal functions once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import func, ir, passmanager, scf
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.access import find_any_node
from oneflow.lowering.kernels.donation import wait_for_readers
from oneflow.lowering.kernels.graph import Graph, grow
from oneflow.lowering.kernels.legality import callable_names, expect_linalg
from oneflow.lowering.kernels.nodes import Node, Structure, Use, analyse, find_node, is_contraction, loop_size
from oneflow.lowering.kernels.outline import Outliner
from oneflow.lowering.kernels.reshapes import RESHAPES, read_through
from oneflow.lowering.linalg.emit import BARRIER
from oneflow.lowering.linalg.legality import check_legal
from oneflow.lowering.targets.choice import gpu_target
from oneflow.passes.base import Pass
from oneflow.passes.inline import functions_of, inline_calls
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather_named, is_used_once

#: Operations that stay in the entry: they compute sizes, or look at memory in another way.
PLAN = frozenset(
    """tensor.empty tensor.dim tensor.cast tensor.collapse_shape tensor.expand_shape tensor.reshape func.call
    func.return linalg.fill tensor.extract""".split()
) | {BARRIER}
#: Operations whose kernel fills their destination itself.
FILLED = frozenset({"linalg.generic", "tensor.insert_slice", "scf.for"})
#: Columns that a program of a device sweeps side by side, and elements that one program sweeps as well as many.
COLUMNS, LITTLE = 64, 1 << 16
#: Operations in the body of a fused operation: fusion copies a body for every producer that it takes in.
LONGEST_BODY = 128
FUSION = "builtin.module(linalg-fuse-elementwise-ops,canonicalize,cse)"


@register_pass
@dataclass(frozen=True)
class FormKernels(Pass):
    """Outlines groups of linalg operations that become one loop nest each.

    With `siblings`, reductions of the same tensors are one nest too, though none reads another's result. What follows
    a product and costs more than `epilogue` (see `joins`) is a kernel of its own. With `gpu`, columns are
    swept side by side only where every SM of the target has some, and numbers that follow from sums of everything are
    in the kernel of these sums.

    %0 = linalg.generic ..        ->   func.func private @main_kernel_0(%x, %out) {oneflow.kernel = "pointwise"}
    return %0                          %e = tensor.empty() ; %0 = call @main_kernel_0(%x, %e)
    """

    name: ClassVar[str] = "oneflow-form-kernels"
    fuse: bool = True
    siblings: bool = False
    epilogue: int = 64
    gpu: bool = False

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Forms the kernels of every public function with a body; calls of such functions are replaced by bodies.

        Raises:
            PassError: a function has operators still, or calls itself.
        """
        check_legal(module)
        known = callable_names(module)
        for function in _entries(module):
            expect_linalg(function.operation, known)
        _inline(module)
        if self.fuse:
            fuse_elementwise(module)
        outliner = Outliner(module)
        for function in _entries(module):
            _form(function, outliner, self)


def _entries(module: ir.Module) -> list[func.FuncOp]:
    functions = [o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external]
    return [f for f in functions if "oneflow.kernel" not in f.attributes]


def _inline(module: ir.Module) -> None:
    """Replaces calls of entries: a plan calls kernels and the runtime alone."""
    functions = functions_of(module)
    entries = [f.name.value for f in _entries(module)]
    for name in entries:
        inline_calls(functions[name], functions, functions.keys() - set(entries))


def fuse_elementwise(module: ir.Module) -> None:
    """MLIR's element-wise fusion, kept from producers whose elements a consumer would compute again.

    It is kept from reshapes as well: it would move loops of one step between operations that share the others.
    """
    found = gather_named(module.operation, {"linalg.generic", *RESHAPES})
    lengths: dict[ir.Operation, int] = {}
    for op in (o for o in found if o.name not in RESHAPES):
        read_through(op)
        _protect(op)
        _shorten(op, lengths)
    for op in (o for o in found if o.name in RESHAPES):
        _wall(op, 0)
        for use in list(op.results[0].uses):
            _wall(use.owner.operation, use.operand_number)
    manager = passmanager.PassManager.parse(FUSION)
    # What a pass is given, and what it leaves, is verified by the pipeline.
    manager.enable_verifier(False)
    manager.run(module.operation)
    for op in gather_named(module.operation, {"scf.execute_region"}):
        block = op.regions[0].blocks[0]
        op.results[0].replace_all_uses_with(block.operations[len(block.operations) - 1].operands[0])
        op.erase()


def _protect(op: ir.Operation) -> None:
    node = find_node(op)
    if node is None:
        return
    every, windows = set(range(len(node.names))), len(node.folds) > 1 and is_contraction(node)
    for number, use in enumerate(node.inputs):
        covered = set().union(*[f.dims for f in use.access])
        if covered == every or isinstance(use.value, ir.BlockArgument):
            continue
        if _computes(use.value.owner) or (windows and _moves(use.value.owner)):
            _wall(op, number)


def _shorten(op: ir.Operation, lengths: dict[ir.Operation, int]) -> None:
    """Keeps an operation from producers with which its body would be too long; `lengths` are those of bodies fused.

    What is not fused shares loops all the same.
    """
    length = len(op.regions[0].blocks[0].operations)
    for number, value in enumerate(list(op.operands)[: -len(op.results)]):
        added = 0 if isinstance(value, ir.BlockArgument) else lengths.get(value.owner.operation, 0)
        if not added or not is_used_once(value):
            continue
        if length + added > LONGEST_BODY:
            _wall(op, number)
        else:
            length += added
    lengths[op] = length


def _wall(op: ir.Operation, number: int) -> None:
    """Hides an operand's producer from fusion; `fuse_elementwise` takes it down again."""
    value = op.operands[number]
    with ir.InsertionPoint(op), op.location:
        region = ir.Operation.create(
            "scf.execute_region", [value.type], [], {"no_inline": ir.UnitAttr.get()}, regions=1
        )
        with ir.InsertionPoint(region.regions[0].blocks.append()):
            scf.YieldOp([value])
        op.operands[number] = region.results[0]


def _computes(op: ir.Operation) -> bool:
    """Whether an operation is a `linalg.generic` that does more than move elements, or takes in one that does."""
    if op.name != "linalg.generic":
        return False
    if not _moves(op):
        return True
    source = op.operands[0]
    alone = not isinstance(source, ir.BlockArgument) and is_used_once(source)
    return alone and _computes(source.owner)


def _moves(op: ir.Operation) -> bool:
    """Whether an operation puts elements in another order; a convolution would do so for each of its windows."""
    return op.name == "linalg.generic" and len(op.regions[0].blocks[0].operations) == 1


def _form(entry: func.FuncOp, outliner: Outliner, chosen: FormKernels) -> None:
    block = entry.regions[0].blocks[0]
    graph = Graph([o.operation for o in block.operations], outliner.reader)
    sms = gpu_target().sms if chosen.gpu else 0
    nodes = _read_nodes(graph, find_any_node if sms else find_node)
    wait_for_readers(entry.operation, graph)
    # Numbers come last: joined with one another they would keep apart the rows that give some and need others.
    order = sorted(nodes, key=lambda n: (_gives_number(nodes[n]), n))
    grow(graph, order, lambda members: joins([nodes[m] for m in members], chosen.epilogue, sms))
    if chosen.siblings:
        _join_siblings(graph, nodes)
    _join_insertions(graph)
    last = graph.ops[-1]
    for members in graph.order():
        ops = [graph.ops[m] for m in members]
        if len(ops) == 1 and _stays(ops[0]):
            ops[0].move_before(last) if ops[0] != last else None
            continue
        kind = _kind([nodes[m] for m in members]) if all(m in nodes for m in members) else _loose_kind(ops[0])
        outliner.outline(entry, ops, kind, last)
    for op in reversed([o.operation for o in block.operations]):
        if op.name in ("linalg.fill", "tensor.empty") and not list(op.results[0].uses):
            op.erase()


def _gives_number(node: Node) -> bool:
    """Whether all results have one element."""
    return all(not f.dims - node.units for use in node.outputs for f in use.access)


def _join_siblings(graph: Graph, nodes: dict[int, Node]) -> None:
    """Single reductions over the same loops of the same tensors are one kernel."""
    alone = [n for n in sorted(nodes) if nodes[n].folds and len(graph.members(graph.group[n])) == 1]
    for place, one in enumerate(alone):
        for other in alone[place + 1 :]:
            members = sorted([*graph.members(graph.group[one]), *graph.members(graph.group[other])])
            shares = {u.value for u in nodes[one].inputs} & {u.value for u in nodes[other].inputs}
            if shares and graph.group[one] != graph.group[other] and _same_loops(graph, nodes, members):
                graph.merge(graph.group[one], graph.group[other])


def _same_loops(graph: Graph, nodes: dict[int, Node], members: list[int]) -> bool:
    """Whether reductions that need nothing of each other run over the same loops, of known sizes."""
    found = [nodes[m] for m in members]
    groups = {graph.group[m] for m in members}
    if any(is_contraction(n) for n in found) or not graph.may_merge(*groups) or analyse(found, True) is None:
        return False
    known = all(loop_size(found, name) is not None for n in found for name in n.names)
    return known and all(n.loops == found[0].loops and n.parallel == found[0].parallel for n in found)


def _join_insertions(graph: Graph) -> None:
    """Tensors set one after the other into the same tensor are one kernel."""
    numbers = {r: i for i, op in enumerate(graph.ops) for r in op.results}
    for number, op in enumerate(graph.ops):
        target = numbers.get(op.operands[1]) if op.name == "tensor.insert_slice" else None
        if target is None or graph.ops[target].name != op.name or len(list(op.operands[1].uses)) > 1:
            continue
        if graph.may_merge(graph.group[target], graph.group[number]):
            graph.merge(graph.group[target], graph.group[number])


def _read_nodes(graph: Graph, find: Callable[[ir.Operation], Node | None]) -> dict[int, Node]:
    found = ((number, find(op)) for number, op in enumerate(graph.ops))
    return {number: node for number, node in found if node is not None}


def _stays(op: ir.Operation) -> bool:
    """Whether an operation belongs to the entry: what computes sizes, views, and fills that kernels begin with."""
    if op.name == "linalg.fill":
        return all(u.owner.operation.name in FILLED for u in op.results[0].uses)
    if op.name == "tensor.dim":
        position = op.operands[1]
        return not isinstance(position, ir.BlockArgument) and position.owner.name == "arith.constant"
    if op.name == "tensor.from_elements":
        return all(u.owner.operation.name == "tensor.reshape" for u in op.results[0].uses)
    return op.name in PLAN or op.name.partition(".")[0] in ("arith", "math", "index")


def joins(nodes: list[Node], epilogue: int = 64, sms: int = 0) -> bool:
    """Whether nodes become one kernel; see `analyse` for what can, this for what should.

    `epilogue` bounds what may follow a product: each tensor of its size that is read counts 1, each result but one 2.
    `sms` are the SMs of a GPU, 0 for threads.
    """
    contractions = [n for n in nodes if is_contraction(n)]
    if any(not _begins_with(other, one) for one, other in itertools.pairwise(contractions)):
        return False
    structure = analyse(nodes)
    if structure is None:
        return False
    if contractions:
        others = [n for n in nodes if n not in contractions]
        loops = contractions[0].loops & set(structure.outer)
        if sms and _scatters(contractions[0], others):
            return False
        return _costs(nodes, others) <= epilogue and all(not n.folds and n.loops == loops for n in others)
    if not structure.inner:
        return True
    if not structure.outer:
        # A device gives sums of everything to one program; threads have parts of them.
        return sms > 0 and not structure.rowwise
    busy = _fills(structure, sms) if sms else _busy(structure)
    return _lies_along(structure) and busy


def _begins_with(product: Node, term: Node) -> bool:
    """Whether a product begins with another one, which is wanted nowhere else."""
    (result,) = term.results
    return product.outputs[0].value == result and is_used_once(result)


def _costs(nodes: list[Node], others: list[Node]) -> int:
    """What follows a product, the `others` among `nodes`: see `joins`."""
    made, ops = {r for n in nodes for r in n.results}, [n.op for n in nodes]
    read = {u.value for n in others for u in n.inputs if u.value not in made and len(u.access) == len(n.loops)}
    left = [r for r in made if any(u.owner.operation not in ops for u in r.uses)]
    return len(read) + 2 * max(len(left) - 1, 0)


def _scatters(product: Node, others: list[Node]) -> bool:
    """Whether what follows a product walks a tensor of its size whose neighbours are neither in a row of the result
    nor in a column, as filters have them that are written with channels first.
    """
    rows = {product.names[d] for f in product.inputs[0].access for d in f.dims}
    ends = [_trail(product, product.outputs[0], rows), _trail(product, product.outputs[0], product.loops - rows)]
    whole = ((n, u) for n in others for u in (*n.inputs, *n.outputs) if len(u.access) == len(n.names))
    return any(_trail(n, u, n.loops) not in ends for n, u in whole)


def _trail(node: Node, use: Use, loops: set[int]) -> int | None:
    """The one of some loops that is the last dimension of a tensor among them."""
    walked = [node.names[f.dim] for f in use.access if f.dim is not None]
    return next((n for n in reversed(walked) if n in loops), None)


def _lies_along(structure: Structure) -> bool:
    """Whether vectors can go along rows that are swept, or along columns."""
    return not structure.rowwise or _rows_trail(structure) or _columns_trail(structure)


def _rows_trail(structure: Structure) -> bool:
    """Whether what is swept lies in the last dimensions of the tensors that hold it."""
    inner = set().union(*(n.loops for n in structure.nodes)) & set(structure.inner)
    for node in structure.nodes:
        if node.folds or not node.loops & inner:
            continue
        names = [node.names[f.dim] if f.dim is not None else -1 for f in (*node.outputs, *node.inputs)[0].access]
        trailing = names[len(names) - len(inner) :]
        if set(trailing) != inner:
            return False
    return True


def _columns_trail(structure: Structure) -> bool:
    """Whether all tensors that the kernel reads or leaves have one outer loop as their last dimension."""
    ops = [n.op for n in structure.nodes]
    made = {r for n in structure.nodes for r in n.results}
    last = set()
    for node in structure.nodes:
        left = [u for r, u in zip(node.results, node.outputs, strict=True)
                if any(use.owner.operation not in ops for use in r.uses)]  # fmt: skip
        for use in (*(u for u in node.inputs if u.value not in made), *left):
            if {node.names[d] for form in use.access for d in form.dims} & set(structure.inner):
                last.add(use.access[-1].renamed(node.names).dim)
    return len(last) == 1 and last <= set(structure.outer)


def _steps(structure: Structure, loops: list[int]) -> int:
    """The steps of loops, of each of unknown size as many as is usual."""
    sizes = (loop_size(structure.nodes, name) for name in loops)
    return math.prod(1024 if size is None else size for size in sizes)


def _busy(structure: Structure) -> bool:
    """Whether the outer loops have enough steps for threads where a result is swept."""
    if not structure.rowwise:
        return True
    return _steps(structure, structure.outer) >= 16 or all(len(n.loops) <= 2 for n in structure.nodes)


def _fills(structure: Structure, sms: int) -> bool:
    """Whether columns that are swept side by side give each SM some, or are few elements in all."""
    if not structure.rowwise or _rows_trail(structure):
        return _busy(structure)
    steps, swept = _steps(structure, structure.outer), _steps(structure, structure.inner)
    return steps >= sms * COLUMNS or steps * swept <= LITTLE


def _kind(nodes: list[Node]) -> str:
    if any(is_contraction(n) for n in nodes):
        return "contraction"
    if any(n.folds for n in nodes):
        return "row"
    plain = all(len(n.body.operations) == 1 for n in nodes)
    return "movement" if plain else "pointwise"


def kind_of(op: ir.Operation) -> str:
    """What the kernel of a single operation is called."""
    node = find_node(op)
    return _loose_kind(op) if node is None else _kind([node])


def _loose_kind(op: ir.Operation) -> str:
    return "movement" if op.name.startswith("tensor.") else "loops"
