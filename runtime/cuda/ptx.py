"""PTX as assemblers get it right.

ptxas of CUDA 12.8, which Triton 3.6 and 3.7 have, computes half of a sum of two packed 16-bit integers again where
only that half is needed, then with an immediate of 0 in place of what was added. LLVM packs positions in two
dimensions of a tensor so.
"""

from __future__ import annotations

import re

#: An operation on two packed 16-bit integers.
PACKED = re.compile(r"^([ \t]*)(add|min|max)\.([su])16x2[ \t]+([^,;]+), ([^,;]+), ([^,;]+);", re.MULTILINE)
#: The same on each half.
APART = """\
{0}{{
{0}.reg .b16 %low<2>, %high<2>;
{0}mov.b32 {{%low0, %high0}}, {4};
{0}mov.b32 {{%low1, %high1}}, {5};
{0}{1}.{2}16 %low0, %low0, %low1;
{0}{1}.{2}16 %high0, %high0, %high1;
{0}mov.b32 {3}, {{%low0, %high0}};
{0}}}"""


def halves_apart(text: str) -> str:
    """PTX whose packed 16-bit integers are computed half by half."""
    return PACKED.sub(lambda found: APART.format(*found.groups()), text)
