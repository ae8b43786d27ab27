"""`oneflow-form-kernels`: operator fusion, groups of linalg operations that become one loop nest.

Steps: fuse element-wise producers where no element would be computed twice (no producer is duplicated), group
operations that share their loops, move each group into a private function with destinations, share one function among
equal groups. Producer-consumer fusion inlines a producer; multi-output fusion groups operations with different
results that share loops and operands.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import func, ir, passmanager
from oneflow.dialect.record import Registry
from oneflow.lowering.kernels.access import find_any_node
from oneflow.lowering.kernels.donated_arguments import order_after_users
from oneflow.lowering.kernels.epilogue_fusion import is_epilogue
from oneflow.lowering.kernels.fusion_barriers import add_fusion_barrier, remove_fusion_barriers
from oneflow.lowering.kernels.gathered_conversions import convert_gathered
from oneflow.lowering.kernels.graph import DependenceGraph, merge_with_producers
from oneflow.lowering.kernels.legality import callable_names, check_is_linalg
from oneflow.lowering.kernels.negated_sums import restore_sums
from oneflow.lowering.kernels.nodes import Node, Structure, analyse, find_node, is_contraction, loop_size
from oneflow.lowering.kernels.operand_fusion import fuse_conversions
from oneflow.lowering.kernels.outline import Outliner
from oneflow.lowering.kernels.reshapes import RESHAPES, fold_reshapes
from oneflow.lowering.linalg.emit import BARRIER
from oneflow.lowering.linalg.legality import check_legal
from oneflow.lowering.targets.gpu import GpuTarget
from oneflow.lowering.targets.selection import cpu_target, gpu_target
from oneflow.passes.base import Pass
from oneflow.passes.inline import functions_of, inline_calls
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather_named, is_used_once

#: Operations that stay in the entry: views, sizes, calls.
ENTRY_OPERATIONS = frozenset(
    """tensor.empty tensor.dim tensor.cast tensor.collapse_shape tensor.expand_shape tensor.reshape func.call
    func.return linalg.fill tensor.extract""".split()
) | {BARRIER}
#: Operations whose kernel writes the initial value of their destination.
INITIALIZED_BY_KERNEL = frozenset({"linalg.generic", "tensor.insert_slice", "scf.for"})
#: The most operations in a fused body: fusion copies the body for each producer that it inlines.
MAX_BODY_OPERATIONS = 128
FUSION = "builtin.module(linalg-fuse-elementwise-ops,canonicalize,cse)"


@register_pass
@dataclass(frozen=True)
class FormKernels(Pass):
    """Outlines groups of linalg operations that become one loop nest each.

    With `siblings`, independent reductions of the same tensors are one loop nest too. An epilogue that costs more
    than the target allows (see `epilogue_fusion`) is a kernel of its own. With `gpu`, the target is the GPU: column
    reductions are fused only where every SM has columns, and scalars that follow from full reductions are in the
    kernel of these reductions.

        %0 = linalg.generic ..        ->   func.func private @main_kernel_0(%x, %out) {oneflow.kernel = "pointwise"}
        return %0                          %e = tensor.empty() ; %0 = call @main_kernel_0(%x, %e)
    """

    name: ClassVar[str] = "oneflow-form-kernels"
    fuse: bool = True
    siblings: bool = False
    gpu: bool = False

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Forms the kernels of every public function with a body; calls of such functions are inlined.

        Raises:
            PassError: a function still has operators, or calls itself.
        """
        check_legal(module)
        callees = callable_names(module)
        for function in _entries(module):
            check_is_linalg(function.operation, callees)
        _inline(module)
        if self.fuse:
            fuse_elementwise(module, fuses_conversions=True)
        outliner = Outliner(module)
        for function in _entries(module):
            _form(function, outliner, self)


def _entries(module: ir.Module) -> list[func.FuncOp]:
    """The functions with a body that are no kernels."""
    functions = [o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external]
    return [f for f in functions if "oneflow.kernel" not in f.attributes]


def _inline(module: ir.Module) -> None:
    """Inlines calls of entries: a plan only calls kernels and the runtime."""
    functions = functions_of(module)
    entries = [f.name.value for f in _entries(module)]
    for name in entries:
        inline_calls(functions[name], functions, functions.keys() - set(entries))


