"""The text of the instructions of `targets/dot_product.py` on vectors of 32-bit lanes."""

from __future__ import annotations

from dataclasses import dataclass

from oneflow.lowering.llvm.writer import Writer
from oneflow.lowering.targets.dot_product import DotProduct


@dataclass(frozen=True)
class DotProductLanes:
    """An instruction on vectors of `lanes` i32, each with `group` elements."""

    writer: Writer
    instruction: DotProduct
    lanes: int

    @property
    def group(self) -> int:
        """The elements of a lane."""
        return self.instruction.group

    @property
    def width(self) -> int:
        """The elements of a vector."""
        return self.lanes * self.group

    @property
    def type(self) -> str:
        """The type of a vector of sums."""
        return f"vector<{self.lanes}xi32>"

    @property
    def element(self) -> str:
        """The type of an element."""
        return f"i{self.instruction.element_bits}"

    @property
    def elements(self) -> str:
        """The type of a vector of elements."""
        return f"vector<{self.width}x{self.element}>"

    @property
    def ones(self) -> str:
        """A vector whose elements are all 1."""
        return self.writer.constant(f"dense<{sum(1 << 32 // self.group * n for n in range(self.group))}>", self.type)

    @property
    def zeros(self) -> str:
        """A vector of sums that are 0."""
        return self.writer.constant("dense<0>", self.type)

    def add(self, total: str, left: str, right: str) -> str:
        """The sums `total` and the products of the elements of `left` and `right`, all vectors of i32."""
        operands = [self.writer.op(f"vector.bitcast {v} : {self.type} to {self.elements}") for v in (left, right)]
        types = [self.elements, self.elements]
        if self.instruction.accumulates:
            return self._call([total, *operands], [self.type, *types])
        return self.writer.op(f"arith.addi {total}, {self._call(operands, types)} : {self.type}")

    def _call(self, operands: list[str], types: list[str]) -> str:
        call = f'llvm.call_intrinsic "{self.instruction.intrinsic}"({", ".join(operands)})'
        return self.writer.op(f"{call} : ({', '.join(types)}) -> {self.type}")
