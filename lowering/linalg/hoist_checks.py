"""Loop-invariant code motion for checks of positions: out of the loops that a checked position does not depend on.

The position of a gathered row is checked once, not for each of its elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.scalar import Expr


def hoist_checks(positions: Sequence[Expr], extents: Sequence[c.Size], roots: Sequence[Expr]) -> list[Expr]:
    """`roots` where checked positions that depend on some loops only are read from a stage over these loops."""
    order = s.walk(roots)
    if all(node.kind != "checked" for node in order):
        return list(roots)
    loops = {id(p): loop for loop, p in enumerate(positions)}
    depends: dict[int, frozenset[int] | None] = {}
    done: dict[int, Expr] = {}
    for node in order:
        below = depends[id(node)] = _dependence(node, loops, depends)
        rebuilt = _rebuilt(node, done)
        if node.kind == "checked" and below is not None and len(below) < len(loops):
            rebuilt = _stage_read([(positions[i], extents[i]) for i in sorted(below)], rebuilt)
        done[id(node)] = rebuilt
    return [done[id(r)] for r in roots]


def _dependence(
    node: Expr, loops: dict[int, int], depends: dict[int, frozenset[int] | None]
) -> frozenset[int] | None:
    """The loops that a node depends on; None where it depends on an accumulator."""
    if id(node) in loops:
        return frozenset([loops[id(node)]])
    if node.kind == "arg":
        return None
    loops_below: frozenset[int] = frozenset()
    for arg in node.args:
        below = depends[id(arg)]
        if below is None:
            return None
        loops_below |= below
    return loops_below


def _rebuilt(node: Expr, done: dict[int, Expr]) -> Expr:
    args = tuple(done[id(a)] for a in node.args)
    same = all(a is b for a, b in zip(args, node.args, strict=True))
    return node if same else Expr(node.kind, args, node.dtype, node.value)


def _stage_read(loops: Sequence[tuple[Expr, c.Size]], checked: Expr) -> Expr:
    positions, extents = tuple(p for p, _ in loops), tuple(e for _, e in loops)
    stage = c.ElementWise(extents, dtypes.int64, positions, s.cast(checked, dtypes.int64))
    return s.cast(stage[positions], dtypes.index)


def substitute(root: Expr, values: dict[int, Expr]) -> Expr:
    """`root` with the nodes `values` substituted by id."""
    done = dict(values)
    for node in s.walk([root]):
        if id(node) not in done:
            done[id(node)] = _rebuilt(node, done)
    return done[id(root)]