def fuse_elementwise(module: ir.Module, fuses_conversions: bool = False) -> None:
    """MLIR's element-wise fusion, without fusion of producers whose elements consumers would compute more than once.

    With `fuses_conversions`, contractions and gathers convert integers as they load them. Reshapes are no candidates
    either: fusion would move unit loops between operations that share the other loops.
    """
    candidates = gather_named(module.operation, {"linalg.generic", *RESHAPES})
    lengths: dict[ir.Operation, int] = {}
    constants: set[ir.Operation] = set()
    generics = [op for op in candidates if op.name not in RESHAPES]
    for op in generics:
        fold_reshapes(op)
    if fuses_conversions:
        for op in generics:
            convert_gathered(op)
    converted = [fuse_conversions(op) if fuses_conversions else () for op in generics]
    for op, inputs in zip(generics, converted, strict=True):
        _prevent_recomputation(op, inputs)
        _keep_initial_values(op, constants)
        _add_window_barriers(op)
        _limit_body(op, lengths)
    for op in (o for o in candidates if o.name in RESHAPES):
        add_fusion_barrier(op, 0)
        for use in list(op.results[0].uses):
            add_fusion_barrier(use.owner.operation, use.operand_number)
    manager = passmanager.PassManager.parse(FUSION)
    # The pipeline verifies the module before and after the pass.
    manager.enable_verifier(False)
    manager.run(module.operation)
    remove_fusion_barriers(module)
    restore_sums(module)


def _prevent_recomputation(op: ir.Operation, converted: Collection[int]) -> None:
    """Adds fusion barriers before inputs whose elements are read more than once, except for `converted` inputs."""
    node = find_node(op)
    if node is None:
        return
    every, windows = set(range(len(node.loop_ids))), len(node.nonunit_reductions) > 1 and is_contraction(node)
    for index, use in enumerate(node.inputs):
        if index in converted or use.dims == every or isinstance(use.value, ir.BlockArgument):
            continue
        if _is_compute(use.value.owner) or (windows and _is_movement(use.value.owner)):
            add_fusion_barrier(op, index)


def _keep_initial_values(op: ir.Operation, constants: set[ir.Operation]) -> None:
    """Adds fusion barriers before the constant tensors that a reduction reads if the reduction may have no elements.

    A constant can fold the body, such as `x and false`. MLIR drops the initial value if the body does not read it,
    although the initial value is the result of a reduction without elements. `constants` has the operations before
    that read nothing but constants.
    """
    node = find_node(op)
    if node is None:
        return
    owners = [None if isinstance(use.value, ir.BlockArgument) else use.value.owner.operation for use in node.inputs]
    read = [o is not None and (o.name in ("linalg.fill", "arith.constant") or o in constants) for o in owners]
    if all(read):
        constants.add(op)
    if any(loop_size([node], node.loop_ids[d]) in (0, None) for d in node.reductions):
        for index in (i for i, is_constant in enumerate(read) if is_constant):
            add_fusion_barrier(op, index)


def _add_window_barriers(op: ir.Operation) -> None:
    """Adds fusion barriers before windows of which the operation reads the first element alone.

    Fusion would replace the position i + j in the source of the windows by j, and MLIR would take the size of loop j
    for the size of the source.
    """
    node = find_node(op)
    for index, use in enumerate(node.inputs if node is not None else ()):
        source = None if isinstance(use.value, ir.BlockArgument) else find_node(use.value.owner)
        if source is None:
            continue
        first = {f.dim for f, read in zip(source.outputs[0].access, use.access, strict=True) if read.is_zero}
        positions = (f for u in source.inputs for f in u.access if len(f.terms) > 1)
        if any(len(f.dims - first) == 1 for f in positions):
            add_fusion_barrier(op, index)


def _limit_body(op: ir.Operation, lengths: dict[ir.Operation, int]) -> None:
    """Adds fusion barriers where the fused body would be too long; `lengths` has the lengths of fused bodies.

    An operation that is not fused with its producer can still share loops with the producer.
    """
    length = len(op.regions[0].blocks[0].operations)
    for index, value in enumerate(list(op.operands)[: -len(op.results)]):
        added = 0 if isinstance(value, ir.BlockArgument) else lengths.get(value.owner.operation, 0)
        if not added or not is_used_once(value):
            continue
        if length + added > MAX_BODY_OPERATIONS:
            add_fusion_barrier(op, index)
        else:
            length += added
    lengths[op] = length


def _is_compute(op: ir.Operation) -> bool:
    """Whether an operation, or a producer that fuses with it, does more than move elements."""
    if op.name != "linalg.generic":
        return False
    if not _is_movement(op):
        return True
    source = op.operands[0]
    fuses = not isinstance(source, ir.BlockArgument) and is_used_once(source)
    return fuses and _is_compute(source.owner)


def _is_movement(op: ir.Operation) -> bool:
    """Whether an operation only permutes elements. A fused convolution would permute the elements for each window."""
    return op.name == "linalg.generic" and len(op.regions[0].blocks[0].operations) == 1


