"""A workaround for a miscompilation in ptxas.

ptxas of CUDA 12.8 (in Triton 3.6 and 3.7) recomputes one half of a packed 16-bit integer addition where only that
half is needed, and then uses an immediate of 0 in place of the addend. LLVM emits such packed additions for positions
in two dimensions of a tensor. The packed operations are split into operations on each half.
"""

from __future__ import annotations

import re

#: An operation on two packed 16-bit integers.
PACKED = re.compile(r"^([ \t]*)(add|min|max)\.([su])16x2[ \t]+([^,;]+), ([^,;]+), ([^,;]+);", re.MULTILINE)
#: The same operation on each half.
HALF_BY_HALF = """\
{0}{{
{0}.reg .b16 %low<2>, %high<2>;
{0}mov.b32 {{%low0, %high0}}, {4};
{0}mov.b32 {{%low1, %high1}}, {5};
{0}{1}.{2}16 %low0, %low0, %low1;
{0}{1}.{2}16 %high0, %high0, %high1;
{0}mov.b32 {3}, {{%low0, %high0}};
{0}}}"""


def split_packed_halves(text: str) -> str:
    """PTX with each packed 16-bit integer operation split into its two halves."""
    return PACKED.sub(lambda match: HALF_BY_HALF.format(*match.groups()), text)
