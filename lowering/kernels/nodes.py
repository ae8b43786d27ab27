"""Nodes: `linalg.generic` operations with their loops and accesses, and the loop structure that several nodes share.

The accesses of a `Node` are affine forms of its loop dimensions. `analyse` unifies the loops of nodes that read each
other's results and tells `outer` loops (parallel in every node) from `inner` loops (reduced, or along a row).
`form_kernels` decides with it which nodes become one kernel; the backends emit kernels from it.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.factors import Factor, factors_of, is_narrower


class Unsupported(Exception):
    """A form that an emitter does not cover; another emitter or MLIR's own lowering takes the kernel."""


@dataclass(frozen=True)
class AffineForm:
    """A position as a pure affine expression: coefficients of loop dimensions, and a constant."""

    terms: tuple[tuple[int, int], ...]
    constant: int = 0

    @functools.cached_property
    def dim(self) -> int | None:
        """The single loop dimension that the position is, None for any other form."""
        (first, *rest) = self.terms or ((None, 0),)
        return first[0] if not rest and first[1] == 1 and self.constant == 0 else None

    @functools.cached_property
    def dims(self) -> frozenset[int]:
        """The loop dimensions that the position depends on."""
        return frozenset(d for d, _ in self.terms)

    @property
    def is_zero(self) -> bool:
        """Whether the position is the constant 0."""
        return not self.terms and self.constant == 0

    def replace_dims(self, dims: Sequence[int]) -> AffineForm:
        """The position over other dimensions: `d` becomes `dims[d]`."""
        return AffineForm(tuple(sorted((dims[d], c) for d, c in self.terms)), self.constant)

    def affine_expr(self, dims: Mapping[int, ir.AffineExpr]) -> ir.AffineExpr:
        """The position as an MLIR affine expression: `d` becomes `dims[d]`."""
        return sum((dims[d] * c for d, c in self.terms), ir.AffineExpr.get_constant(self.constant))


Access = tuple[AffineForm, ...]


def _affine(expr: ir.AffineExpr) -> tuple[dict[int, int], int]:
    """An affine expression as coefficients by dimension, and a constant."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}, 0
    if isinstance(expr, ir.AffineConstantExpr):
        return {}, expr.value
    if not isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr)):
        raise Unsupported(f"position {expr}")
    (a, x), (b, y) = _affine(expr.lhs), _affine(expr.rhs)
    if isinstance(expr, ir.AffineAddExpr):
        return {d: a.get(d, 0) + b.get(d, 0) for d in {*a, *b}}, x + y
    if a and b:
        raise Unsupported(f"position {expr}")
    scale = x if b else y
    return {d: c * scale for d, c in (a or b).items()}, x * y


def read_access(affine_map: ir.AffineMap) -> Access:
    """The positions of an indexing map.

    Raises:
        Unsupported: a position is not pure affine.
    """
    forms = (_affine(e) for e in affine_map.results)
    return tuple(AffineForm(tuple(sorted((d, c) for d, c in terms.items() if c)), k) for terms, k in forms)


@dataclass(frozen=True)
class Use:
    """A tensor and the positions at which an operation reads or writes it."""

    value: ir.Value
    access: Access

    @property
    def dims(self) -> set[int]:
        """The loop dimensions that the positions depend on."""
        return set().union(*(form.dims for form in self.access))


@dataclass(eq=False)
class Node:
    """One `linalg.generic`: its loops and accesses.

    `loop_ids[d]` is the loop of the structure that runs loop dimension `d`. `unit_loops` are the loop dimensions of
    size 1; nodes can share loops whether or not they have unit loops.
    """

    op: ir.Operation
    reductions: frozenset[int]
    inputs: list[Use]
    outputs: list[Use]
    unit_loops: frozenset[int] = frozenset()
    loop_ids: list[int] = field(default_factory=list)

    @property
    def body(self) -> ir.Block:
        """The block that computes one element."""
        return self.op.regions[0].blocks[0]

    @property
    def results(self) -> list[ir.Value]:
        """The result tensors."""
        return list(self.op.results)

    @property
    def loops(self) -> set[int]:
        """The structure's loops that this node runs, without unit loops."""
        return {n for d, n in enumerate(self.loop_ids) if d not in self.unit_loops}

    def dims(self, index: int) -> set[int]:
        """The loop dimensions of the input with this index."""
        return self.inputs[index].dims

    @property
    def nonunit_reductions(self) -> frozenset[int]:
        """The reduced loop dimensions of more than one step."""
        return self.reductions - self.unit_loops

    @property
    def parallel(self) -> set[int]:
        """The structure's loops that are parallel in this node."""
        return {n for d, n in enumerate(self.loop_ids) if d not in self.reductions}

    def is_scan_result(self, index: int) -> bool:
        """Whether result `index` has an element for every step of a reduction."""
        return any(f.dims & self.nonunit_reductions for f in self.outputs[index].access)

    def loop_access(self, use: Use) -> Access:
        """The positions of an access over the structure's loops."""
        return tuple(form.replace_dims(self.loop_ids) for form in use.access)


