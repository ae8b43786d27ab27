"""The vectorized loop of a nest and its vector width, from element sizes, registers and caches of the target."""

from __future__ import annotations

import math
from collections.abc import Iterable

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Node, Structure
from oneflow.lowering.llvm.arg_reductions import arg_reduction_of
from oneflow.lowering.llvm.iteration_space import Loop, index_dims
from oneflow.lowering.llvm.lanes import NeedsScalars
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized
from oneflow.lowering.llvm.parallel_range import work_of
from oneflow.lowering.llvm.writer import Index


def vectorized_loop(nest: LoopNest) -> Loop | None:
    """The loop whose iterations are the lanes of a nest; None for scalars.

    Raises:
        NeedsScalars: the nest has no such loop.
    """
    if nest.vectorized is Vectorized.NONE:
        return None
    loops = nest.space.inner if nest.vectorized is Vectorized.INNER else nest.space.outer
    if not loops:
        raise NeedsScalars("no loop for lanes")
    return loops[-1]


def vector_width(nest: LoopNest, loop: Loop) -> int:
    """The number of lanes of `loop`: registers per step times lanes per register, halved for short loops."""
    least, narrowest = register_lanes(nest), nest.kernel.target.kernels.loops.min_lanes
    width = least * _registers_per_step(nest, loop)
    while isinstance(loop.size, int) and width > narrowest and width // 2 >= loop.size:
        width //= 2
    if nest.vectorized is Vectorized.INNER or not nest.space.inner:
        return width if isinstance(loop.size, int) else min(width, least)
    return _narrowed(nest, loop, width, least)


def register_lanes(nest: LoopNest) -> int:
    """The lanes of one vector register, for the widest element that the nodes compute with."""
    return nest.kernel.target.vector_bits // max(_widest_bits(nest.structure), 8)


def _registers_per_step(nest: LoopNest, loop: Loop) -> int:
    """The number of vector registers for the lanes of one step (the unroll factor)."""
    target, limits = nest.kernel.target, nest.kernel.target.kernels.loops
    if _has_strided_lanes(nest, loop):
        return 1
    if not nest.space.inner:
        return limits.pointwise_registers
    if nest.vectorized is Vectorized.OUTER:
        block = limits.column_block_bytes // target.vector_bytes if _only_combines(nest) else 0
        return max(limits.column_registers, block)
    has_arg_reduction = any(arg_reduction_of(n) for n in nest.structure.nodes)
    return limits.arg_reduction_registers if has_arg_reduction else limits.row_registers


def _only_combines(nest: LoopNest) -> bool:
    """Whether the kernel is one long reduction with few operations on each loaded element."""
    steps, limits = _static_product(loop.size for loop in nest.space.inner), nest.kernel.target.kernels.loops
    is_long = steps is None or steps >= limits.min_long_sum
    return is_long and len(nest.structure.nodes) == 1 and work_of(nest.structure.nodes, limits) <= 2


def _has_strided_lanes(nest: LoopNest, loop: Loop) -> bool:
    """Whether an operand is strided along the lanes: its gathers cost more than wide vectors save."""
    uses = ((n, u) for n in nest.structure.nodes for u in n.inputs)
    forms = (s.form for n, u in uses for s in nest.space.subscripts(n, u))
    return any(dict(form.terms).get(loop.id, 0) > 1 for form in forms)


def _narrowed(nest: LoopNest, loop: Loop, width: int, least: int) -> int:
    """A width of at least `least` lanes along an outer loop around inner loops.

    The width leaves parallel steps for several threads, and scratch buffers fit in the L2 cache.
    """
    inner_steps = _static_product(inner.size for inner in nest.space.inner)
    outer_steps = _static_product(outer.size for outer in nest.space.outer)
    if inner_steps is None or outer_steps is None or not isinstance(loop.size, int):
        return min(width, least)
    scratch = inner_steps if nest.structure.rowwise else 0
    limits = nest.kernel.target.kernels.loops
    most_scratch = nest.kernel.target.l2_bytes // limits.l2_bytes_per_element
    while width > least and (
        outer_steps < width * limits.min_parallel_steps
        or width * scratch > most_scratch
        or (-loop.size % width) * limits.max_idle_lanes > loop.size
    ):
        width //= 2
    return width


def _static_product(sizes: Iterable[Index]) -> int | None:
    """The product of sizes; None where a size is dynamic."""
    known = list(sizes)
    return None if any(isinstance(n, str) for n in known) else math.prod(n for n in known if isinstance(n, int))


def _widest_bits(structure: Structure) -> int:
    """The bits of the widest element that the nodes compute with."""
    return max(element_bits(e) for n in structure.nodes for e in _elements(n))


def _elements(node: Node) -> list[str]:
    """The element types in a body; indices count only where they vary by lane."""
    elements = [str(u.value.type.element_type) for u in (*node.inputs, *node.outputs)]
    elements += [str(r.type) for o in node.body.operations for r in o.operation.results]
    indexed = bool(index_dims(node))
    return [e for e in elements if e != "index" or indexed]
