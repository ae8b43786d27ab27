"""Formats of floats of 8 and 16 bits that are converted by integer arithmetic, from and to f32."""

from __future__ import annotations

from dataclasses import dataclass

#: Bits of f32, of its mantissa, and of its infinity; the bias of its exponents.
F32_BITS, F32_MANTISSA_BITS, F32_INFINITY, F32_BIAS = 32, 23, 0x7F800000, 127


@dataclass(frozen=True)
class NarrowFloat:
    """A format of 8 or 16 bits.

    `special` is the least code without a sign that is no number: infinity, or NaN in a format without infinity.
    `special` is the code of numbers beyond the largest. `nan` is the code that NaN is converted to.
    """

    name: str
    bits: int
    mantissa_bits: int
    bias: int
    special: int
    nan: int

    @property
    def lost_bits(self) -> int:
        """The mantissa bits that f32 has more."""
        return F32_MANTISSA_BITS - self.mantissa_bits

    @property
    def bias_difference(self) -> int:
        """How much larger the exponent bias of f32 is."""
        return F32_BIAS - self.bias

    @property
    def exponent_offset(self) -> int:
        """The difference of the exponent biases of f32 and of the format, at the position of exponents in f32."""
        return self.bias_difference << F32_MANTISSA_BITS

    @property
    def smallest_normal(self) -> int:
        """The bits of the smallest normal number as f32."""
        return self.exponent_offset + (1 << F32_MANTISSA_BITS)

    @property
    def overflow(self) -> int:
        """The bits of the least f32 that would have the code `special`."""
        return self.exponent_offset + (self.special << self.lost_bits)

    @property
    def rounding(self) -> int:
        """The addend for the bits of an f32, besides the last kept bit, before the lower bits are dropped."""
        return (1 << self.lost_bits - 1) - 1 - self.exponent_offset

    @property
    def tiny_unit(self) -> float:
        """The power of two whose last bit, as f32, is the smallest number."""
        return 2.0 ** (1 - self.bias + self.lost_bits)

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << self.bits - 1

    @property
    def integer(self) -> str:
        """The type of codes."""
        return f"i{self.bits}"


NARROW_FLOATS = (
    NarrowFloat("f16", 16, 10, 15, 0x7C00, 0x7E00),
    NarrowFloat("f8E5M2", 8, 2, 15, 0x7C, 0x7F),
    NarrowFloat("f8E4M3FN", 8, 3, 7, 0x7F, 0x7F),
)