_Read = tuple[tuple[Access, ...], frozenset[int], int, frozenset[int]]
#: The data of attributes and types, by their hashes: a context uniques attributes and types.
_READ_CACHE: weakref.WeakKeyDictionary[ir.Context, dict[tuple[int, ...], _Read]] = weakref.WeakKeyDictionary()


def read_node(op: ir.Operation) -> Node:
    """A `linalg.generic` as a node.

    Raises:
        Unsupported: another operation, an access that is not pure affine, or a scalar operand.
    """
    if op.name != "linalg.generic":
        raise Unsupported(op.name)
    operands = list(op.operands)
    accesses, reductions, loops, units = _read(op, [v.type for v in operands])
    uses = [Use(v, access) for v, access in zip(operands, accesses, strict=True)]
    count = len(uses) - len(op.results)
    return Node(op, reductions, uses[:count], uses[count:], units, list(range(loops)))


def _read(op: ir.Operation, types: Sequence[ir.Type]) -> _Read:
    """The accesses, the reduced dimensions, the number of loops, and the unit loops of a `linalg.generic`.

    Raises:
        Unsupported: as `read_node`.
    """
    maps, kinds = op.attributes["indexing_maps"], op.attributes["iterator_types"]
    cache = _READ_CACHE.setdefault(op.context, {})
    key = hash(maps), hash(kinds), *map(hash, types)
    if key not in cache:
        if not all(isinstance(t, ir.RankedTensorType) for t in types):
            raise Unsupported(op.name)
        iterators = [str(a) for a in kinds]
        reductions = frozenset(d for d, kind in enumerate(iterators) if "reduction" in kind)
        accesses = tuple(read_access(a.value) for a in maps)
        cache[key] = accesses, reductions, len(iterators), _unit_loops(types, accesses)
    return cache[key]


def find_node(op: ir.Operation | None) -> Node | None:
    """`read_node`, with None for operations that are no nodes."""
    try:
        return None if op is None else read_node(op)
    except Unsupported:
        return None


def _unit_loops(types: Sequence[ir.Type], accesses: Sequence[Access]) -> frozenset[int]:
    """The loop dimensions that are a dimension of size 1 of an operand."""
    pairs = zip(types, accesses, strict=True)
    dimensions = ((kind, axis, form.dim) for kind, access in pairs for axis, form in enumerate(access))
    return frozenset(dim for kind, axis, dim in dimensions if dim is not None and _size(kind, axis) == 1)


@dataclass
class Structure:
    """The shared loops of nodes: `outer` loops in order, then `inner` loops in order."""

    nodes: list[Node]
    outer: list[int]
    inner: list[int]

    @property
    def rowwise(self) -> bool:
        """Whether a node runs in the inner loops without reducing over them."""
        return any(not n.nonunit_reductions and n.loops & set(self.inner) for n in self.nodes)

    @property
    def needs_second_pass(self) -> bool:
        """Whether a node runs in the inner loops and depends on a reduction over these loops."""
        reduced = set[ir.Value]()
        for node in self.nodes:
            depends = any(use.value in reduced for use in node.inputs)
            if depends and node.loops & set(self.inner):
                return True
            reduced.update(node.results if node.nonunit_reductions or depends else ())
        return False


