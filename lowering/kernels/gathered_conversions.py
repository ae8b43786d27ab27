"""Gathers from tables that are computed from integers: integers are gathered, and the gathered elements converted.

table = float(codes) * scale                       8 bits -> 32 bits for each element of the table
table[i, j]                                   ->   float(codes[i, j]) * scale[i]
"""

from __future__ import annotations

import math

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import find_node, loop_size
from oneflow.lowering.kernels.operand_fusion import conversions_of
from oneflow.lowering.kernels.recomputation import Recomputation


def convert_gathered(table: ir.Operation) -> None:
    """Lets operations gather from the sources of a converted table that has more elements than an operation reads."""
    for extract in [u.owner.operation for r in table.results for u in r.uses if u.owner.name == "tensor.extract"]:
        _convert_after(extract)


def _convert_after(extract: ir.Operation) -> None:
    """Converts an element after it is gathered, where that is less work."""
    user, conversions = find_node(extract.parent.operation), conversions_of(extract.operands[0])
    if user is None or not conversions:
        return
    steps = [loop_size([user], loop) for loop in user.loop_ids]
    if None in steps or math.prod(n or 0 for n in steps) >= _element_count(extract.operands[0].type):
        return
    with ir.InsertionPoint(extract), extract.location:
        element = Recomputation(conversions).element(list(extract.operands)[1:])
    extract.results[0].replace_all_uses_with(element)
    extract.erase()


def _element_count(table: ir.Type) -> int:
    """The number of elements of a tensor, 0 where a size is dynamic."""
    return math.prod(table.shape) if table.has_static_shape else 0
