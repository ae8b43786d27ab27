"""The factors of products of short integers: integers of memory, without their zero points.

    sum of (a - za) * (b - zb)  =  sum of a * b  -  za * sum of b  -  zb * sum of a  +  depth * za * zb

All sums are exact modulo 2^32, so `za` and `zb` are subtracted from the finished sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.factors import factors_of, sources_of
from oneflow.lowering.kernels.nodes import Node, Unsupported, main_input
from oneflow.lowering.llvm.writer import Writer
from oneflow.lowering.targets.dot_product import DotProduct

_EXTENSIONS = {"arith.extsi": True, "arith.extui": False}


@dataclass(frozen=True)
class ShortIntegers:
    """A factor: the main input, less a zero point.

    Attributes:
        input: the index of the main input.
        bits: the bits of an element of the main input.
        is_signed: whether the elements are signed.
        element_bits, is_element_signed: the elements that the instruction reads.
        zero: the zero point in the body; None for 0.
    """

    input: int
    bits: int
    is_signed: bool
    element_bits: int
    is_element_signed: bool
    zero: ir.Value | None

    @property
    def is_shifted(self) -> bool:
        """Whether a zero point or an offset is subtracted from the elements."""
        return self.zero is not None or self.offset != 0

    @property
    def offset(self) -> int:
        """The integer minus the element of the instruction: half of the range if the signedness differs, else 0."""
        if self.bits < self.element_bits or self.is_signed == self.is_element_signed:
            return 0
        return 1 << (self.bits - 1) if self.is_element_signed else -1 << (self.bits - 1)

    def element(self, writer: Writer, vector: str, count: int) -> str:
        """The elements for the instruction, from a vector of `count` integers."""
        kind, wide = f"vector<{count}xi{self.bits}>", f"vector<{count}xi{self.element_bits}>"
        if self.bits < self.element_bits:
            return writer.op(f"arith.ext{'s' if self.is_signed else 'u'}i {vector} : {kind} to {wide}")
        if not self.offset:
            return vector
        sign = writer.constant(f"dense<{-1 << (self.bits - 1)}>", kind)
        return writer.op(f"arith.xori {vector}, {sign} : {kind}")


def short_integers(node: Node, instruction: DotProduct, left: int) -> list[ShortIntegers]:
    """The left and the right factor of a product; `left` is the index of the main input of the left factor.

    Raises:
        Unsupported: a factor is not a short integer less a zero point, or the zero point varies along the depth.
    """
    factors = sorted(factors_of(node.body, len(node.inputs)) or (), key=lambda f: main_input(node, f) != left)
    are_signed = (instruction.is_left_signed, instruction.is_right_signed)
    return [
        _short_integers(node, main_input(node, f), f.value, instruction.element_bits, is_signed)
        for f, is_signed in zip(factors, are_signed, strict=True)
    ]


def _short_integers(node: Node, input: int, value: ir.Value, element_bits: int, is_signed: bool) -> ShortIntegers:
    zero: ir.Value | None = None
    if not isinstance(value, ir.BlockArgument) and value.owner.name == "arith.subi":
        value, zero = value.owner.operands
        if any(node.dims(n) & node.reductions for n in sources_of(node.body, zero)[0]):
            raise Unsupported("a zero point that varies along the depth")
    op, argument = None if isinstance(value, ir.BlockArgument) else value.owner, node.body.arguments[input]
    if op is None or op.name not in _EXTENSIONS or op.operands[0] != argument:
        raise Unsupported("a factor that is no short integer")
    bits, is_input_signed = argument.type.width, _EXTENSIONS[op.name]
    if bits % 8 or bits > element_bits or (bits == 16 and not is_input_signed):
        raise Unsupported("an integer that the instruction does not multiply")
    return ShortIntegers(input, bits, is_input_signed, element_bits, is_signed, zero)