def _form(entry: func.FuncOp, outliner: Outliner, options: FormKernels) -> None:
    """Forms the kernels of one entry."""
    block = entry.regions[0].blocks[0]
    graph = DependenceGraph([o.operation for o in block.operations], outliner.hasher)
    gpu = gpu_target() if options.gpu else None
    nodes = _read_nodes(graph, find_any_node if gpu else find_node)
    order_after_users(entry.operation, graph)
    # Last the nodes of single elements: a group of them could be both a producer and a consumer of one row kernel.
    order = sorted(nodes, key=lambda n: (_has_single_element_results(nodes[n]), n))

    def fuses(members: Sequence[int]) -> bool:
        return not graph.has_reads_in_bodies(members) and should_fuse([nodes[m] for m in members], gpu)

    merge_with_producers(graph, order, fuses)
    if options.siblings:
        _merge_sibling_reductions(graph, nodes)
    _merge_insertions(graph)
    last = graph.ops[-1]
    for members in graph.order():
        ops = [graph.ops[m] for m in members]
        if len(ops) == 1 and _stays_in_entry(ops[0]):
            if ops[0] != last:
                ops[0].move_before(last)
            continue
        kind = _kind([nodes[m] for m in members]) if all(m in nodes for m in members) else _non_generic_kind(ops[0])
        outliner.outline(entry, ops, kind, last)
    for op in reversed([o.operation for o in block.operations]):
        if op.name in ("linalg.fill", "tensor.empty") and not list(op.results[0].uses):
            op.erase()


def _has_single_element_results(node: Node) -> bool:
    """Whether all results have one element."""
    return all(not f.dims - node.unit_loops for use in node.outputs for f in use.access)


def _merge_sibling_reductions(graph: DependenceGraph, nodes: dict[int, Node]) -> None:
    """Merges single reductions over the same loops of the same tensors."""
    single = [n for n in sorted(nodes) if nodes[n].nonunit_reductions and len(graph.members(graph.group[n])) == 1]
    for first, second in itertools.combinations(single, 2):
        groups = graph.group[first], graph.group[second]
        members = sorted(m for group in groups for m in graph.members(group))
        shared_inputs = {u.value for u in nodes[first].inputs} & {u.value for u in nodes[second].inputs}
        if shared_inputs and groups[0] != groups[1] and _are_sibling_reductions(graph, nodes, members):
            graph.merge(*groups)


def _are_sibling_reductions(graph: DependenceGraph, nodes: dict[int, Node], members: list[int]) -> bool:
    """Whether independent reductions run over the same loops of static size."""
    reductions = [nodes[m] for m in members]
    groups = {graph.group[m] for m in members}
    if (
        any(is_contraction(n) for n in reductions)
        or not graph.may_merge(*groups)
        or analyse(reductions, True) is None
    ):
        return False
    static = all(loop_size(reductions, loop) is not None for n in reductions for loop in n.loop_ids)
    return static and all(n.loops == reductions[0].loops and n.parallel == reductions[0].parallel for n in reductions)


def _merge_insertions(graph: DependenceGraph) -> None:
    """Merges chains of insertions into one tensor."""
    producers = {r: i for i, op in enumerate(graph.ops) for r in op.results}
    for index, op in enumerate(graph.ops):
        producer = producers.get(op.operands[1]) if op.name == "tensor.insert_slice" else None
        if producer is None or graph.ops[producer].name != op.name or len(list(op.operands[1].uses)) > 1:
            continue
        if graph.may_merge(graph.group[producer], graph.group[index]):
            graph.merge(graph.group[producer], graph.group[index])


def _read_nodes(graph: DependenceGraph, find: Callable[[ir.Operation], Node | None]) -> dict[int, Node]:
    """The operations of a graph that are nodes, by the index of the operation."""
    candidates = ((index, find(op)) for index, op in enumerate(graph.ops))
    return {index: node for index, node in candidates if node is not None}


def _stays_in_entry(op: ir.Operation) -> bool:
    """Whether an operation stays in the entry: sizes, views, and fills that kernels repeat."""
    if op.name == "linalg.fill":
        return all(u.owner.operation.name in INITIALIZED_BY_KERNEL for u in op.results[0].uses)
    if op.name == "tensor.dim":
        axis = op.operands[1]
        return not isinstance(axis, ir.BlockArgument) and axis.owner.name == "arith.constant"
    if op.name == "tensor.from_elements":
        return all(u.owner.operation.name == "tensor.reshape" for u in op.results[0].uses)
    return op.name in ENTRY_OPERATIONS or op.name.partition(".")[0] in ("arith", "math", "index")


