"""Instructions that multiply short integers and add adjacent products in each 32-bit lane of a vector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DotProduct:
    """One such instruction: lane i has the sum of the products of elements `group * i` to `group * (i + 1) - 1`.

    Sums are exact: they wrap around like 32-bit integers, and do not saturate.

    Attributes:
        intrinsic: the name in LLVM.
        group: the products of a lane.
        accumulates: whether the instruction has an accumulator operand, which is the first one.
        is_left_signed, is_right_signed: whether elements of the factors are signed.
    """

    intrinsic: str
    group: int
    accumulates: bool = False
    is_left_signed: bool = True
    is_right_signed: bool = True

    @property
    def element_bits(self) -> int:
        """The bits of an element."""
        return 32 // self.group


PMADDWD_128 = DotProduct("llvm.x86.sse2.pmadd.wd", group=2)
PMADDWD_256 = DotProduct("llvm.x86.avx2.pmadd.wd", group=2)
PMADDWD_512 = DotProduct("llvm.x86.avx512.pmaddw.d.512", group=2)
VPDPBUSD_256 = DotProduct("llvm.x86.avx512.vpdpbusd.256", group=4, accumulates=True, is_left_signed=False)
VPDPBUSD_512 = DotProduct("llvm.x86.avx512.vpdpbusd.512", group=4, accumulates=True, is_left_signed=False)
