"""Quasi-affine accesses, such as `d0 floordiv 3`: reading operations that `kernels.nodes` refuses."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Access, AffineForm, Node, Unsupported, Use, read_access, read_node

#: The operators of affine expressions in Python, besides sums.
OPERATORS = ((ir.AffineMulExpr, "*"), (ir.AffineFloorDivExpr, "//"), (ir.AffineModExpr, "%"))


@dataclass(frozen=True)
class QuasiAffine(AffineForm):
    """A position that is an affine expression of MLIR over the loop dimensions; `terms` only lists the dimensions."""

    expression: ir.AffineExpr = field(kw_only=True)

    @property
    def dim(self) -> None:
        """None: the position is no single dimension."""
        return None

    @property
    def is_zero(self) -> bool:
        """False: the position is not known to be 0."""
        return False

    def replace_dims(self, dims: Sequence[int]) -> QuasiAffine:
        """The position over other dimensions: `d` becomes `dims[d]`."""
        count = max(dims) + 1
        dimensions = ir.AffineMap.get(len(dims), 0, [self.expression])
        replacement = ir.AffineMap.get(count, 0, [ir.AffineExpr.get_dim(d) for d in dims])
        composed = dimensions.results[0].compose(replacement)
        (expression,) = ir.AffineMap.get(count, 0, [composed]).results
        return QuasiAffine(tuple((dims[d], c) for d, c in self.terms), expression=expression)

    def text(self, positions: Mapping[int, str]) -> str:
        """The position as a Python expression over the names of positions; dimensions without a name are 0."""
        return affine_text(self.expression, positions)


def affine_text(
    expression: ir.AffineExpr, dimensions: Mapping[int, str], symbols: Mapping[int, str] | None = None
) -> str:
    """An affine expression of MLIR as a Python expression over the names of its dimensions and symbols.

    Dimensions and symbols without a name are 0.

    Raises:
        Unsupported: the expression has a `ceildiv`.
    """
    text = functools.partial(affine_text, dimensions=dimensions, symbols=symbols)
    if isinstance(expression, ir.AffineConstantExpr):
        return str(expression.value)
    if isinstance(expression, ir.AffineDimExpr):
        return dimensions.get(expression.position, "0")
    if isinstance(expression, ir.AffineSymbolExpr):
        return (symbols or {}).get(expression.position, "0")
    left, right = expression.lhs, expression.rhs
    if isinstance(expression, ir.AffineAddExpr):
        subtracted = _opposite(right)
        if subtracted is None:
            return f"{text(left)} + {text(right)}"
        is_sum = isinstance(subtracted, ir.AffineAddExpr)
        return f"{text(left)} - {f'({text(subtracted)})' if is_sum else text(subtracted)}"
    if isinstance(expression, ir.AffineMulExpr) and right == ir.AffineExpr.get_constant(-1):
        return f"-{_enclosed(text(left), left)}"
    operator = next((o for kind, o in OPERATORS if isinstance(expression, kind)), None)
    if operator is None:
        raise Unsupported(f"position {expression}")
    return f"{_enclosed(text(left), left)} {operator} {_enclosed(text(right), right)}"


def _enclosed(text: str, expression: ir.AffineExpr) -> str:
    """The text of an expression as an operand of a product or quotient."""
    return f"({text})" if isinstance(expression, ir.AffineBinaryExpr) else text


def _opposite(expression: ir.AffineExpr) -> ir.AffineExpr | None:
    """The constant or product without its minus sign; None for other expressions."""
    if isinstance(expression, ir.AffineConstantExpr) and expression.value < 0:
        return ir.AffineExpr.get_constant(-expression.value)
    if not isinstance(expression, ir.AffineMulExpr) or not isinstance(expression.rhs, ir.AffineConstantExpr):
        return None
    factor = expression.rhs.value
    if factor >= 0:
        return None
    return expression.lhs if factor == -1 else ir.AffineExpr.get_mul(expression.lhs, -factor)


def _dimensions(expression: ir.AffineExpr) -> set[int]:
    """The dimensions of an affine expression."""
    if isinstance(expression, ir.AffineBinaryExpr):
        return _dimensions(expression.lhs) | _dimensions(expression.rhs)
    return {expression.position} if isinstance(expression, ir.AffineDimExpr) else set()


def read_any_node(op: ir.Operation) -> Node:
    """A `linalg.generic` as a node, with quasi-affine accesses where they are not pure affine.

    Raises:
        Unsupported: the operation is no `linalg.generic`.
    """
    try:
        return read_node(op)
    except Unsupported:
        if op.name != "linalg.generic":
            raise
    maps = [a.value for a in op.attributes["indexing_maps"]]
    iterators = [str(a) for a in op.attributes["iterator_types"]]
    uses = [Use(v, _access(m)) for v, m in zip(op.operands, maps, strict=True)]
    count = len(uses) - len(op.results)
    reductions = frozenset(d for d, kind in enumerate(iterators) if "reduction" in kind)
    return Node(op, reductions, uses[:count], uses[count:], loop_ids=list(range(len(iterators))))


def find_any_node(op: ir.Operation) -> Node | None:
    """`read_any_node`, with None for other operations."""
    try:
        return read_any_node(op)
    except Unsupported:
        return None


def _access(affine_map: ir.AffineMap) -> Access:
    """The accesses of an indexing map."""
    return tuple(_position(affine_map, e) for e in affine_map.results)


def _position(affine_map: ir.AffineMap, expression: ir.AffineExpr) -> AffineForm:
    """One result of an indexing map as an affine or quasi-affine form."""
    try:
        return read_access(ir.AffineMap.get(affine_map.n_dims, 0, [expression]))[0]
    except Unsupported:
        return QuasiAffine(tuple((d, 1) for d in sorted(_dimensions(expression))), expression=expression)