def should_fuse(nodes: list[Node], gpu: GpuTarget | None = None) -> bool:
    """Whether nodes should become one kernel; `analyse` determines whether fusion is possible.

    `gpu` is the target, None for the CPU that programs are compiled for.
    """
    contractions = [n for n in nodes if is_contraction(n)]
    structure = analyse(nodes)
    if structure is None:
        return False
    if contractions:
        limit = gpu.model.max_epilogue_cost if gpu else cpu_target().kernels.contractions.max_epilogue_cost
        return is_epilogue(nodes, contractions, set(structure.outer), limit, gpu is not None)
    if not structure.inner:
        return True
    if not structure.outer:
        # On a GPU one program computes a full reduction; on a CPU `split_for_threads` has split it.
        return gpu is not None and not structure.rowwise
    return _is_vectorizable(structure) and (_fills_sms(structure, gpu) if gpu else _fills_threads(structure))


def _is_vectorizable(structure: Structure) -> bool:
    """Whether a kernel can be vectorized along rows or along columns."""
    return not structure.rowwise or _rows_are_innermost(structure) or _columns_are_innermost(structure)


def _rows_are_innermost(structure: Structure) -> bool:
    """Whether the inner loops are the last dimensions of tensors whose rows the kernel reads or writes."""
    inner = set().union(*(n.loops for n in structure.nodes)) & set(structure.inner)
    for node in structure.nodes:
        if node.nonunit_reductions or not node.loops & inner:
            continue
        loops = [node.loop_ids[f.dim] if f.dim is not None else -1 for f in (*node.outputs, *node.inputs)[0].access]
        trailing = loops[len(loops) - len(inner) :]
        if set(trailing) != inner:
            return False
    return True


def _columns_are_innermost(structure: Structure) -> bool:
    """Whether all inputs and results of the kernel have one outer loop as their last dimension."""
    ops = [n.op for n in structure.nodes]
    produced = {r for n in structure.nodes for r in n.results}
    last = set()
    for node in structure.nodes:
        leaving = [u for r, u in zip(node.results, node.outputs, strict=True)
                if any(use.owner.operation not in ops for use in r.uses)]  # fmt: skip
        for use in (*(u for u in node.inputs if u.value not in produced), *leaving):
            if {node.loop_ids[d] for form in use.access for d in form.dims} & set(structure.inner):
                last.add(use.access[-1].replace_dims(node.loop_ids).dim)
    return len(last) == 1 and last <= set(structure.outer)


def _steps(structure: Structure, loops: list[int], dynamic_steps: int) -> int:
    """The number of steps of loops; a loop of dynamic size counts as `dynamic_steps`."""
    sizes = (loop_size(structure.nodes, name) for name in loops)
    return math.prod(dynamic_steps if size is None else size for size in sizes)


def _fills_threads(structure: Structure) -> bool:
    """Whether the outer loops of a row kernel have enough steps for several threads, or the kernel is exempt."""
    limits = cpu_target().kernels.loops
    steps = _steps(structure, structure.outer, limits.dynamic_steps)
    return not structure.rowwise or steps >= limits.min_row_steps or _has_few_loops(structure)


def _has_few_loops(structure: Structure) -> bool:
    """Whether each node runs at most two loops: one along rows, one within a row."""
    return all(len(n.loops) <= 2 for n in structure.nodes)


def _fills_sms(structure: Structure, gpu: GpuTarget) -> bool:
    """Whether a kernel has programs for every SM, or is small.

    A column reduction needs columns for every SM. A kernel of rows has one program for each row. For few long rows,
    element-wise operations have more programs if they are not fused with operations on one element for each row.
    """
    if not structure.rowwise:
        return True
    sms, limits, dynamic = gpu.sms, gpu.kernels.reductions, gpu.kernels.blocks.dynamic_steps
    outer, inner = (_steps(structure, loops, dynamic) for loops in (structure.outer, structure.inner))
    if _rows_are_innermost(structure):
        reduces = any(n.nonunit_reductions for n in structure.nodes)
        is_enough = reduces or 2 * outer >= sms or inner <= limits.max_fused_row
        return is_enough and (outer >= limits.min_fused_rows or _has_few_loops(structure))
    return outer >= sms * limits.min_fused_columns_per_sm or outer * inner <= limits.max_small_elements


def _kind(nodes: list[Node]) -> str:
    """The kind of a kernel of nodes: `contraction`, `row`, `movement` or `pointwise`."""
    if any(is_contraction(n) for n in nodes):
        return "contraction"
    if any(n.nonunit_reductions for n in nodes):
        return "row"
    plain = all(len(n.body.operations) == 1 for n in nodes)
    return "movement" if plain else "pointwise"


def kind_of(op: ir.Operation) -> str:
    """The kind of the kernel of a single operation."""
    node = find_node(op)
    return _non_generic_kind(op) if node is None else _kind([node])


def _non_generic_kind(op: ir.Operation) -> str:
    """The kind of a kernel of an operation that is no node: `movement` or `loops`."""
    return "movement" if op.name.startswith("tensor.") else "loops"