def analyse(nodes: Sequence[Node], siblings: bool = False) -> Structure | None:
    """The structure of nodes in program order; None where the nodes cannot run in one loop nest.

    Sets the `loop_ids` of the nodes. With `siblings`, nodes with equal accesses of a tensor share its loops too.
    """
    if not _unify(nodes, siblings):
        return None
    _align_reductions(nodes)
    loops = [n.loops for n in nodes]
    widest = nodes[max(range(len(nodes)), key=lambda i: len(loops[i]))]
    shared, every = set.intersection(*[n.parallel & n.loops for n in nodes]), set.union(*loops)
    if every != widest.loops:
        return None
    outer = [n for n in widest.loop_ids if n in shared]
    inner = [n for n in widest.loop_ids if n in every - shared]
    if not all(_fits_nest(n, outer, inner) for n in nodes):
        return None
    units = {n: None for node in nodes for d, n in enumerate(node.loop_ids) if d in node.unit_loops}
    reduced = {node.loop_ids[d] for node in nodes for d in node.reductions}
    return Structure(
        list(nodes), [*(u for u in units if u not in reduced), *outer], [*(u for u in units if u in reduced), *inner]
    )


#: A loop of a node: the index of the node and the loop dimension.
_Loop = tuple[int, int]


class _UnionFind:
    """Equivalence classes of loops."""

    def __init__(self) -> None:
        self._parent: dict[_Loop, _Loop] = {}

    def find(self, loop: _Loop) -> _Loop:
        """The representative of a loop's class."""
        while self._parent.get(loop, loop) != loop:
            loop = self._parent[loop]
        return loop

    def join(self, first: _Loop, second: _Loop) -> None:
        """Merges the classes of two loops."""
        self._parent[self.find(second)] = self.find(first)


def _unify(nodes: Sequence[Node], siblings: bool) -> bool:
    """Unifies the loops of producers and consumers: sets `loop_ids`. False where their accesses do not allow that."""
    edges = list(_edges(nodes))
    if not all(_is_compatible(nodes, *edge) for edge in edges):
        return False
    classes = _UnionFind()
    for (a, first), (b, second) in (*edges, *(_shared_reads(nodes) if siblings else ())):
        for left, right in zip(first.access, second.access, strict=True):
            if left.dim is not None and right.dim is not None:
                classes.join((a, left.dim), (b, right.dim))
    ids: dict[_Loop, int] = {}
    for n, node in enumerate(nodes):
        node.loop_ids = [ids.setdefault(classes.find((n, d)), len(ids)) for d in range(len(node.loop_ids))]
    # A unit loop of one node is a unit loop of all nodes: the types of other nodes may not show the size.
    units = {node.loop_ids[d] for node in nodes for d in node.unit_loops}
    for node in nodes:
        node.unit_loops |= {d for d, loop in enumerate(node.loop_ids) if loop in units}
    return all(len(set(node.loop_ids)) == len(node.loop_ids) for node in nodes)


def _edges(nodes: Sequence[Node]) -> Iterator[tuple[tuple[int, Use], tuple[int, Use]]]:
    """The producer-consumer edges: node and access that write a value, node and access that read it."""
    producers = {r: (n, i) for n, node in enumerate(nodes) for i, r in enumerate(node.results)}
    for consumer, node in enumerate(nodes):
        for use in (*node.inputs, *node.outputs):
            if use.value in producers:
                producer, result = producers[use.value]
                yield (producer, nodes[producer].outputs[result]), (consumer, use)


def _is_compatible(nodes: Sequence[Node], definition: tuple[int, Use], use: tuple[int, Use]) -> bool:
    """Whether positions that are no loop in the definition or in the use of a value are 0 in both."""
    (producer, stored), (consumer, loaded) = definition, use
    return all(
        (store.dim is not None and load.dim is not None)
        or (_is_always_zero(nodes[producer], store) and _is_always_zero(nodes[consumer], load))
        for store, load in zip(stored.access, loaded.access, strict=True)
    )


def _shared_reads(nodes: Sequence[Node]) -> list[tuple[tuple[int, Use], tuple[int, Use]]]:
    """Pairs of reads of one tensor by two nodes that read the tensor once each."""
    reads: dict[ir.Value, list[tuple[int, Use]]] = {}
    for index, node in enumerate(nodes):
        values = [u.value for u in node.inputs]
        for use in node.inputs:
            if values.count(use.value) == 1:
                reads.setdefault(use.value, []).append((index, use))
    return [pair for uses in reads.values() for pair in itertools.pairwise(uses)]


def _is_always_zero(node: Node, form: AffineForm) -> bool:
    """Whether a position is always 0."""
    return form.is_zero or form.dim in node.unit_loops


