"""Flat columns: the loops of a contraction's columns as one loop, such as the rows and columns of an image.

The columns of a convolution are contiguous in the result, but not in the image: windows of neighbouring rows overlap.
Where the image is packed, the panel has the columns without gaps, so that a block of columns may begin and end within
a row of the image:

    rows of the image       0 0 0 0 0 0 0   1 1 1 1 1 1 1   2 ..
    blocks of columns       | 0 0 0 0   0 0 0 1 | 1 1 1 1   1 1 2 ..

Input is the structure of a kernel around one contraction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node, Structure, Use
from oneflow.lowering.llvm.iteration_space import IterationSpace, Loop
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.writer import Writer


@dataclass
class FlatColumns(IterationSpace):
    """The space in which `columns`, loops of the structure, are one loop where all accesses but `packed` allow it."""

    columns: frozenset[int] = frozenset()
    packed: Use | None = None

    def _is_collapsible_access(self, node: Node, use: Use, a: int, b: int) -> bool:
        is_split = use is self.packed and {a, b} <= self.columns
        return is_split or super()._is_collapsible_access(node, use, a, b)

    def _loops_of(self, use: Use) -> list[Loop]:
        loops = super()._loops_of(use)
        return loops if use is not self.packed else [loop for loop in loops if loop.id not in self.columns]


def flat_columns(columns: frozenset[int], packed: Use) -> Callable[[Kernel, Structure, Writer], IterationSpace]:
    """The space with flat `columns` as a function of kernel, structure and writer."""
    return lambda kernel, structure, writer: FlatColumns(kernel, structure, writer, columns=columns, packed=packed)


@dataclass(frozen=True)
class ColumnRows:
    """The rows of flat columns in the packed operand: the loop along a row, and the loops over rows."""

    last: Loop
    loops: list[Loop]


def column_rows(space: IterationSpace, columns: Loop) -> ColumnRows | None:
    """The rows of flat `columns`; None for other columns."""
    if not isinstance(space, FlatColumns) or columns.id not in space.columns:
        return None
    *loops, last = (Loop((loop,), space.step_count(loop)) for loop in columns.loop_ids)
    return ColumnRows(last, loops)
