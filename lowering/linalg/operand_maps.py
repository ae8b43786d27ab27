"""The operands of a `linalg.generic` and their indexing maps: which element reads become operands.

A read is an operand with an indexing map if its position is affine in the loops' positions and linalg's verifier
accepts it: a position that is one loop has to span the dimension, any other has to stay in bounds. With dynamic
extents these conditions are checked at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect import compute as c
from oneflow.dialect import scalar as s
from oneflow.dialect._mlir import ir
from oneflow.dialect.compute import Stage
from oneflow.dialect.scalar import Expr
from oneflow.lowering.linalg.sizes import Sizes, static_size


@dataclass(frozen=True)
class IterationDomain:
    """The loops of a `linalg.generic`: the nodes of positions, their extents, and the indices of reduction loops."""

    positions: tuple[Expr, ...]
    extents: tuple[c.Size, ...]
    reductions: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """The number of loops."""
        return len(self.positions)

    def select(self, loops: Sequence[int]) -> ir.AffineMap:
        """The map to the positions of `loops`."""
        return ir.AffineMap.get(self.rank, 0, [ir.AffineExpr.get_dim(i) for i in loops])

    @property
    def identity(self) -> ir.AffineMap:
        """The map to all positions."""
        return self.select(range(self.rank))

    def loops_without_extent(self, maps: Sequence[ir.AffineMap]) -> list[int]:
        """The loops whose extent is no dimension of an operand with one of `maps`."""
        plain = [result for m in maps for result in m.results]
        return [i for i in range(self.rank) if ir.AffineExpr.get_dim(i) not in plain]


@dataclass
class OperandMaps:
    """The operands of a `linalg.generic`, and the loads that are read through them.

    Attributes:
        operands: tensors with indexing maps, each pair once.
        operand_of: the index of a load's operand, by the load's id.
        equal_sizes: (load, dimension, loop) whose sizes have to be equal at run time.
        in_bounds: (load, dimension) whose positions have to be in bounds at run time.
    """

    operands: list[tuple[Stage, ir.AffineMap]] = field(default_factory=list)
    operand_of: dict[int, int] = field(default_factory=dict)
    equal_sizes: list[tuple[Expr, int, int]] = field(default_factory=list)
    in_bounds: list[tuple[Expr, int]] = field(default_factory=list)


def find_operands(domain: IterationDomain, roots: Sequence[Expr], sizes: Sizes) -> OperandMaps:
    """The loads below `roots` that become operands of a `linalg.generic` over `domain`."""
    return _OperandFinder(domain, sizes).run([n for n in s.walk(roots) if n.kind == "load"])


class _OperandFinder:
    def __init__(self, domain: IterationDomain, sizes: Sizes) -> None:
        self.domain, self.sizes = domain, sizes
        self.dims = [ir.AffineExpr.get_dim(i) for i in range(domain.rank)]
        self.by_node = {id(p): d for p, d in zip(domain.positions, self.dims, strict=True)}
        self.lengths = [static_size(e) for e in domain.extents]
        self.maps = OperandMaps()

    def run(self, loads: Sequence[Expr]) -> OperandMaps:
        maps = [(load, self._results(load)) for load in loads]
        spanned = {loop for load, results in maps for loop in self._spanned(load, results or ())}
        for load, results in maps:
            if results is not None:
                self._add(load, results, spanned)
        return self.maps

    def _results(self, load: Expr) -> list[ir.AffineExpr] | None:
        results = [self._result(position) for position in load.args]
        return None if any(r is None for r in results) else results

    def _result(self, position: Expr) -> ir.AffineExpr | None:
        """A position as an affine expression: a plain loop where the other loops of a sum have one step.

        Reductions keep the sum, by which kernels recognize windows.
        """
        result = affine(position, self.by_node)
        if result is None or result in self.dims or self.domain.reductions:
            return result
        zero = ir.AffineExpr.get_constant(0)
        steps = {n: zero if e == 1 else d for (n, d), e in zip(self.by_node.items(), self.lengths, strict=True)}
        plain = affine(position, steps)
        return plain if plain in self.dims else result

    def _spanned(self, load: Expr, results: Sequence[ir.AffineExpr]) -> list[int]:
        """The loops whose extent is known to be the size of a dimension of the load."""
        plain = [(dim, self.dims.index(r)) for dim, r in enumerate(results) if r in self.dims]
        return [loop for dim, loop in plain if self._same(load.value.shape[dim], self.domain.extents[loop])]

    def _same(self, a: c.Size, b: c.Size) -> bool:
        first, second = static_size(a), static_size(b)
        if first is not None or second is not None:
            return first == second
        return bool(self.sizes.extent(a) == self.sizes.extent(b))

    def _add(self, load: Expr, results: list[ir.AffineExpr], spanned: set[int]) -> None:
        equal_sizes, in_bounds, fits = [], [], True
        for dim, result in enumerate(results):
            if result not in self.dims:
                fits = fits and self._is_in_bounds(load, dim)
                if self._is_dynamic(load, dim):
                    in_bounds.append((load, dim))
                continue
            loop = self.dims.index(result)
            size, length = static_size(load.value.shape[dim]), self.lengths[loop]
            if self._same(load.value.shape[dim], self.domain.extents[loop]):
                continue
            if size is not None and length is not None:
                fits = fits and self._is_first(loop, size)
                results[dim] = ir.AffineExpr.get_constant(0)
            elif loop in spanned:
                equal_sizes.append((load, dim, loop))
            else:
                fits = False
                in_bounds.append((load, dim))
        self.maps.in_bounds += in_bounds
        if fits:
            self.maps.equal_sizes += equal_sizes
            self._bind(load, ir.AffineMap.get(self.domain.rank, 0, list(results)))

    def _is_first(self, loop: int, size: int) -> bool:
        """Whether a parallel loop has one step, which is the first element of a dimension of `size` elements."""
        return self.lengths[loop] == 1 and loop not in self.domain.reductions and size > 0

    def _is_in_bounds(self, load: Expr, dim: int) -> bool:
        """Whether linalg's verifier accepts a computed position: its first and last value are in the dimension.

        The verifier accepts all positions where the extent of a loop is dynamic.
        """
        size = static_size(load.value.shape[dim])
        if size in (None, 0) or None in self.lengths:
            return True
        first = evaluate(load.args[dim], dict.fromkeys(self.by_node, 0))
        last = evaluate(load.args[dim], {n: (e or 0) - 1 for n, e in zip(self.by_node, self.lengths, strict=True)})
        return min(first, last) >= 0 and max(first, last) < (size or 0)

    def _is_dynamic(self, load: Expr, dim: int) -> bool:
        """Whether a computed position depends on dynamic sizes."""
        loops = [i for i, p in enumerate(self.domain.positions) if p in s.walk([load.args[dim]])]
        return static_size(load.value.shape[dim]) is None or any(self.lengths[i] is None for i in loops)

    def _bind(self, load: Expr, indexing: ir.AffineMap) -> None:
        operands, key = self.maps.operands, self.sizes.identity(load.value)
        same = (i for i, (x, m) in enumerate(operands) if self.sizes.identity(x) == key and m == indexing)
        index = next(same, len(operands))
        if index == len(operands):
            operands.append((load.value, indexing))
        self.maps.operand_of[id(load)] = index


def affine(position: Expr, dims: Mapping[int, ir.AffineExpr]) -> ir.AffineExpr | None:
    """A position as an affine expression of the loops, None where it is not affine."""
    if id(position) in dims:
        return dims[id(position)]
    if position.kind == "const":
        return ir.AffineExpr.get_constant(position.value)
    if position.kind not in ("add", "sub", "mul", "floordiv", "neg"):
        return None
    args = [affine(a, dims) for a in position.args]
    if any(a is None for a in args):
        return None
    return _combined(position, args)


def _combined(position: Expr, args: Sequence[ir.AffineExpr]) -> ir.AffineExpr | None:
    literal = [a.kind == "const" for a in position.args]
    if position.kind == "neg":
        return args[0] * -1
    if position.kind == "add":
        return args[0] + args[1]
    if position.kind == "sub":
        return args[0] - args[1]
    if position.kind == "mul":
        return args[0] * args[1] if any(literal) else None
    positive = literal[1] and position.args[1].value > 0
    return ir.AffineExpr.get_floor_div(args[0], args[1]) if positive else None


_ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "neg": lambda a: -a,
}


def evaluate(position: Expr, at: Mapping[int, int]) -> int:
    """The value of an affine position at the positions `at` of the loops, by the nodes' ids."""
    if id(position) in at:
        return at[id(position)]
    if position.kind == "const":
        return int(position.value)
    return int(_ARITHMETIC[position.kind](*(evaluate(a, at) for a in position.args)))


def upper_bound(position: Expr, domain: IterationDomain) -> Expr | None:
    """The largest value of a position that is monotonic in all loops, as an expression; None if it may not be."""
    ends = {id(p): c.as_expr(e) - 1 for p, e in zip(domain.positions, domain.extents, strict=True)}
    return _substituted(position, ends)


def _substituted(position: Expr, ends: Mapping[int, Expr]) -> Expr | None:
    if id(position) in ends or position.kind == "const":
        return ends.get(id(position), position)
    constant = [a.kind == "const" and a.value >= 0 for a in position.args]
    grows = position.kind == "add" or (position.kind in ("sub", "floordiv") and constant[1])
    if not grows and not (position.kind == "mul" and any(constant)):
        return None
    first, second = (_substituted(a, ends) for a in position.args)
    return None if first is None or second is None else s.binary(position.kind, first, second)