def _align_reductions(nodes: Sequence[Node]) -> None:
    """Aligns the other loops of nodes with the loops of the widest node that have the same sizes."""
    widest = max(nodes, key=lambda n: len(n.loops))
    for node in nodes:
        unshared, missing = node.loops - widest.loops, widest.loops - node.loops
        if not unshared or len(unshared) != len(missing):
            continue
        own, free = [n for n in node.loop_ids if n in unshared], [n for n in widest.loop_ids if n in missing]
        if all(_sizes(nodes, a) & _sizes(nodes, b) for a, b in zip(own, free, strict=True)):
            aligned = dict(zip(own, free, strict=True))
            for other in nodes:
                other.loop_ids = [aligned.get(n, n) for n in other.loop_ids]


def _sizes(nodes: Iterable[Node], loop: int) -> set[object]:
    """The known equals of the size of a loop: the static size, and dimensions of tensors."""
    sizes: set[object] = set()
    for node in nodes:
        for use in (*node.inputs, *node.outputs):
            for axis, form in enumerate(use.access):
                if form.dim is not None and node.loop_ids[form.dim] == loop:
                    sizes.add((use.value, axis))
                    size = static_size(use.value, axis)
                    sizes |= set() if size is None else {size}
    return sizes


def _fits_nest(node: Node, outer: list[int], inner: list[int]) -> bool:
    """Whether a node runs in all outer loops, and in all or none of the inner loops."""
    loops, reduced = node.loops, {node.loop_ids[d] for d in node.reductions} & node.loops
    if not loops >= set(outer):
        return False
    if loops == set(outer):
        # A reduction over a unit loop would become a reduction over the inner loops of other nodes.
        return not (node.reductions if inner else reduced)
    ordered = [n for n in node.loop_ids if n in set(inner)]
    return ordered == inner and reduced == (set(inner) if node.reductions else set())


def static_size(value: ir.Value, axis: int) -> int | None:
    """The size of a tensor's dimension, None for a dynamic size."""
    return _size(ir.ShapedType(value.type), axis)


def _size(shaped: ir.Type, axis: int) -> int | None:
    return None if shaped.is_dynamic_dim(axis) else shaped.get_dim_size(axis)


def loop_size(nodes: Iterable[Node], loop: int) -> int | None:
    """The static size of a structure's loop, None for a dynamic size."""
    for node in nodes:
        for use in (*node.inputs, *node.outputs):
            for axis, form in enumerate(use.access):
                if form.dim is not None and node.loop_ids[form.dim] == loop:
                    size = static_size(use.value, axis)
                    if size is not None:
                        return size
    return None


def is_contraction(node: Node) -> bool:
    """Whether a node sums products of two factors, each of which is read more than once."""
    if not node.reductions or len(node.inputs) < 2:
        return False
    factors = factors_of(node.body, len(node.inputs))
    every = set(range(len(node.loop_ids)))
    return factors is not None and all(
        node.dims(main_input(node, f)) < every and (f.is_converted or _is_widened(node, f)) for f in factors
    )


def main_inputs(node: Node) -> list[int]:
    """The indices of the main inputs of the two factors of a contraction."""
    return [main_input(node, factor) for factor in factors_of(node.body, len(node.inputs)) or ()]


def main_input(node: Node, factor: Factor) -> int:
    """The index of the input of a factor with the most loop dimensions."""
    return max(factor.inputs, key=lambda index: len(node.dims(index)))


def _is_widened(node: Node, factor: Factor) -> bool:
    """Whether a factor is computed from integers with fewer bits, one for each element of the factor."""
    main = main_input(node, factor)
    element = node.body.arguments[main].type
    return is_narrower(element, factor.value.type) and all(node.dims(n) <= node.dims(main) for n in factor.inputs)


def has_innermost_window(node: Node) -> bool:
    """Whether a window moves along the last dimension of an operand, as in convolutions with channels first."""
    return any(len(use.access[-1].dims) > 1 for use in node.inputs if use.access)


def has_unit_strides(node: Node) -> bool:
    """Whether every position of the inputs is one loop with stride 1: no windows, no larger strides."""
    terms = [[c for d, c in f.terms if d not in node.unit_loops] for use in node.inputs for f in use.access]
    return all(t in ([], [1]) for t in terms)


def reduces_contiguously(node: Node) -> bool:
    """Whether both operands of a product are contiguous along the one reduced loop."""
    return len(node.nonunit_reductions) == 1 and all(
        use.access and use.access[-1].dim in node.nonunit_reductions for use in node.inputs
    )
