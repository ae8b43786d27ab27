"""Quasi-affine accesses, such as `d0 floordiv 3`: reading operations that `kernels.nodes` refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Access, Linear, Node, Unsupported, Use, read_access, read_node


@dataclass(frozen=True)
class QuasiAffine(Linear):
    """A position as an MLIR expression in which `d<n>` are loop dimensions; `terms` only lists the dimensions."""

    expression: str = ""

    @property
    def dim(self) -> None:
        """None: the position is no single dimension."""
        return None

    @property
    def is_zero(self) -> bool:
        """False: the position is not known to be 0."""
        return False

    def renamed(self, names: Sequence[int]) -> QuasiAffine:
        """The position over other dimensions: `d` becomes `names[d]`."""
        text = re.sub(r"\bd(\d+)\b", lambda m: f"d{names[int(m[1])]}", self.expression)
        return QuasiAffine(tuple((names[d], c) for d, c in self.terms), 0, text)

    def text(self, positions: Mapping[int, str]) -> str:
        """The position as a Python expression over the names of positions; dimensions without a name are 0."""
        return affine_text(self.expression, positions)


def affine_text(expression: str, dimensions: Mapping[int, str], symbols: Mapping[int, str] | None = None) -> str:
    """An affine expression of MLIR as a Python expression over the names of its dimensions and symbols.

    Dimensions and symbols without a name are 0.

    Raises:
        Unsupported: the expression has a `ceildiv`.
    """
    if "ceildiv" in expression:
        raise Unsupported(expression)
    names = {"d": dimensions, "s": symbols or {}}
    text = re.sub(r"\b([ds])(\d+)\b", lambda m: names[m[1]].get(int(m[2]), "0"), expression)
    return text.replace(" floordiv ", " // ").replace(" mod ", " % ")


def read_any_node(op: ir.Operation) -> Node:
    """A `linalg.generic` as a node, with quasi-affine accesses where they are not linear.

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
    return Node(op, reductions, uses[:count], uses[count:], names=list(range(len(iterators))))


def find_any_node(op: ir.Operation) -> Node | None:
    """`read_any_node`, with None for other operations."""
    try:
        return read_any_node(op)
    except Unsupported:
        return None


def _access(affine_map: ir.AffineMap) -> Access:
    """The accesses of an indexing map."""
    return tuple(_position(affine_map, e) for e in affine_map.results)


def _position(affine_map: ir.AffineMap, expression: ir.AffineExpr) -> Linear:
    """One result of an indexing map as a linear or quasi-affine form."""
    try:
        return read_access(ir.AffineMap.get(affine_map.n_dims, 0, [expression]))[0]
    except Unsupported:
        text = str(expression)
        dims = sorted({int(d) for d in re.findall(r"\bd(\d+)\b", text)})
        return QuasiAffine(tuple((d, 1) for d in dims), 0, text)
